"""How a process ends: the exit statuses of every command, and the one error that keeps `serve` from starting.

Statuses from 64 on are those of sysexits.h. No other file writes a status as a number.
"""

from .hints import Final
from .remedy import RemedyError

__all__ = ["EX_CONFIG", "EX_FOUND", "EX_NOPERM", "EX_OK", "EX_USAGE", "StartError"]

EX_OK: Final = 0

EX_FOUND: Final = 1
"""The command ran, and something is wrong or was left out; the output names it."""

EX_USAGE: Final = 64
"""The command line is wrong, or `serve` was started by somebody who may not: without a ticket or a private pipe."""

EX_NOPERM: Final = 77
"""The exposure policy refused whoever spoke first."""

EX_CONFIG: Final = 78
"""A configuration, directory, store or journal cannot be used. The message is the remedy."""


class StartError(RemedyError):
    """Memory cannot be served. A harness gets problem and remedy as the answer to its first request."""
