"""What commands share: where they act, how they print, how they fail. No command is imported here."""
