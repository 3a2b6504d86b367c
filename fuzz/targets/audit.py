"""What strangers show to the audit and to guards: host files of all formats, messages of servers, offers, answers."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml

from exposure_policy.audit import hostfiles
from exposure_policy.audit.accept import AcceptError
from exposure_policy.audit.accept import load as load_accepted
from exposure_policy.audit.collect import Collector
from exposure_policy.audit.files import ambiguous
from exposure_policy.audit.frames import EventData, fault, is_json
from exposure_policy.audit.hosts import probe_host_config
from exposure_policy.audit.launch import TransportError, _Lines
from exposure_policy.audit.likeness import judge, offer_of, overlong
from exposure_policy.audit.result import Bounds
from exposure_policy.guards import own_answers, own_signs

from .common import chance, lengthened, linear, one_line, scratch, strict

__all__ = ["answers", "frames", "hosts", "offers"]

# --- host files --------------------------------------------------------------------------------------------------

_SIDECAR = {"command": "memory-sidecar", "args": ["serve"]}


def hosts(data: bytes) -> None:
    """Any file is a host's, read as its host reads it, or a reason says why not; a sidecar that is listed is found.

    The format is told by the first byte: `{` and `/` begin JSON with or without comments, `[` TOML, all else YAML.
    """
    ending = {b"{": "json", b"/": "json", b"[": "toml"}.get(data[:1], "yaml")
    _host_file(data, ending)
    if ending == "json":
        if long := lengthened(data):
            with linear():
                hostfiles._without_comments(long.decode(errors="replace"))
        found = strict(data)
        if isinstance(found, dict):
            _planted(found)
    path = scratch("accepted.toml", data)
    try:
        load_accepted(path)
    except AcceptError as error:
        one_line(str(error).replace(path, ""))


def _host_file(data: bytes, ending: str) -> None:
    path = scratch(f"host.{ending}", data)
    report = _probed(path)
    try:
        file = hostfiles.read_host_file(path)
    except (OSError, ValueError, RecursionError):
        assert report.unaudited, "a file that cannot be read is clean"
        return
    plain = _plainly(file.text, ending)
    if plain is not None:
        assert _same(file.data, plain), "the host reads another file"
    if ending == "json" and plain is not None:
        listed = json.loads(file.text, object_pairs_hook=_Pairs)
        assert bool(file.twice) == _twice(listed), "a key that stands twice"


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, as they stand."""


def _twice(node: object) -> bool:
    if isinstance(node, _Pairs):
        names = [name for name, _ in node]
        return len(set(names)) < len(names) or any(_twice(value) for _, value in node)
    return isinstance(node, list) and any(map(_twice, node))


def _plainly(text: str, ending: str) -> Any:
    try:
        if ending == "toml":
            return tomllib.loads(text)
        return yaml.safe_load(text) if ending == "yaml" else json.loads(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return None


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other or repr(one) == repr(other))  # not a number is not itself
    except RecursionError:
        return True


def _planted(found: dict[str, Any]) -> None:
    servers = found.get("mcpServers")
    whole = {**found, "mcpServers": {**(servers if isinstance(servers, dict) else {}), "planted": _SIDECAR}}
    # As people write it: a comment on each line, and a comma after each last member. No text holds a line break there.
    text = re.sub(r"(\n *[}\]])", r",\1", json.dumps(whole, indent=1)) + " /* the end"
    path = scratch("planted.json", text.replace("\n", ' // "x" /*\n').encode())
    assert _same(hostfiles.read_host_file(path).data, whole), "comments change what a file says"
    report = _probed(path)
    named = any(finding.name == "planted" for finding in report.findings)
    assert named or any("cannot be read" in reason for reason in report.unaudited), "a sidecar that is listed is missed"


def _probed(path: str) -> Any:
    collector = Collector("host-config", "the file", Bounds())
    probe_host_config(path, collector)
    report = collector.report()
    for reason in report.unaudited:
        assert len(reason.splitlines()) == 1, f"not one line: {reason!r}"
    return report


# --- messages of servers -----------------------------------------------------------------------------------------


