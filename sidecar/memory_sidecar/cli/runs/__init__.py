"""Commands over the journals of runs."""
