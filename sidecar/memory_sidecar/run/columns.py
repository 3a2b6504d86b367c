"""What the columns of the table of record kinds hold: a row's type, and the rules that fields have. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..hints import Any, Final, Literal
from ..named_tuple import NamedTuple
from .terms import RUN_ID, is_run_id

__all__ = [
    "COUNT",
    "FIRST_VERSION",
    "RUN",
    "TEXT",
    "TEXTS",
    "TEXT_BY_NAME",
    "TEXT_OR_NONE",
    "Between",
    "Field",
    "Kind",
    "Met",
    "Placed",
    "Reading",
    "Record",
    "RecordError",
    "Rule",
    "Told",
    "one_of",
]

FIRST_VERSION: Final = 1
"""The first version of the journal."""

Record = dict[str, Any]
"""A record without its `seq` when built, with it when decoded."""

Placed = tuple[int, Record]
"""A record and its index among all records of its journal."""


class RecordError(ValueError):
    """A line is not a record. The text says what is wrong with it."""


class Rule(NamedTuple):
    """What a field's value may be: as a check, and as JSON Schema for other programs. A test holds both equal."""

    allows: Callable[[object], bool]
    schema: Mapping[str, Any]


class Field(NamedTuple):
    """One field of a kind."""

    rule: Rule
    required: bool = True
    since: int = FIRST_VERSION
    about: str = ""


class Between(NamedTuple):
    """A rule between several fields of one record."""

    problem: Callable[[Record], str]
    """What contradicts what; "" if nothing does."""
    schema: Mapping[str, Any]


class Met(NamedTuple):
    """That a run met a note."""

    key: str
    why: str
    """As in a `scope_change`; `held`: the harness handed the authority in; `shown`: its description was shown."""
    revision: str | None
    """What the run knew afterwards; what was `shown` it doesn't know."""
    met: str | None
    """What it met: of a loss, what the record says was removed or may be stored, else the revision known before."""


class Told(NamedTuple):
    """A record as a row of `runs show`."""

    what: str
    key: str = ""
    revision: str | None = None
    more: str = ""


class Reading:
    """The run as a journal tells of it, as far as it has been read."""

    __slots__ = ("keys", "state", "store", "tools")

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}
        self.store = ""
        self.tools: list[str] = []
        self.state = ""
        """`running` until an ending is read, then its reason."""


class Kind(NamedTuple):
    """One row. No column has a default: whoever adds a kind decides each of them."""

    about: str
    """What a record of it says, for the published schema; "" where its name tells."""
    since: int
    """The journal's version that has it."""
    legal: Literal["first", "running", "always"]
    """Where it may stand: as the first record and nowhere else, while the run goes on, or after its ending too."""
    time: Literal["created", "time"]
    """The field with the time at which it was written."""
    fields: Mapping[str, Field]
    """Beside `seq` and `type`, which all have."""
    between: Between | None
    """A rule between its fields, if there is one."""
    stands: Literal["always", "base", "change", "never"]
    """Which records of it tell how the run stands: all of them; the newest, which replaces all changes before it; those
    after the newest base; none. A listing parses no other."""
    apply: Callable[[Reading, Record], None]
    """Replay: what it does to the run as read so far."""
    met: Callable[[Record, dict[str, str | None]], Iterator[Met]]
    """The ledger: which notes it says that the run met. It is given the revisions known before, and updates them."""
    kept: Callable[[Sequence[Placed], str], Sequence[Placed]]
    """Compaction: what stays of all records of the kind, given the state of the run; `anew` and `by_meeting` are for
    what a short journal tells in another way."""
    told: Callable[[Record], Told | None]
    """`runs show`: its row; None if it tells nothing."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def one_of(*allowed: str) -> Rule:
    return Rule(lambda value: isinstance(value, str) and value in allowed, {"enum": list(allowed)})


TEXT: Final = Rule(_is_text, {"type": "string"})
TEXT_OR_NONE: Final = Rule(lambda value: value is None or isinstance(value, str), {"type": ["string", "null"]})
COUNT: Final = Rule(
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1,
    {"type": "integer", "minimum": 1},
)
TEXTS: Final = Rule(
    lambda value: isinstance(value, list) and all(map(_is_text, value)),
    {"type": "array", "items": {"type": "string"}},
)
TEXT_BY_NAME: Final = Rule(
    lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    {"type": "object", "additionalProperties": {"type": "string"}},
)
RUN: Final = Rule(
    lambda value: isinstance(value, str) and is_run_id(value),
    # `$` of many libraries also matches before a line break at the end.
    {"type": "string", "pattern": f"^{RUN_ID}(?!\\n)$"},
)
