"""What a NATS server sends: answers, headers, and messages of other programs."""

from types import SimpleNamespace
from typing import Any

from memory_sidecar.backend.jetstream import api, message
from memory_sidecar.backend.jetstream.client import _parsed
from memory_sidecar.store import document, rules
from memory_sidecar.store.errors import UnreadableError

__all__ = ["broker"]


def broker(data: bytes) -> None:
    """An answer is one or an error of ours; headers are names and values; a message is a note, described as it reads.

    The input is the headers of a message and, after an empty line, its body; the body is an answer too.
    """
    raw, _, body = data.partition(b"\r\n\r\n")
    _answer(body)
    _answer(data)
    found = _parsed(raw)
    for name in found:
        assert name.isascii()
        assert len(name.split()) <= 1
    _message(found, body)
    _message(api._headers(raw), body)


def _answer(data: bytes) -> None:
    made: Any = SimpleNamespace(data=data)
    try:
        assert isinstance(api._answer(made), dict)
    except (api.NoAnswerError, api.RefusedError) as error:
        assert str(error)


def _message(headers: dict[str, str], body: bytes) -> None:
    stored = api.Message("$KV.b.k", 7, headers, body, time="2026-01-01T00:00:00Z")
    revision = message.revision_of(stored)
    assert revision.startswith("7@")
    assert message.is_proof(stored) in (True, False)
    assert (message.free_at(stored) is None) == message.is_value(stored)
    replaced = message.replaced_by(stored)
    assert replaced is None or replaced >= 0
    told = message.described_by_header(stored)
    assert told is None or (len(told) <= rules.MAX_DESCRIPTION and told == rules.one_line(told))
    described = message.described(stored)
    own = message.Document(body)
    beside = message.described_by_header(api.Message("$KV.b.k", 7, own.headers, body, time=""))
    try:
        document.parse(body)
    except UnreadableError:
        return
    assert beside is None or beside == described[: rules.MAX_DESCRIPTION].rstrip(), "a listing tells another"
