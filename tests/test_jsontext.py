"""JSON without `json` is what `json` makes of it: the same values, the same texts, and errors of the same kind."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sidecar import jsontext

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
BROKEN = ("", " ", "{", "[1,]", '{"a" 1}', '"\x01"', "nul", "01", "1 2", "{} x", "\ufeff{}", "'a'", '"\\x"', "[" * 5)


@given(VALUES, st.sampled_from(["", " ", "\n\t\r "]))
def test_what_is_written_and_read(value: Any, space: str) -> None:
    text = json.dumps(value, separators=(",", ":"))
    readable = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert jsontext.encoder()(value) == text
    assert jsontext.encoder(ensure_ascii=False)(value) == readable
    assert jsontext.decoder()(space + readable + space) == jsontext.decoder()(text) == json.loads(text)


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \\u\n', max_size=12))
def test_any_text_is_read_or_refused_as_json_does(text: str) -> None:
    assert outcome(jsontext.decoder(), text) == outcome(json.JSONDecoder().decode, text)


def outcome(decode: Any, text: str) -> tuple[str, str]:
    try:
        return "value", repr(decode(text))
    except ValueError as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "1e999"])
def test_what_the_caller_refuses(text: str) -> None:
    def refuse(word: str) -> Any:
        raise ValueError(f"no {word}")

    with pytest.raises(ValueError, match="no "):
        jsontext.decoder(refuse, refuse)(text)


def test_what_is_nested_too_deeply_or_no_json() -> None:
    with pytest.raises(RecursionError):
        jsontext.decoder()("[" * 100_000)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        jsontext.encoder()(endless)
    with pytest.raises(TypeError, match="bytes"):
        jsontext.encoder()([b""])


def test_json_is_loaded_for_what_is_no_json_alone() -> None:
    """In a process of its own: Python 3.11 has no words for what is wrong while `json` isn't loaded."""
    program = f"""
import sys
from memory_sidecar import jsontext
decode = jsontext.decoder()
assert decode(jsontext.encoder()({{"a": [1.5, None]}})) == {{"a": [1.5, None]}}
assert not {{"json", "re", "enum"}} & set(sys.modules)
for text in {BROKEN!r}:
    for name in [name for name in sys.modules if name.split(".")[0] == "json"]:
        del sys.modules[name]
    try:
        decode(text)
    except ValueError as error:
        print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [" ".join(outcome(json.JSONDecoder().decode, text)) for text in BROKEN]


def test_another_python_is_served_by_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsontext, "make_scanner", None)
    assert jsontext.decoder()(jsontext.encoder(ensure_ascii=False)({"a": "é"})) == {"a": "é"}
    assert jsontext.encoder()(["é", 1]) == '["\\u00e9",1]'
