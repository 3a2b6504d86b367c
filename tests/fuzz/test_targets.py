"""The cheap part of fuzzing: every kept input, and a few thousand made from them, on the same target functions."""

import ast
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from fuzz.targets import TARGETS, settings
from hypothesis import given
from hypothesis import strategies as st

from exposure_policy.audit import entries, frames, hostfiles
from exposure_policy.guards import own_answers, own_signs
from memory_sidecar import config
from memory_sidecar.backend.jetstream import context as nats_context
from memory_sidecar.backend.jetstream import credentials, message
from memory_sidecar.run import replay as replaying
from memory_sidecar.run import standings
from memory_sidecar.store import document, front_matter, portable
from memory_sidecar.store.rules import is_key
from memory_sidecar.wire import codec, eras
from memory_sidecar.wire.ticket import Ticket

FUZZ = Path(__file__).parents[2] / "fuzz"
MUTANTS = 500

names = pytest.mark.parametrize("name", TARGETS)


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((FUZZ / "corpus" / name).iterdir())]


def words(name: str) -> list[bytes]:
    lines = (FUZZ / "dictionaries" / f"{name}.dict").read_text().splitlines()
    return [ast.literal_eval(f"b{line}") for line in lines]


def mutated(chance: Random, inputs: list[bytes], words: list[bytes]) -> bytes:
    data = bytearray(chance.choice(inputs)[:768])
    for _ in range(chance.randint(1, 4)):
        start = chance.randint(0, len(data))
        end = min(len(data), start + chance.choice((0, 0, 1, 2, 8)))
        other = chance.choice(inputs)
        cut = chance.randint(0, len(other))
        data[start:end] = chance.choice(
            (b"", bytes([chance.randrange(256)]), chance.choice(words), other[cut : cut + 40], data[start:end] * 2)
        )
    return bytes(data)


@names
def test_inputs_that_were_kept(name: str) -> None:
    inputs = corpus(name)
    assert inputs
    for data in inputs:
        TARGETS[name](data)


@names
def test_inputs_made_from_them(name: str) -> None:
    chance, inputs, dictionary = Random(name), corpus(name), words(name)
    for _ in range(MUTANTS):
        data = mutated(chance, inputs, dictionary)
        try:
            TARGETS[name](data)
        except Exception as error:
            raise AssertionError(f"{name} fails on {data!r}") from error


@names
@given(st.data())
def test_any_bytes(name: str, data: st.DataObject) -> None:
    texts = st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
    TARGETS[name](data.draw(st.binary(max_size=200) | texts))


STEPS = (b"[", b'{"a":', b"- ", b"{a: ", b"? ")


@names
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_nesting_without_end(name: str, step: bytes) -> None:
    deep = step * 2500  # more than twice what Python's stack takes
    for data in (deep, b"---\ndescription: " + deep + b"\n---\n", b'{"url":' + deep, b"harness: " + deep):
        TARGETS[name](data)


def test_a_frame_of_the_real_limit() -> None:
    splitter = codec.Splitter()
    assert list(splitter.feed(b"x" * codec.MAX_FRAME + b"\n")) == [b"x" * codec.MAX_FRAME]
    assert list(splitter.feed(b"x" * (codec.MAX_FRAME + 1) + b"\n")) != [b"x" * (codec.MAX_FRAME + 1)]


# What a target is for, it finds


def catches(name: str) -> bool:
    try:
        for data in corpus(name):
            TARGETS[name](data)
    except Exception:  # noqa: BLE001 - whatever way it fails, it fails
        return True
    return False


class _Forgetful(codec.Splitter):
    def _add(self, part: bytes) -> None:
        super()._add(part if len(part) != 1 else b"")


def _quoting(text: bytes, name: str, environ: Any) -> Any:
    raise nats_context.ContextError(f"cannot read {text.decode()[:200]}")


def _telling(content: bytes) -> Any:
    raise nats_context.ContextError(f"the file holds {content[-90:].decode(errors='replace')!r}", "mend it")


_read_entry = document._entry
_read_record = replaying._record


def _grown(number: int, line: bytes) -> Any:
    record = _read_record(number, line)
    return {**record, "revision": "1"} if record["type"] == "scope_change" else record


_CAN = "io.modelcontextprotocol/clientCapabilities"

CONTROLS = {
    "a chunk is dropped": ("wire", codec, "Splitter", _Forgetful),
    "a number becomes infinite": (
        "wire",
        codec,
        "_decode",
        json.JSONDecoder(parse_constant=codec._refuse_constant).decode,
    ),
    "a description is cut": ("documents", document, "one_line", lambda text: text[:5]),
    "a body is trimmed": (
        "documents",
        document,
        "_entry",
        lambda description, whole, end: _read_entry(description, whole.rstrip(), end),
    ),
    "a loss is taken for a grant": ("journals", replaying, "_record", _grown),
    "a library's error comes through": ("configurations", config, "Exception", yaml.YAMLError),
    "a context is quoted": ("contexts", nats_context, "parse", _quoting),
    "a version is not asked for": (
        "modern",
        eras,
        "client_capabilities",
        lambda request: request.params["_meta"][_CAN],
    ),
    "a ticket is not compared": ("modern", Ticket, "matches", lambda *_: True),
    "another field is described": ("headers", front_matter, "_NAME", "name"),
    "a header is left out": ("exports", portable, "members", lambda entry: dict(entry._replace(header="")._asdict())),
    "no cache is whole": ("standings", standings, "crc32", lambda _: 0),
    "an identity climbs": ("identities", settings, "is_key", lambda text: "/" in text or is_key(text)),
    "a seed is quoted": ("credentials", credentials, "_private_key", _telling),
    "a description keeps its breaks": ("broker", message, "one_line", lambda text: text),
    "a command line is overlooked": ("hosts", entries, "_is_sidecar", lambda _: None),
    "a comment is kept": ("hosts", hostfiles, "_JSONC", re.compile("(x)")),
    "a carriage return ends no line": ("frames", frames, "_LINE_END", re.compile(rb"\n")),
    "a mark is overlooked": ("offers", own_signs, "MARK", "other/"),
    "a kept answer is overlooked": ("answers", own_answers, "SHAPES", ()),
}


@pytest.mark.parametrize("control", CONTROLS)
def test_control(control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, module, attribute, planted = CONTROLS[control]
    monkeypatch.setattr(module, attribute, planted, raising=False)
    assert catches(name)
