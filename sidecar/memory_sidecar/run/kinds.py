"""The table of record kinds: one row tells all there is to know of a kind. Pure.

Decoding, the published schema, replay, compaction, the ledger and `runs show` read it, and nothing else in this program
lists the kinds. A row without one of its columns does not construct, so the program does not start. To add a kind:
a row here with `since` one above `VERSION`, a builder in `records`, and `make schema`.

A journal says in its first record which version it is of: the highest `since` among its records and their fields. The
journal raises it when it takes the first record of a later version, so that an older program says "newer" where it
would have to say "damaged", and reads all journals that it can.
"""

import sys
from collections.abc import Iterator, Sequence

from ..hints import Final, Literal, words
from ..store.scope import SHOWN, Granted, Lost
from .columns import (
    COUNT,
    RUN,
    TEXT,
    TEXT_BY_NAME,
    TEXT_OR_NONE,
    TEXTS,
    Between,
    Field,
    Kind,
    Met,
    Placed,
    Reading,
    Record,
    RecordError,
    Told,
    one_of,
)
from .terms import REASONS

__all__ = [
    "HELD",
    "KINDS",
    "VERSION",
    "Listed",
    "anew",
    "by_meeting",
    "check",
    "counted",
    "moment",
    "version_of",
]


Listed = Literal["index", "memory_list"]
"""What shows all descriptions: the index at a run's start, and the tool."""

HELD: Final = "held"
"""Why a run has authority that its harness handed in: beside the reasons of `store.scope`."""

_GAINS: Final = (*words(Granted), HELD)
_LOSSES: Final = words(Lost)

_TIME: Final = Field(TEXT)
_STORE: Final = Field(TEXT, about="Fingerprint of the store in which revisions mean something.")
_LOCKDOWN: Final = Field(TEXT, required=False)
_HOST: Final = Field(
    TEXT, required=False, since=2, about="Name of the machine on which the run began, or goes on from here."
)


def _contradiction(record: Record) -> str:
    lost = record["why"] in _LOSSES
    return "its revision and its why contradict each other" if (record["revision"] is None) != lost else ""


_REVISION_AND_WHY: Final = Between(
    _contradiction,
    {
        "if": {"properties": {"revision": {"type": "null"}}},
        "then": {"properties": {"why": {"enum": list(_LOSSES)}}},
        "else": {"properties": {"why": {"enum": list(_GAINS)}}},
    },
)


# --- replay ------------------------------------------------------------------------------------------------------


def _begin(reading: Reading, record: Record) -> None:
    reading.state, reading.store, reading.tools = "running", record["store"], record["tools"]


def _go_on(reading: Reading, record: Record) -> None:
    # A snapshot follows in the same write; should a crash part them, another store still voids all.
    if record["store"] != reading.store:
        reading.keys = {}
    _begin(reading, record)


def _change(reading: Reading, record: Record) -> None:
    if record["revision"] is None:
        reading.keys.pop(record["key"], None)
    else:
        reading.keys[record["key"]] = record["revision"]


def _set_scope(reading: Reading, record: Record) -> None:
    reading.keys = dict(record["keys"])


def _end(reading: Reading, record: Record) -> None:
    reading.state = record["reason"]


def _leave(_reading: Reading, _record: Record) -> None:
    """The run is as it was."""


# --- the ledger --------------------------------------------------------------------------------------------------


def _met_none(_record: Record, _known: dict[str, str | None]) -> Iterator[Met]:
    return iter(())


def _met_changed(record: Record, known: dict[str, str | None]) -> Iterator[Met]:
    key, revision = record["key"], record["revision"]
    met = revision if revision is not None else record.get("met", known.get(key))
    known[key] = revision
    yield Met(key, record["why"], revision, met)


def _met_shown(record: Record, _known: dict[str, str | None]) -> Iterator[Met]:
    yield Met(record["key"], SHOWN, None, record["revision"])


def _met_held(record: Record, known: dict[str, str | None]) -> Iterator[Met]:
    for key, revision in record["keys"].items():
        if revision != known.get(key):
            # A snapshot that knows more than the changes before it: the harness brought that along.
            known[key] = revision
            yield Met(key, HELD, revision, revision)


