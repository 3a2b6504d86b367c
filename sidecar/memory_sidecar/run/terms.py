"""What others know of a run: its id, how it may end, the files named after it, and the errors that refuse it. Pure.

Nothing else of `run` is imported here. A launch needs these terms, and reads or writes no journal yet.
"""

from ..hints import Final, Literal, words

__all__ = [
    "REASONS",
    "RUN_ID",
    "JournalError",
    "Reason",
    "RunBusyError",
    "RunRefusedError",
    "is_run_id",
    "journal_name",
    "stage_name",
]

RUN_ID: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
_CHARACTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_LONGEST: Final = 128

Reason = Literal["suspended", "completed", "error", "budget", "max_iterations"]
"""Why a run stopped. Every ending but `completed` can be resumed."""
REASONS: Final[tuple[Reason, ...]] = words(Reason)


class RunRefusedError(Exception):
    """A run cannot be opened as asked. The text is for the harness, with the remedy."""


class JournalError(Exception):
    """The journal cannot be used. The text is for the harness: what is wrong, and what to do."""


class RunBusyError(JournalError):
    """Another process, or another run of this one, has the journal open."""


def is_run_id(text: str) -> bool:
    """Whether `text` can name a run: it becomes a file name."""
    # As `RUN_ID` says it. A launch may have a name to judge, and loading `re` and compiling that would take longer.
    return (
        0 < len(text) <= _LONGEST
        and text.isascii()
        and text[0] not in "_-"
        and not text.encode().translate(None, _CHARACTERS)
    )


def journal_name(run: str) -> str:
    return f"{run}.jsonl"


def stage_name(run: str) -> str:
    """Where a short journal is made, by the one who holds the long one's lock. No run id starts with a dot."""
    return f".{journal_name(run)}.new"
