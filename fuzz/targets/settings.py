"""What an operator writes: configurations, NATS contexts and credentials; and names that become paths."""

import json
import os
import re
import string
import traceback
from types import SimpleNamespace
from typing import Any, Final

from memory_sidecar import config
from memory_sidecar.backend.jetstream import context as nats_context
from memory_sidecar.backend.jetstream import kept_secrets
from memory_sidecar.backend.jetstream.credentials import jwt_of, options_of
from memory_sidecar.backend.jetstream.options import JetStreamOptions, resolve_prefix
from memory_sidecar.backend.opened import BackendError
from memory_sidecar.launched_by import application
from memory_sidecar.run import directory as journals
from memory_sidecar.run.terms import is_run_id
from memory_sidecar.store.rules import is_key
from memory_sidecar.wire import messages
from memory_sidecar.wire.codes import CODES, Error
from memory_sidecar.wire.whose_run import named_run

from .common import one_line, scratch

__all__ = ["configurations", "contexts", "credentials", "identities"]


def configurations(data: bytes) -> None:
    """Any bytes are a configuration, or one line says what to mend."""
    try:
        found = config.parse(data)
    except config.ConfigError as error:
        one_line(str(error))
        return
    memory = found.memory
    assert isinstance(memory.enabled, bool)
    assert isinstance(memory.read_only, bool)
    assert isinstance(memory.no_index, bool)
    for text in (found.identity, found.nats_context, memory.backend):
        if text is not None:
            text.encode()


# --- NATS contexts -----------------------------------------------------------------------------------------------

_SECRET: Final = "zqXs3cretXqz"
_SECRETS: Final = ("user", "password", "token", "creds", "nkey", "user_jwt", "user_seed")
_ENVIRONMENT: Final = {"HOME": "/home/me", "A": "1"}


def contexts(data: bytes) -> None:
    """Any bytes are a context, or one line says why not; no secret of it is ever shown."""
    _context(data)
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(fields, dict):
        for name in _SECRETS:
            if isinstance(fields.get(name), str) and fields[name]:
                fields[name] += _SECRET
        if isinstance(fields.get("url"), str):
            fields["url"] = re.sub("@", f"{_SECRET}@", fields["url"])
        _context(json.dumps(fields).encode())


def _context(data: bytes) -> None:
    try:
        shown = repr(nats_context.parse(data, "name", _ENVIRONMENT))
    except nats_context.ContextError as error:
        one_line(str(error))
        shown = "".join(traceback.format_exception(error, limit=0))
    assert _SECRET not in shown, "a secret is shown"


# --- credentials -------------------------------------------------------------------------------------------------

_SEED: Final = b"SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
"""Of a user whose key nobody has: its bytes are 0 to 31."""


def credentials(data: bytes) -> None:
    """Any bytes in a credentials file are a JWT and a seed, or one line says why not; no part of them is ever shown.

    `SEED` stands for a seed that is sound: no chance finds its checksum. A seed that a file holds signs, unless it is
    damaged; and when the JWT ends is told or not, whatever it claims.
    """
    data = data.replace(b"SEED", _SEED)
    path = scratch("user.creds", data)
    for field in ("creds", "nkey"):
        context = nats_context.NatsContext("name", **{field: path})
        try:
            options = options_of(context)
            signed = options["signature_cb"]("nonce")
        except nats_context.ContextError as error:
            _tells_nothing(error, data)
            continue
        assert len(signed) == 88, "a signature of ed25519, in base64"
        if field == "creds":
            assert bytes(options["user_jwt_cb"]()) in data
    context = nats_context.NatsContext("name", creds=path)
    told = jwt_of(context)
    assert not told or b"BEGIN NATS USER JWT" in data
    for jwt in (told, data.decode(errors="replace")):
        for finding in kept_secrets._ends(nats_context.NatsContext("name", user_jwt=jwt)):
            one_line(finding.found)


def _tells_nothing(error: Exception, data: bytes) -> None:
    one_line(str(error))
    shown = "".join(traceback.format_exception(error, limit=0)).encode()
    for found in re.findall(rb"[A-Za-z0-9+/_=-]{24,}", data):
        assert found not in shown, "a secret is shown"


# --- names that become paths and subjects ------------------------------------------------------------------------

_LETTERS: Final = frozenset(string.ascii_letters + string.digits)
_OF_KEYS: Final = _LETTERS | frozenset("._=-")
_OF_RUNS: Final = _LETTERS | frozenset("_-")
_PLACES: Final = "/journals"


def identities(data: bytes) -> None:
    """A name of an identity or a run is one plain name below its directory, or none at all.

    The input is an identity, a run, a key, and the words of a command line, with zero bytes between.
    """
    identity, run, key, *words = [*data.decode(errors="surrogateescape").split("\0"), "", ""][:16]
    for text in (identity, run, key):
        plain = 0 < len(text) <= 200 and _OF_KEYS.issuperset(text)
        assert is_key(text) == (plain and text[0] != "." and text[-1] != "." and ".." not in text)
        assert is_run_id(text) == (0 < len(text) <= 128 and _OF_RUNS.issuperset(text) and text[0] in _LETTERS)
    if is_key(identity):
        _one_below(journals.identity_directory(_PLACES, identity), _PLACES)
        if is_key(key):
            _subject(identity, key)
    if is_run_id(run):
        name, stage = journals.journal_name(run), journals.stage_name(run)
        _one_below(os.path.join(_PLACES, name), _PLACES)
        assert stage.startswith("."), "a stage may have a run's name"
        assert not is_key(stage)
    for service in (SimpleNamespace(many=True), SimpleNamespace(many=False)):
        _asked(service, identity, run)
    _launched([identity, run, key, *words])


def _one_below(path: str, directory: str) -> None:
    assert os.path.normpath(path) == path
    assert os.path.dirname(path) == directory
    assert len(os.fsencode(os.path.basename(path))) < 255


def _subject(identity: str, key: str) -> None:
    prefix = resolve_prefix(JetStreamOptions("bucket"), identity)
    name = f"{prefix}.{key}"
    assert all(token and _OF_KEYS.issuperset(token) for token in name.split(".")), "a subject with a wildcard"
    try:
        resolve_prefix(JetStreamOptions("bucket", prefix=f"{identity}."), identity)
    except BackendError as error:
        one_line(str(error))
    else:
        raise AssertionError("a prefix that ends in a dot")


def _asked(service: Any, identity: str, run: str) -> None:
    """What the wire takes for the run of a request is what may become a path."""
    params: dict[str, Any] = {"run": run, "identity": identity}
    meta = {messages.RUN: run, messages.IDENTITY: identity}
    for request in (
        messages.Request(1, messages.RUN_OPEN, params),
        messages.Request(1, messages.TOOLS_CALL, {"_meta": meta}),
        messages.Request(1, messages.TOOLS_CALL, {"_meta": {messages.RUN: run}}),
    ):
        try:
            name = named_run(service, request)
        except Error as error:
            assert error.code in CODES
            one_line(str(error))
            continue
        assert name is not None
        assert (name.identity is not None) == service.many, "a run of nobody, or of somebody who was not to be named"
        assert name.identity is None or is_key(name.identity)
        assert request.method == messages.TOOLS_CALL or is_run_id(name.run)


def _launched(words: list[str]) -> None:
    """Which program launched this is certain or not told; its name stands in its command line."""
    found = application(words)
    assert bool(found.name) != bool(found.why_not)
    if found.name:
        assert "/" not in found.name
        assert any(found.name in word for word in words)
        assert application(words) == found