# --- compaction --------------------------------------------------------------------------------------------------


def anew(_records: Sequence[Placed], _state: str) -> Sequence[Placed]:
    """The short journal has one of its own, made from what replay yields."""
    return ()


def by_meeting(_records: Sequence[Placed], _state: str) -> Sequence[Placed]:
    """What it says that the run met is kept meeting by meeting."""
    return ()


def _last_by_place(records: Sequence[Placed], _state: str) -> Sequence[Placed]:
    """The newest says which tools and which store; the others, in which stores and on which hosts the run has been."""
    return list({(record["store"], record.get("host")): (place, record) for place, record in records}.values())


def _last_by_what(records: Sequence[Placed], _state: str) -> Sequence[Placed]:
    """Of each kind of listing the last, which tells since when there were some."""
    kept: dict[str, Placed] = {}
    for place, record in records:
        _, before = kept.get(record["what"], (place, record))
        kept[record["what"]] = place, {**record, "since": before.get("since", before["time"])}
    return list(kept.values())


def _last_if_ended(records: Sequence[Placed], state: str) -> Sequence[Placed]:
    """The ending, after all else: what the harness handed in after it is told as a meeting, and none may follow it."""
    return [(sys.maxsize, record) for _, record in records[-1:]] if state != "running" else ()


# --- as rows for people ------------------------------------------------------------------------------------------


def moment(time: str) -> str:
    """An RFC 3339 time in UTC as people read it, to the second."""
    return time[:19].replace("T", " ") if time else "unknown"


