"""Strict decoding of mappings that people write, into named tuples. One rule for every backend and section.

An unknown key fails with the nearest known one, a wrong type fails by name; a default is the field's own. (Named
tuples are as frozen as frozen dataclasses; importing `dataclasses` would cost a tenth of a launch.)
"""

import types
from collections.abc import Mapping, Sequence

from .hints import Annotated, Any, Final, TypeVar
from .named_tuple import NamedTuple
from .remedy import RemedyError

__all__ = ["AGE", "OptionsError", "age", "decode_options", "hints_of", "kinds_of", "shown_key", "suggestion", "whole"]

T = TypeVar("T", bound=NamedTuple)

_NAMES = {str: "text", bool: "true or false", int: "a whole number", dict: "a mapping", Mapping: "a mapping"}


_EXAMPLES = {str: "text", bool: "true` or `false", int: "1", dict: "{option: value}", Mapping: "{option: value}"}


AGE: Final = r"[0-9]{1,6}[mhdw]"
"""An age as people write it: a number of minutes, hours, days or weeks."""
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


class OptionsError(RemedyError):
    """A configured value is unknown or of the wrong type. The problem names it, the remedy says what to write."""


def decode_options(into: type[T], values: object, where: str) -> T:
    """Build the named tuple `into` from `values`, the mapping found at `where` (a dotted path, for messages;
    "" is the top).

    `values` may be None, which stands for an empty mapping. Fields are `str`, `bool`, `int` or
    `Mapping`, each possibly `| None`; a field without a default must be given. What a field is annotated with beside
    its type (JSON Schema's words for a rule that its user checks later) is for the published schema alone.

    Raises:
        OptionsError: `values` is no mapping, or a key is unknown, missing or of the wrong type.
    """
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        name = where.rpartition(".")[2] or "harness"
        raise OptionsError(
            f"{where or 'the configuration'} must be a mapping of options; found {_shown(values)}",
            f"write them as `{name}: {{option: value}}`, or one a line below `{name}:`",
        )
    hints, fields = hints_of(into), into._fields
    for key, value in values.items():
        if key not in fields:
            raise OptionsError(f"{_at(where, key)} is not an option", suggestion(str(key), list(fields)))
        _check_type(_at(where, key), value, hints[key])
    for name in fields:
        if name not in values and name not in into._field_defaults:
            raise OptionsError(f"{_at(where, name)} is missing", "add it")
    decoded: T = into._make(values.get(name, into._field_defaults.get(name)) for name in fields)
    return decoded


def age(text: str, where: str, example: str = "30d") -> float:
    """The seconds in an age; `where` it was written, and how to write one there, for the message.

    Raises:
        OptionsError: it is none.
    """
    import re

    if re.fullmatch(AGE, text) is None:
        raise OptionsError(f"{where} {text!r:.40} is not an age", f"write a number and m, h, d or w, as in {example}")
    return float(text[:-1]) * _SECONDS[text[-1]]


def whole(pattern: str) -> str:
    """A regular expression of Python as JSON Schema has it for a full match."""
    # `$` of many libraries also matches before a line break at the end.
    return f"^(?:{pattern})(?!\\n)$"


def shown_key(key: object) -> str:
    """A key as it stands in a message: as written, unless that would break the line."""
    return key if isinstance(key, str) and key.isprintable() else f"{key!r:.60}"


def suggestion(word: str, known: list[str]) -> str:
    """The remedy for an unknown word: the nearest known one, else all of them."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are: {', '.join(known)}" if known else "this block takes none"


def _at(where: str, key: object) -> str:
    return f"{where}.{shown_key(key)}" if where else shown_key(key)


def hints_of(into: type[NamedTuple]) -> Mapping[str, Any]:
    """The annotations of all fields."""
    hints = into.__annotations__
    if not all(isinstance(hint, type | types.GenericAlias | types.UnionType) for hint in hints.values()):
        # Text, or words of `typing`: then that is loaded.
        from typing import get_type_hints

        return get_type_hints(into, include_extras=True)
    return hints


def kinds_of(hint: Any) -> tuple[list[type], Sequence[Mapping[str, Any]]]:
    """What a field with this annotation may hold, `NoneType` too, and what it is annotated with beside its type."""
    rules: Sequence[Mapping[str, Any]] = getattr(hint, "__metadata__", ())  # of the standard `Annotated`
    if getattr(hint, "__origin__", None) is Annotated:
        hint, *rules = hint.__args__
    elif rules:
        hint = hint.__origin__
    several = hint.__args__ if isinstance(hint, types.UnionType) else (hint,)
    return [getattr(one, "__origin__", one) for one in several], rules


def _check_type(where: str, value: object, hint: Any) -> None:
    kinds, _ = kinds_of(hint)
    if value is None and types.NoneType in kinds:
        return
    # A boolean is an int to Python, never to a person who writes YAML.
    if any(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) for kind in kinds):
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            raise OptionsError(f"{where} holds half of a surrogate pair", "write the character itself")
        return
    wanted = " or ".join(_NAMES[kind] for kind in kinds if kind in _NAMES)
    name = where.rpartition(".")[2]
    if str in kinds and not isinstance(value, Mapping | list | None):
        remedy = "put it in quotes"
    elif types.NoneType in kinds:
        remedy = f"write `{name}: {_EXAMPLES[kinds[0]]}`, or leave it out"
    else:
        remedy = f"write `{name}: {_EXAMPLES[kinds[0]]}`"
    raise OptionsError(f"{where} must be {wanted}; found {_shown(value)}", remedy)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if hasattr(value, "isoformat"):
        return f"the date {value.isoformat()}"
    try:
        return f"{value!r:.60}"
    except ValueError:  # more digits than Python writes out
        return "a huge number"
