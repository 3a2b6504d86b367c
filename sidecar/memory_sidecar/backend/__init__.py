"""Where notes are kept. `choose` opens the configured backend; nothing else imports one."""
