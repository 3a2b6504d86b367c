"""The store: what every backend promises (`contract`), and the rules that none of them may bend."""
