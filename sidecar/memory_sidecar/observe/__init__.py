"""What operators are told: lines on stderr, and OpenTelemetry where it is configured. Never content."""
