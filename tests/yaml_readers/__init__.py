"""The YAML libraries that notes meet, and what they make of our headers and we of theirs."""
