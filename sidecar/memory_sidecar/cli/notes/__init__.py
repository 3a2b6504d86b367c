"""Commands over the notes of one memory: list, show, export, import, copy, quarantine."""