def frames(data: bytes) -> None:
    """However a server's output is cut, the same messages; as events they are those that the HTML standard tells."""
    whole, cut = EventData(), EventData()
    events = [*whole.feed(data), *whole.end()]
    assert events == [event for chunk in _chunks(data) for event in cut.feed(chunk)] + cut.end(), "as it was cut"
    assert events == _by_the_standard(data), "another event than the standard tells"
    bounds = Bounds(received=600)
    lines, parts = _Lines(bounds, lambda _: None), _Lines(bounds, lambda _: None)
    told = [_message(one) for one in lines.feed(data)]
    assert told[:1] == [_message(one) for chunk in _chunks(data) for one in parts.feed(chunk)][:1]
    for line in data.split(b"\n"):
        found = fault(line)
        assert found is None or found[0]
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            assert found is None
        else:
            assert not line.strip().startswith((b"{", b"[")) or is_json(line)
            assert (ambiguous(line) is not None) == _twice(json.loads(line, object_pairs_hook=_Pairs))
    if long := lengthened(data):
        with linear():
            slow = EventData()
            for start in range(0, len(long), 512):
                slow.feed(long[start : start + 512])


def _message(one: Any) -> str:
    return f"fault: {one}" if isinstance(one, TransportError) else one.message.model_dump_json()


def _chunks(data: bytes) -> Iterator[bytes]:
    choices = chance(data)
    start = 0
    while start < len(data):
        end = start + choices.randint(1, 1 + len(data) // 4)
        yield data[start:end]
        start = end


def _by_the_standard(data: bytes) -> list[bytes]:
    """The data of each event, line by line: https://html.spec.whatwg.org/multipage/server-sent-events.html."""
    lines = re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf"))
    found, held = [], []
    for line in [*lines, b""]:
        field, colon, value = line.partition(b":")
        if not line:
            found += [b"\n".join(held)] if held else []
            held = []
        elif field == b"data":
            held.append(value.removeprefix(b" ") if colon else b"")
    return found


# --- offers and answers ------------------------------------------------------------------------------------------

_KINDS = ("tool", "prompt", "resource", "resource template", "skill", "server")


def offers(data: bytes) -> None:
    """Whatever a stranger offers is judged in time that grows with its length; one of memory's own is always found."""
    shown = strict(data)
    if not isinstance(shown, dict):
        shown = {"name": data[:40].decode(errors="replace"), "description": data[40:].decode(errors="replace")}
    offer = offer_of(chance(data).choice(_KINDS), shown)
    judge(offer)
    overlong(offer)
    own_signs.offer_signs(shown)
    own_signs.overlong(shown)
    meta = shown.get("_meta")
    marked = {**shown, "_meta": {**(meta if isinstance(meta, dict) else {}), "memory-sidecar/private": True}}
    named = {**shown, "name": "acme__memory_read"}
    for planted, rule in ((marked, "marker"), (named, "name")):
        assert rule in [sign.rule for sign in judge(offer_of("tool", planted))], f"the audit misses a {rule}"
        assert rule in [sign.rule for sign in own_signs.offer_signs(planted)], f"the guard misses a {rule}"
    if long := lengthened(data):
        text = long.decode(errors="replace")
        with linear():
            judge(offer_of("tool", {"name": text[:4096], "description": text}))
        with linear():
            own_signs.offer_signs({"name": text[:4096], "description": text})


_ANSWERS = (
    {"memories": [{"key": "k", "description": "d"}]},
    {"found": True, "key": "k", "description": "d", "content": "c"},
    {"found": False, "key": "k", "reason": "r"},
    {"written": False, "key": "k", "code": "exists", "reason": "r"},
)


def answers(data: bytes) -> None:
    """An answer of memory's that was kept is found in whatever text it stands; the look takes time by the length.

    The input is the text before it and, after a zero byte, what the note says.
    """
    before, _, told = data.decode(errors="replace").partition("\0")
    for text in (before, told, before + told):
        found = [*own_answers.text_signs(text)]
        assert not found or own_answers.hinted(text), "what has no hint of an answer is one"
    shown = strict(data)
    if shown is not None:
        for sign in own_answers.answer_signs(shown):
            assert len(sign.evidence) <= own_answers.EXCERPT + 2
    for answer in _ANSWERS:
        kept = {name: told if name in ("content", "reason") else value for name, value in answer.items()}
        assert any(True for _ in own_answers.answer_signs({"x": [before, kept]})), "an answer as an object is missed"
        for written in (json.dumps(kept), repr(kept), json.dumps(json.dumps(kept))):
            assert own_answers.hinted(written)
            assert any(True for _ in own_answers.text_signs(f"{before}\n{written}")), "an answer in a text is missed"
    if long := lengthened(data):
        with linear():
            for _ in own_answers.text_signs(long.decode(errors="replace")):
                pass
