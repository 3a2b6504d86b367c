"""The operator's YAML: `identity`, `nats_context` and `harness.memory`, decoded into named tuples.

The memory block is strict. Other keys belong to the harness and are left alone, unless one looks like a
misspelling of ours: a setting that silently does nothing is worse than an error.
"""

from collections.abc import Mapping

from .hints import Annotated, Any, Final
from .named_tuple import NamedTuple
from .options import AGE, OptionsError, age, decode_options, shown_key, whole
from .remedy import RemedyError
from .system import files

__all__ = ["Config", "ConfigError", "MemoryConfig", "load", "parse"]

MAX_CONFIG_BYTES: Final = 1024 * 1024
"""Larger than any configuration a person writes; a wrong path (a log, a database) is refused before parsing."""

_MAX_DEPTH: Final = 100
"""Mappings and lists in one another. The time that PyYAML takes grows with the square of it."""


class ConfigError(RemedyError):
    """The configuration cannot be used. The problem names the place in it."""


class MemoryConfig(NamedTuple):
    """`harness.memory`. `backend` is None when the file names none, which leaves the choice to the caller."""

    enabled: bool = False
    """Whether agents have a memory. In a file, memory is opt-in."""
    backend: str | None = None
    """What keeps the notes."""
    read_only: bool = False
    """Agents may list and read notes; the tools that change them do not exist."""
    no_index: bool = False
    """Do not list what is stored in the system text. The model calls `memory_list` when it wants the list."""
    options: Mapping[str, Any] | None = None
    """Options of the backend."""
    keep_runs: Annotated[str | None, {"pattern": whole(AGE)}] = None
    """How long the journals of runs that are over are kept, as in `30d`; for ever if omitted. Each start removes older
    ones, never of a run that is open, suspended or interrupted."""


class Config(NamedTuple):
    """What this product reads of a configuration. Anything else in the file belongs to the harness."""

    identity: Annotated[str | None, {"minLength": 1}] = None
    """The agent's name; memories are kept under it."""
    nats_context: Annotated[str | None, {"minLength": 1}] = None
    """The NATS context to connect with, as `nats context ls` shows it; for notes in a bucket."""
    memory: MemoryConfig = MemoryConfig()


LAUNCHED: Final = Config(memory=MemoryConfig(enabled=True))
"""Without a configuration file, launching the sidecar is the opt-in."""


def load(path: str, option: str = "--config") -> Config:
    """Read and decode the file at `path`, which `option` of the command line named.

    Raises:
        ConfigError: it cannot be read, is not YAML, or breaks a rule.
    """
    try:
        text = files.read_regular(path, MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}", f"check {option}") from error
    if len(text) > MAX_CONFIG_BYTES:
        raise ConfigError(f"the configuration {path} is larger than {MAX_CONFIG_BYTES} bytes", f"check {option}")
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.problem}", error.remedy) from error


def parse(text: bytes) -> Config:
    """Decode a configuration.

    Raises:
        ConfigError: it is not one YAML mapping, repeats a key, or breaks a rule of the memory block.
    """
    document: Any = _json(text)
    if document is None:
        document = _yaml(text)
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise ConfigError("a configuration is a YAML mapping", "start it with `harness:`")
    _no_misspelling(document, "", ("identity", "nats_context", "harness"))
    harness = document.get("harness")
    if harness is None:
        harness = {}
    if not isinstance(harness, dict):
        raise ConfigError("harness must be a mapping", "write the memory block as `harness: {memory: {enabled: true}}`")
    _no_misspelling(harness, "harness.", ("memory",))
    found = harness.get("memory")
    if isinstance(found, bool):
        raise ConfigError(
            f"harness.memory must be a mapping of options; found {found}",
            f"write it as `memory: {{enabled: {str(found).lower()}}}`",
        )
    try:
        memory = decode_options(MemoryConfig, found, "harness.memory")
        ours = {key: document[key] for key in ("identity", "nats_context") if key in document}
        config = decode_options(Config, ours, "")
        if memory.keep_runs is not None:
            age(memory.keep_runs, "harness.memory.keep_runs", "`keep_runs: 30d`")
    except OptionsError as error:
        raise ConfigError(error.problem, error.remedy) from error
    for name, value in (*ours.items(), ("harness.memory.backend", memory.backend)):
        if value == "":
            raise ConfigError(f"{name} is empty, which names nothing", "write a name, or leave it out")
    return config._replace(memory=memory)


def _no_misspelling(found: Mapping[object, object], where: str, ours: tuple[str, ...]) -> None:
    for key in found:
        if key in ours or not isinstance(key, str):
            continue
        from difflib import get_close_matches

        near = get_close_matches(key.lower().replace("-", "_"), ours, n=1, cutoff=0.8)
        if near and near[0] not in found:
            raise ConfigError(
                f"{where}{shown_key(key)} looks like a misspelling of {where}{near[0]}",
                "rename one of them",
            )


def _json(text: bytes) -> dict[str, Any] | None:
    """The mapping that `text` holds as JSON. None leaves it to YAML, and so does anything wrong with it.

    JSON is YAML, and what programs write. Loading the YAML library would be an eighth of a launch.
    """
    if text[:1] != b"{":
        return None
    import json

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError
        return found

    try:
        found: dict[str, Any] = json.loads(text, object_pairs_hook=mapping)
    except (ValueError, RecursionError):
        return None
    return found


def _yaml(text: bytes) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """PyYAML keeps the last of two equal keys; a configuration with two is a mistake."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.depth > _MAX_DEPTH:
                raise ConfigError(f"it is nested more than {_MAX_DEPTH} deep", "write it with fewer levels")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    def mapping(loader: Loader, node: yaml.MappingNode) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = (key_node.tag, key_node.value if isinstance(key_node, yaml.ScalarNode) else id(key_node))
            if key in seen and key_node.tag != "tag:yaml.org,2002:merge":
                line = key_node.start_mark.line + 1
                raise ConfigError(f"line {line}: the key {key_node.value!r} stands twice", "remove one")
            seen.add(key)
        return yaml.SafeLoader.construct_mapping(loader, node, deep=True)

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(f"{line}this is not valid YAML ({error.problem})", "mend that line") from error
    except yaml.YAMLError as error:
        raise ConfigError("this is not YAML text", "write it as YAML, or name another file") from error
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError("a value in this file cannot be read as YAML", "quote dates and large numbers") from error
