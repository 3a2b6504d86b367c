"""From a journal's bytes to the run as it was left. Pure, and the only reader of journals.

Newest wins: the last snapshot, then the changes after it. A last line without its newline was torn by a crash
before anyone was told of it, and does not count; anything else that is wrong is damage, and damage is never guessed
around.
"""

from typing import Final, NamedTuple

from .records import VERSION, Record, RecordError, decode

__all__ = ["DamagedError", "NewerError", "Replayed", "replay"]


class DamagedError(Exception):
    """A journal cannot be trusted. `line` counts from 1."""

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        super().__init__(f"line {line}: {problem}")


class NewerError(DamagedError):
    """A newer version of this program wrote the journal. It is sound, and not for this one to read."""


class Replayed(NamedTuple):
    """What a journal says."""

    records: list[Record]
    """All of them, oldest first: the ledger."""
    length: int
    """Bytes that hold whole records; a torn tail begins here."""
    keys: dict[str, str]
    """The scope: revisions by key."""
    store: str
    """Fingerprint of the store that the scope belongs to."""
    tools: list[str]
    state: str
    """`running` (no ending is recorded), or the reason of the last ending."""
    created: str
    updated: str


# Which types of record may follow, by whether the run has ended. The first record is `meta`, and only it.
_LEGAL: Final = {
    "running": {"scope_change", "shown", "listed", "scope", "terminal", "resumed"},
    "ended": {"scope", "resumed"},
}


def replay(data: bytes) -> Replayed | None:
    """Read a whole journal; None if it holds no whole record yet.

    Raises:
        DamagedError: a line is not a record, is out of order, or was written by a newer version.
    """
    length = data.rfind(b"\n") + 1
    if not length:
        return None
    records: list[Record] = []
    keys: dict[str, str] = {}
    store = state = updated = ""
    tools: list[str] = []
    for number, line in enumerate(data[: length - 1].split(b"\n"), 1):
        try:
            record = decode(line)
        except RecordError as error:
            raise DamagedError(number, str(error)) from error
        _check_order(number, record, state)
        kind = record["type"]
        if kind == "meta":
            state, store, tools = "running", record["store"], record["tools"]
        elif kind == "resumed":
            # A snapshot follows in the same write; should a crash part them, another store still voids all.
            if record["store"] != store:
                keys = {}
            state, store, tools = "running", record["store"], record["tools"]
        elif kind == "terminal":
            state = record["reason"]
        elif kind == "scope":
            keys = dict(record["keys"])
        elif kind == "scope_change" and record["revision"] is None:
            keys.pop(record["key"], None)
        elif kind == "scope_change":
            keys[record["key"]] = record["revision"]
        updated = record["created"] if kind == "meta" else record["time"]
        records.append(record)
    return Replayed(records, length, keys, store, tools, state, records[0]["created"], updated)


def _check_order(number: int, record: Record, state: str) -> None:
    if record["seq"] != number:
        raise DamagedError(number, f"its seq is {record['seq']}, not {number}")
    if number == 1:
        if record["type"] != "meta":
            raise DamagedError(number, "a journal starts with meta")
        if record["version"] > VERSION:
            raise NewerError(number, f"it is of version {record['version']}; this program reads up to {VERSION}")
    elif record["type"] not in _LEGAL["running" if state == "running" else "ended"]:
        raise DamagedError(number, f"{record['type']} cannot follow here: the run was {state}")
