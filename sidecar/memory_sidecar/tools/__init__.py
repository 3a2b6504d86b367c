"""The tools the model sees: what each is called, takes and says. `catalog` decides which exist."""
