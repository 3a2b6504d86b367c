"""What a lock holds, in words, and the error of one that doesn't."""

from ...hints import Literal
from ...named_tuple import NamedTuple

__all__ = ["Held", "LockdownError", "Mode"]

Mode = Literal["auto", "require", "off"]


class LockdownError(Exception):
    """The process is not locked as asked for. The text is one line: what is missing, and what to do."""


class Held(NamedTuple):
    """What holds (after `lock`) or would hold (from `available`)."""

    landlock_abi: int | None
    """The Landlock version in force, None without Landlock."""
    seccomp: bool
    not_dumpable: bool
    reason: str
    """What is missing and why, in words; empty when everything holds."""

    def describe(self) -> str:
        """One line for `info` and for the meta record of a run."""
        parts = [] if self.landlock_abi is None else [f"Landlock (ABI {self.landlock_abi})"]
        parts += ["seccomp"] if self.seccomp else []
        parts += ["not dumpable"] if self.not_dumpable else []
        held = ", ".join(parts) or "nothing"
        return f"{held}; {self.reason}" if self.reason else held
