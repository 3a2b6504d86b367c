"""From a journal's bytes to the run as it was left. Pure, and the only reader of journals.

Newest wins: the last snapshot, then the changes after it. A last line without its newline was torn by a crash
before anyone was told of it, and does not count; anything else that is wrong is damage, and damage is never guessed
around.
"""

from collections.abc import Callable

from ..hints import Final
from ..named_tuple import NamedTuple
from .columns import Reading
from .kinds import KINDS, VERSION
from .records import Record, RecordError, check, parse

__all__ = [
    "DamagedError",
    "ForeignError",
    "MisplacedError",
    "NewerError",
    "Replayed",
    "Summary",
    "check_owner",
    "first_record",
    "replay",
    "summary",
]

_START: Final = b'{"seq":1,"type":"meta"'
"""How every journal begins, of whatever version."""


class DamagedError(Exception):
    """A journal cannot be trusted. `line` counts from 1."""

    problem = "the journal {path} is damaged"
    """What is wrong, for a sentence that goes on with the detail and ends with the remedy."""
    remedy = "restore it from a copy, or move it away to start the run anew without its authority"

    state = "damaged"

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        super().__init__(f"line {line}: {problem}")


class NewerError(DamagedError):
    """A newer version of this program wrote the journal. It is sound, and not for this one to read."""

    problem = "the journal {path} was written by a newer version"
    remedy = "resume the run with that version, or use another run id"

    state = "newer"


class ForeignError(DamagedError):
    """The file is no journal: another program's, under a name that a journal would have. It is never touched."""

    problem = "{path} is no journal of this program, or its beginning is damaged"
    remedy = "restore it from a copy, or move it away, or use another run id"

    state = "foreign"


class MisplacedError(DamagedError):
    """The journal is another run's: a copy, or of an id that the file system doesn't tell from this one."""

    problem = "the journal {path} is not this run's"
    remedy = "move it back to where it belongs, remove it if it is a copy, or use another run id"

    state = "misplaced"

    def __init__(self, run: str, identity: str) -> None:
        self.run, self.identity = run, identity
        """Whose it is."""
        super().__init__(1, f"it is the journal of run {run} of identity {identity}")


class Summary(NamedTuple):
    """What a journal says of its run, without the records."""

    first: Record
    number: int
    """How many records there are."""
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


class Replayed(NamedTuple):
    """What a journal says. The members are those of `Summary`, and the records themselves."""

    records: list[Record]
    """All of them, oldest first: the ledger."""
    length: int
    keys: dict[str, str]
    store: str
    tools: list[str]
    state: str
    created: str
    updated: str


def replay(data: bytes) -> Replayed | None:
    """Read a whole journal; None if it holds no whole record yet.

    Raises:
        DamagedError: a line is not a record, is out of order, or was written by a newer version; or the file is no
            journal at all.
    """
    records: list[Record] = []
    found = summary(data, records.append)
    return None if found is None else Replayed(records, *found[2:])


def summary(data: bytes, tell: Callable[[Record], object] = lambda _: None) -> Summary | None:
    """As `replay`, but each record is only handed to `tell`: all of a long journal take many times its own size.

    Raises:
        DamagedError: as `replay` does.
    """
    check_beginning(data)
    length = data.rfind(b"\n") + 1
    if not length:
        return None
    reading = Reading()
    first: Record = {}
    record: Record = {}
    number = start = 0
    while start < length:
        end = data.index(b"\n", start)
        number += 1
        record = _record(number, data[start:end])
        _check_order(number, record, reading.state)
        KINDS[record["type"]].apply(reading, record)
        first = first or record
        tell(record)
        start = end + 1
    return Summary(
        first,
        number,
        length,
        reading.keys,
        reading.store,
        reading.tools,
        reading.state,
        created=_written(first),
        updated=_written(record),
    )


def check_beginning(data: bytes) -> None:
    """Raise `ForeignError` unless `data` begins as a journal, or as one of which not even the first record is whole.

    A power cut can leave zeros where a record was on its way.
    """
    beginning = data[: len(_START)].rstrip(b"\0")
    if not _START.startswith(beginning):
        raise ForeignError(1, "a journal does not begin like that")


def first_record(data: bytes) -> Record | None:
    """The first record in the beginning of a journal of any version; None if it holds none."""
    line, newline, _ = data.partition(b"\n")
    try:
        record = parse(line) if newline else None
    except RecordError:
        return None
    return record if isinstance(record, dict) and record.get("type") == "meta" else None


def check_owner(first: Record, run: str, identity: str | None) -> None:
    """Raise `MisplacedError` if the journal with this first record is not that of `run`, of `identity` if given."""
    if first["run"] != run or identity not in (None, first["identity"]):
        raise MisplacedError(first["run"], first["identity"])


def _record(number: int, line: bytes) -> Record:
    try:
        record = parse(line)
        if number == 1:
            _check_version(record)  # before all else: nobody here knows what a newer version's records look like
        check(record)
    except RecordError as error:
        raise DamagedError(number, str(error)) from error
    return record  # type: ignore[return-value]


def _check_version(record: object) -> None:
    version = record.get("version") if isinstance(record, dict) and record.get("type") == "meta" else None
    if isinstance(version, int) and version > VERSION:
        raise NewerError(1, f"it is of version {version}; this program reads up to {VERSION}")


def _check_order(number: int, record: Record, state: str) -> None:
    if record["seq"] != number:
        raise DamagedError(number, f"its seq is {record['seq']}, not {number}")
    legal = KINDS[record["type"]].legal
    if number == 1 and legal != "first":
        raise DamagedError(number, "a journal starts with meta")
    if number > 1 and (legal == "first" or (legal == "running" and state != "running")):
        raise DamagedError(number, f"{record['type']} cannot follow here: the run was {state}")


def _written(record: Record) -> str:
    """When the record was written."""
    time: str = record[KINDS[record["type"]].time]
    return time
