"""The records of a run's journal and their form as lines. Pure: no file is touched here.

One JSON object a line, closed by a checksum over the bytes before it, so that damage is found even where it
still parses. `journal.schema.json`, beside this file, publishes the same rules for other programs; a test holds
both equal. (The checks are written out here because loading a schema library would cost more than all the rest
of a launch.)
"""

import json
import re
import time
from binascii import crc32
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, get_args

from ..store.scope import SHOWN, Change, Granted, Lost

__all__ = [
    "HELD",
    "REASONS",
    "RUN_ID",
    "VERSION",
    "Listed",
    "Reason",
    "Record",
    "RecordError",
    "decode",
    "encode",
    "is_run_id",
    "listed",
    "meta",
    "resumed",
    "scope_change",
    "snapshot",
    "terminal",
    "timestamp",
]

VERSION: Final = 1
"""The journal format. A reader refuses a higher one."""

RUN_ID: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
_RUN_ID: Final = re.compile(RUN_ID)

Reason = Literal["suspended", "completed", "error", "budget", "max_iterations"]
"""Why a run stopped. Every ending but `completed` can be resumed."""
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

Listed = Literal["index", "memory_list"]
"""What shows all descriptions: the index at a run's start, and the tool."""

HELD: Final = "held"
"""Why a compacted journal knows a key whose authority the harness handed in: beside the kinds of `store.scope`."""

MAX_MESSAGE: Final = 1000
"""Characters kept of the message that a harness gives with an ending: a note for people, not a log."""

Record = dict[str, Any]
"""A record without its `seq` when built, with it when decoded."""

_SUM: Final = re.compile(rb',"sum":"([0-9a-f]{8})"}')
_SUM_BYTES: Final = len(b',"sum":"00000000"}')


class RecordError(ValueError):
    """A line is not a record. The text says what is wrong with it."""


def is_run_id(text: str) -> bool:
    """Whether `text` can name a run: it becomes a file name."""
    return _RUN_ID.fullmatch(text) is not None


def timestamp() -> str:
    """Now, in UTC, as RFC 3339 with milliseconds."""
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"


def meta(*, run: str, identity: str, tools: Iterable[str], store: str, lockdown: str | None = None) -> Record:
    """The first record: what the run is, and in which store its revisions mean something."""
    record: Record = {
        "type": "meta",
        "version": VERSION,
        "run": run,
        "identity": identity,
        "created": timestamp(),
        "tools": list(tools),
        "store": store,
    }
    if lockdown is not None:
        record["lockdown"] = lockdown
    return record


def resumed(*, tools: Iterable[str], store: str, lockdown: str | None = None) -> Record:
    """The run goes on, perhaps with other tools (its scope stays) or in another store (its scope does not)."""
    record: Record = {"type": "resumed", "time": timestamp(), "tools": list(tools), "store": store}
    if lockdown is not None:
        record["lockdown"] = lockdown
    return record


def scope_change(change: Change) -> Record:
    """One key's authority was earned or lost; or its description was shown, which changes nothing."""
    if change.why == SHOWN:
        return {"type": SHOWN, "time": timestamp(), "key": change.key, "revision": change.revision}
    told = change._asdict()
    if change.met is None:
        del told["met"]
    return {"type": "scope_change", "time": timestamp(), **told}


def listed(what: Listed, notes: int) -> Record:
    """The model was shown the descriptions of all notes there were: `notes` of them, of which none is named here."""
    return {"type": "listed", "time": timestamp(), "what": what, "notes": notes}


def snapshot(keys: Mapping[str, str]) -> Record:
    """The whole scope. Replay starts from the newest one."""
    return {"type": "scope", "time": timestamp(), "keys": dict(keys)}


def terminal(reason: Reason, message: str | None = None) -> Record:
    """The run stopped."""
    record: Record = {"type": "terminal", "time": timestamp(), "reason": reason}
    if message is not None:
        record["message"] = message[:MAX_MESSAGE]
    return record


def encode(record: Record, seq: int) -> bytes:
    """The line, newline included, of `record` as number `seq`."""
    body = json.dumps({"seq": seq, **record}, separators=(",", ":")).encode()[:-1]
    return b'%s,"sum":"%08x"}\n' % (body, crc32(body))


def decode(line: bytes) -> Record:
    """The record in `line` (without its newline).

    Raises:
        RecordError: the checksum does not match, or it is not a record of a known kind.
    """
    body = line[:-_SUM_BYTES]
    found = _SUM.fullmatch(line, len(body))
    if found is None:
        raise RecordError("it does not end in a checksum")
    if int(found[1], 16) != crc32(body):
        raise RecordError("its checksum does not match")
    try:
        record = json.loads(body + b"}")
    except (ValueError, RecursionError) as error:
        raise RecordError("it is not JSON") from error
    check(record)
    return record  # type: ignore[no-any-return]


def check(record: object) -> None:
    """Raise `RecordError` unless `record` has exactly the fields of its type, each of the right kind."""
    if not isinstance(record, dict):
        raise RecordError("it is not an object")
    kind = record.get("type")
    required = _REQUIRED.get(kind) if isinstance(kind, str) else None
    if required is None:
        raise RecordError("its type is not known")
    optional = _OPTIONAL.get(str(kind), {})
    for name in required:
        if name not in record:
            raise RecordError(f"its {name} is missing")
    for name, value in record.items():
        rule = required.get(name) or optional.get(name)
        if rule is None:
            raise RecordError("it has a field that its type does not know")
        if not rule(value):
            raise RecordError(f"its {name} is not legal")
    if kind == "scope_change" and (record["revision"] is None) != (record["why"] in get_args(Lost)):
        raise RecordError("its revision and its why contradict each other")


Rule = Callable[[object], bool]


def _text(value: object) -> bool:
    return isinstance(value, str)


def _text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _one_of(*allowed: str) -> Rule:
    return lambda value: isinstance(value, str) and value in allowed


_EVERY: Final[dict[str, Rule]] = {"seq": _whole, "type": _text}
_TIMED: Final[dict[str, Rule]] = {**_EVERY, "time": _text}
_REQUIRED: Final[dict[str, dict[str, Rule]]] = {
    "meta": {
        **_EVERY,
        "version": _whole,
        "run": lambda value: isinstance(value, str) and is_run_id(value),
        "identity": _text,
        "created": _text,
        "tools": _texts,
        "store": _text,
    },
    "resumed": {**_TIMED, "tools": _texts, "store": _text},
    "scope_change": {
        **_TIMED,
        "key": _text,
        "revision": _text_or_none,
        "why": _one_of(*get_args(Granted), HELD, *get_args(Lost)),
    },
    SHOWN: {**_TIMED, "key": _text, "revision": _text_or_none},
    "listed": {**_TIMED, "what": _one_of(*get_args(Listed)), "notes": _whole},
    "scope": {**_TIMED, "keys": lambda value: isinstance(value, dict) and all(map(_text, value.values()))},
    "terminal": {**_TIMED, "reason": _one_of(*REASONS)},
}
_OPTIONAL: Final[dict[str, dict[str, Rule]]] = {
    # `compacted`, `forgotten` and `since` are written by `compact`.
    "meta": {"lockdown": _text, "compacted": _whole, "forgotten": _text},
    "resumed": {"lockdown": _text},
    "scope_change": {"met": _text_or_none},
    "listed": {"since": _text},
    "terminal": {"message": _text},
}
