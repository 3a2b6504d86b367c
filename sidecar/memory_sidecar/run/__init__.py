"""A run: its authority over the store, and the journal that lets it survive a suspend, a kill or a crash."""