def counted(number: int, one: str) -> str:
    """A number and what it counts, in the plural if need be."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _on(record: Record, mark: str = "") -> str:
    return f"{mark}on {record['host']}" if "host" in record else ""


def _told_change(record: Record) -> Told:
    revision = record["revision"] or record.get("met")
    if record["why"] == "stale":
        return Told("refused", record["key"], revision, "an overwrite was refused, or what the run knew is void")
    more = "whether its change was stored" if record["why"] == "unknown" else ""
    return Told(record["why"], record["key"], revision, more)


def _told_listing(record: Record) -> Told:
    since = f", and others since {moment(record['since'])}" if "since" in record else ""
    return Told("listed", more=f"the descriptions of {counted(record['notes'], 'note')}, by {record['what']}{since}")


def _told_scope(record: Record) -> Told | None:
    keys = record["keys"]
    return Told("held", more=f"authority over {counted(len(keys), 'note')}: {', '.join(keys)}") if keys else None


# --- the table ---------------------------------------------------------------------------------------------------

KINDS: Final[dict[str, Kind]] = {
    "meta": Kind(
        about="What the run is, and in which store its revisions mean something.",
        since=1,
        legal="first",
        time="created",
        fields={
            "version": Field(COUNT, about="Of the journal: a program that knows only lower ones does not read it."),
            "run": Field(RUN),
            "identity": Field(TEXT, about="The agent whose run it is; the run's id is a name within it."),
            "created": _TIME,
            "tools": Field(TEXTS),
            "store": _STORE,
            "lockdown": _LOCKDOWN,
            "host": _HOST,
            "compacted": Field(
                COUNT,
                required=False,
                about="The journal was made short: bytes of the records that were kept of it, after this one.",
            ),
            "forgotten": Field(TEXT, required=False, about="Some of what the run met up to this time is not kept."),
        },
        between=None,
        stands="always",
        apply=_begin,
        met=_met_none,
        kept=anew,
        told=lambda record: Told("started", more=_on(record)),
    ),
    "resumed": Kind(
        about="The run goes on, perhaps with other tools (its scope stays) or in another store (its scope does not).",
        since=1,
        legal="always",
        time="time",
        fields={"time": _TIME, "tools": Field(TEXTS), "store": _STORE, "lockdown": _LOCKDOWN, "host": _HOST},
        between=None,
        stands="always",
        apply=_go_on,
        met=_met_none,
        kept=_last_by_place,
        told=lambda record: Told("resumed", more=f"with {', '.join(record['tools'])}{_on(record, ', ')}"),
    ),
    "scope_change": Kind(
        about="Authority over one key was earned or lost.",
        since=1,
        legal="running",
        time="time",
        fields={
            "time": _TIME,
            "key": Field(TEXT),
            "revision": Field(TEXT_OR_NONE),
            "why": Field(
                one_of(*_GAINS, *_LOSSES),
                about="deleted: this run removed the note. stale: an overwrite was refused, or what the run knew is "
                "void. unknown: nobody knows whether its change was stored.",
            ),
            "met": Field(
                TEXT_OR_NONE,
                required=False,
                about="Of a loss: the revision that was removed, or that may be stored; in a journal that was made "
                "short, else the one known before.",
            ),
        },
        between=_REVISION_AND_WHY,
        stands="change",
        apply=_change,
        met=_met_changed,
        kept=by_meeting,
        told=_told_change,
    ),
    SHOWN: Kind(
        about="The model was shown the description of one note, in the refusal to create what exists. It grants "
        "nothing.",
        since=1,
        legal="running",
        time="time",
        fields={"time": _TIME, "key": Field(TEXT), "revision": Field(TEXT_OR_NONE)},
        between=None,
        stands="never",
        apply=_leave,
        met=_met_shown,
        kept=by_meeting,
        told=lambda record: Told("shown", record["key"], record["revision"], "its description, as it exists already"),
    ),
    "listed": Kind(
        about="The model was shown the descriptions of all notes there were. It grants nothing.",
        since=1,
        legal="running",
        time="time",
        fields={
            "time": _TIME,
            "what": Field(one_of(*words(Listed))),
            "notes": Field(COUNT, about="How many."),
            "since": Field(
                TEXT,
                required=False,
                about="In a journal that was made short: this record stands for all such listings from then on.",
            ),
        },
        between=None,
        stands="never",
        apply=_leave,
        met=_met_none,
        kept=_last_by_what,
        told=_told_listing,
    ),
    "scope": Kind(
        about="The whole scope, revisions by key. Replay starts from the newest one.",
        since=1,
        legal="always",
        time="time",
        fields={"time": _TIME, "keys": Field(TEXT_BY_NAME)},
        between=None,
        stands="base",
        apply=_set_scope,
        met=_met_held,
        kept=anew,
        told=_told_scope,
    ),
    "terminal": Kind(
        about="The run stopped.",
        since=1,
        legal="running",
        time="time",
        fields={
            "time": _TIME,
            "reason": Field(one_of(*REASONS)),
            "message": Field(TEXT, required=False),
        },
        between=None,
        stands="always",
        apply=_end,
        met=_met_none,
        kept=_last_if_ended,
        told=lambda record: Told(record["reason"], more=record.get("message", "")),
    ),
}

VERSION: Final = max(
    since for kind in KINDS.values() for since in (kind.since, *(f.since for f in kind.fields.values()))
)
"""The newest version that this program writes. A reader refuses a higher one."""


# --- what the table says of one record ---------------------------------------------------------------------------


def check(record: object) -> None:
    """Raise `RecordError` unless `record` has exactly the fields of its kind, each with a legal value."""
    if not isinstance(record, dict):
        raise RecordError("it is not an object")
    name = record.get("type")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise RecordError("its type is not known")
    if not COUNT.allows(record.get("seq")):
        raise RecordError("its seq is not legal" if "seq" in record else "its seq is missing")
    found = 2  # seq and type
    for name, (rule, required, _, _) in kind.fields.items():
        if name in record:
            found += 1
            if not rule.allows(record[name]):
                raise RecordError(f"its {name} is not legal")
        elif required:
            raise RecordError(f"its {name} is missing")
    if len(record) != found:
        raise RecordError("it has a field that its type does not know")
    problem = "" if kind.between is None else kind.between.problem(record)
    if problem:
        raise RecordError(problem)


def version_of(record: Record) -> int:
    """The lowest version that a journal with this record is of."""
    kind = KINDS[record["type"]]
    return max(kind.since, *(field.since for name, field in kind.fields.items() if name in record))
