"""Reads a host's configuration file as its host would: JSON, JSON with comments, TOML or YAML. Pure, but for one file.

What readers of the format differ in is told: a key that stands twice in one object.
"""

import json
import re
from collections import Counter
from collections.abc import Hashable
from typing import Any, Final

from .files import ambiguous, read_text, told_twice

__all__ = ["HostFile", "read_host_file"]

_MAX_ALIASES: Final = 1_000
"""In one YAML file: each may stand for all that came before it, so a few lines can be a file of any size."""
_MAX_DEPTH: Final = 100
"""Collections in collections. The time that PyYAML takes grows with the square of it."""


class HostFile:
    """What a configuration file says, its text, and what makes it ambiguous, in words, or None."""

    def __init__(self, text: str, data: Any, twice: str | None) -> None:
        self.text = text
        self.data = data
        self.twice = twice

    def line_of(self, name: str) -> int:
        """The line on which `name` first stands as a key or a value, or 1."""
        quoted = (json.dumps(name, ensure_ascii=False), json.dumps(name), f"'{name}'")
        spots = [at for text in quoted if (at := self.text.find(text)) >= 0]
        if not spots and (bare := re.search(rf"(?m)(?<![\w-]){re.escape(name)}(?=\s*(?:[:\]=]|$))", self.text)):
            spots = [bare.start()]
        return self.text.count("\n", 0, min(spots)) + 1 if spots else 1


def read_host_file(path: str) -> HostFile:
    """The file, read by its name's ending: `.toml`, `.yaml` and `.yml`, all else as JSON with or without comments.

    Raises:
        OSError: it cannot be opened or read.
        ValueError: it isn't a regular file, too large, not UTF-8, or not of its format.
        RecursionError: it is nested too deeply.
    """
    text = read_text(path)
    ending = path.rpartition(".")[2].lower()
    if ending == "toml":
        import tomllib

        return HostFile(text, tomllib.loads(text), None)  # a key that stands twice is an error there
    if ending in ("yaml", "yml"):
        return HostFile(text, *_yaml(text))
    try:
        return HostFile(text, json.loads(text), ambiguous(text))
    except ValueError:
        plain = _without_comments(text)  # VS Code, Zed and opencode allow comments and trailing commas
        return HostFile(text, json.loads(plain), ambiguous(plain))


# A text or a comment that nothing closes goes to the end: else each sign that could open one would be tried to there.
_TEXT: Final = r'("(?:\\.|[^"\\])*+(?:"|\\?\Z))'
_JSONC: Final = re.compile(_TEXT + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING: Final = re.compile(_TEXT + r"|,(?=\s*[}\]])", re.DOTALL)


def _without_comments(text: str) -> str:
    text = _JSONC.sub(lambda match: match[1] or " ", text)
    return _TRAILING.sub(lambda match: match[1] or "", text)


def _yaml(text: str) -> tuple[Any, str | None]:
    import yaml

    twice: list[str] = []

    class Loader(yaml.SafeLoader):
        aliases = 0
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.depth > _MAX_DEPTH:
                raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")
            if self.check_event(yaml.events.AliasEvent):
                self.aliases += 1
                if self.aliases > _MAX_ALIASES:
                    raise ValueError(f"it has more than {_MAX_ALIASES} aliases")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
            twice.extend(key for key, number in Counter(keys).items() if number > 1)
            return super().construct_mapping(node, deep)

    try:
        data = yaml.load(text, Loader)  # noqa: S506 - a subclass of the safe one
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0] if str(error) else "it is not YAML") from error
    return data, told_twice(twice[0]) if twice else None
