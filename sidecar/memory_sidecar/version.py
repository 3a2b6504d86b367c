"""The one place that states the version; packaging, `--version` and the handshake read it from here."""

__version__ = "0.1.0"
