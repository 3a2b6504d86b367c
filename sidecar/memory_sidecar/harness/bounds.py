"""How long the library waits for what, in seconds. Read as `bounds.NAME` where it is used."""

from typing import Final

__all__ = ["IDLE_STOP_SECONDS", "KILL_SECONDS", "START_SECONDS", "STOP_SECONDS"]

START_SECONDS: Final = 60.0
"""How long a sidecar may take to answer the first request. On files it takes a moment; for a broker it waits 10
seconds."""

STOP_SECONDS: Final = 20.0
"""How long a sidecar may take to suspend a run, or to end once its pipe is closed while a run is open; it gives calls
in flight 15 seconds itself."""

IDLE_STOP_SECONDS: Final = 5.0
"""How long it may take to end while no run is open: all that it may have to do is to send its telemetry."""

KILL_SECONDS: Final = 2.0
"""How long it may take if it has served nothing yet or is known not to answer; and, for any, to end on SIGTERM."""
