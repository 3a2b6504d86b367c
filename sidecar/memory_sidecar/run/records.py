"""The records of a run's journal, built and as lines. Pure: no file is touched here.

One JSON object a line, closed by a checksum over the bytes before it, so that damage is found even where it
still parses. Which kinds there are, and the rules of each, is the table in `kinds`. (The checks are written out there
because loading a schema library would cost more than all the rest of a launch.)
"""

import os
import time
from collections.abc import Iterable, Mapping

from .. import jsontext
from ..hints import Final
from ..store.scope import SHOWN, Change
from .columns import FIRST_VERSION, Met, Record, RecordError
from .kinds import HELD, VERSION, Listed, check, version_of
from .terms import REASONS, RUN_ID, Reason, is_run_id

__all__ = [
    "HELD",
    "REASONS",
    "RUN_ID",
    "VERSION",
    "Listed",
    "Reason",
    "Record",
    "RecordError",
    "check",
    "decode",
    "decode_summed",
    "encode",
    "is_run_id",
    "listed",
    "meeting",
    "meta",
    "of_version",
    "parse",
    "resumed",
    "scope_change",
    "snapshot",
    "terminal",
    "timestamp",
]

MAX_MESSAGE: Final = 1000
"""Characters kept of the message that a harness gives with an ending: a note for people, not a log."""

_encode: Final = jsontext.encoder()
_decode: Final = jsontext.decoder()
_SUM: Final = rb',"sum":"([0-9a-f]{8})"}'
_SUM_BYTES: Final = len(b',"sum":"00000000"}')


def timestamp(now: float | None = None) -> str:
    """Now, or that many seconds since 1970, in UTC, as RFC 3339 with milliseconds."""
    now = time.time() if now is None else now
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"


def meta(*, run: str, identity: str, tools: Iterable[str], store: str, lockdown: str | None = None) -> Record:
    """The first record: what the run is, and in which store its revisions mean something."""
    record: Record = {
        "type": "meta",
        "version": FIRST_VERSION,
        "run": run,
        "identity": identity,
        "created": timestamp(),
        "tools": list(tools),
        "store": store,
        **_here(lockdown),
    }
    return record | {"version": version_of(record)}  # the journal raises it with the first record of a later one


def resumed(*, tools: Iterable[str], store: str, lockdown: str | None = None) -> Record:
    """The run goes on, perhaps with other tools (its scope stays) or in another store (its scope does not)."""
    return {"type": "resumed", "time": timestamp(), "tools": list(tools), "store": store, **_here(lockdown)}


def _here(lockdown: str | None) -> Record:
    """What the records of a beginning say of this process: what holds it, and the machine it runs on."""
    return ({} if lockdown is None else {"lockdown": lockdown}) | {"host": os.uname().nodename}


def scope_change(change: Change) -> Record:
    """One key's authority was earned or lost; or its description was shown, which changes nothing."""
    if change.why == SHOWN:
        return {"type": SHOWN, "time": timestamp(), "key": change.key, "revision": change.revision}
    told = change._asdict()
    if change.met is None:
        del told["met"]
    return {"type": "scope_change", "time": timestamp(), **told}


def meeting(met: Met, time: str) -> Record:
    """That the run met a note at `time`, as a record that says the same alone, without those before it."""
    if met.why == SHOWN:
        return {"type": SHOWN, "time": time, "key": met.key, "revision": met.met}
    record: Record = {"type": "scope_change", "time": time, "key": met.key, "revision": met.revision, "why": met.why}
    # What was known before a loss may not be told by the record before it any more.
    return record | ({"met": met.met} if met.revision is None else {})


def listed(what: Listed, notes: int, when: float | None = None) -> Record:
    """The model was shown the descriptions of all notes there were: `notes` of them, of which none is named here."""
    return {"type": "listed", "time": timestamp(when), "what": what, "notes": notes}


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
    from binascii import crc32

    body = _encode({"seq": seq, **record}).encode()[:-1]
    return b'%s,"sum":"%08x"}\n' % (body, crc32(body))


def parse(line: bytes) -> object:
    """The JSON value in `line` (without its newline), whatever its version made of it.

    Raises:
        RecordError: the checksum does not match, or it is not JSON.
    """
    body = line[:-_SUM_BYTES]
    import re
    from binascii import crc32

    found = re.compile(_SUM).fullmatch(line, len(body))
    if found is None:
        raise RecordError("it does not end in a checksum")
    if int(found[1], 16) != crc32(body):
        raise RecordError("its checksum does not match")
    return _value(body)


def _value(body: bytes) -> object:
    try:
        return _decode(body.decode() + "}")
    except (ValueError, RecursionError) as error:
        raise RecordError("it is not JSON") from error


def decode(line: bytes) -> Record:
    """The record in `line` (without its newline).

    Raises:
        RecordError: it cannot be parsed, or is not a record of a known kind.
    """
    return _checked(parse(line))


def decode_summed(line: bytes) -> Record:
    """As `decode`, of a line whose checksum was found to match.

    Raises:
        RecordError: it is not a record of a known kind.
    """
    return _checked(_value(line[:-_SUM_BYTES]))


def _checked(record: object) -> Record:
    check(record)
    return record  # type: ignore[return-value]


def of_version(version: int, data: bytes) -> bytes:
    """The journal `data` with another version in its first record."""
    line, rest = data.split(b"\n", 1)
    first = decode(line) | {"version": version}
    return encode({name: value for name, value in first.items() if name != "seq"}, 1) + rest
