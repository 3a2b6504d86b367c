"""JSON, by the code in C that `json` itself calls: loading that module, and `re` for it, took an eighth of a launch.

A text that is no JSON is given to `json`, which is loaded then and says what is wrong. So is every text where the code
in C is not to be had: in another Python than CPython, in one that is newer than those that were tried, and in a debug
build, which would end at the first text that is no JSON while `json` isn't loaded.
"""

import sys
from collections.abc import Callable

from .hints import Any, Final

__all__ = ["decoder", "encoder"]

try:
    # A debug build, or a version in which this was not tried: what `json` calls may have changed there.
    if hasattr(sys, "gettotalrefcount") or sys.version_info >= (3, 15):
        raise ImportError
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner
except ImportError:
    make_scanner = None  # type: ignore[assignment,misc]

_SPACE: Final = " \t\n\r"
"""What JSON takes for white space."""


class _Reading:
    """What the scanner asks its caller for."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_int = int

    def __init__(self, parse_constant: Callable[[str], Any], parse_float: Callable[[str], Any]) -> None:
        self.parse_constant = parse_constant
        self.parse_float = parse_float


def decoder(
    parse_constant: Callable[[str], Any] = float, parse_float: Callable[[str], Any] = float
) -> Callable[[str], Any]:
    """A function that reads one JSON text, as the method `decode` of `json.JSONDecoder`.

    It raises `ValueError` for what is no JSON, or what the two functions given here refuse, and `RecursionError` for
    what is nested too deeply.
    """
    scan = None if make_scanner is None else make_scanner(_Reading(parse_constant, parse_float))  # type: ignore[arg-type]

    def decode(text: str) -> Any:
        if scan is not None:
            bare = text.strip(_SPACE)
            try:
                value, end = scan(bare, 0)
            except RecursionError:
                raise
            except Exception:  # noqa: BLE001 - of Python 3.11 any: it tells what is wrong only where `json` is loaded
                end = -1
            if end == len(bare):
                return value
        import json

        return json.JSONDecoder(parse_constant=parse_constant, parse_float=parse_float).decode(text)

    return decode


def encoder(*, ensure_ascii: bool = True) -> Callable[[Any], str]:
    """A function that writes a value as JSON with no white space, as the method `encode` of `json.JSONEncoder`.

    A value that holds itself is a `RecursionError`; `json` says `ValueError`.
    """
    if make_scanner is None:
        import json

        return json.JSONEncoder(ensure_ascii=ensure_ascii, separators=(",", ":")).encode
    escape = encode_basestring_ascii if ensure_ascii else encode_basestring
    parts = make_encoder(None, _refuse, escape, None, ":", ",", False, False, True)
    return lambda value: "".join(parts(value, 0))


def _refuse(value: object) -> Any:
    raise TypeError(f"JSON has no word for an object of type {type(value).__name__}")
