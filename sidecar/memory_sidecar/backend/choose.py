"""Which backend a configuration means, and how to open it. A backend's module is imported only when chosen."""

from collections.abc import Callable
from typing import Any, Final

from ..config import Config
from ..named import NamedTuple
from ..options import OptionsError, decode_options, suggestion
from ..store.errors import KeyNotFoundError, UnreadableError
from ..store.store import Store
from ..system import disk, files
from .opened import BackendError, Opened

__all__ = [
    "BACKENDS",
    "DEFAULT_BACKEND",
    "Row",
    "Running",
    "backend_of",
    "check",
    "describe",
    "must_be_named",
    "open_backend",
    "row_of",
]

DEFAULT_BACKEND: Final = "file"


class Running(NamedTuple):
    """An open backend, how to use it from a thread, and which rights the process must keep for it.

    `begin` starts what threads the backend needs; it is called once, before the store is first used and after the
    process has given up its other rights. From then on any thread may call the store. `close` releases what the backend
    needed, within a few seconds, whatever state it is in.
    """

    opened: Opened
    begin: Callable[[], None]
    close: Callable[[], None]
    directories: tuple[str, ...] = ()
    """Where it writes files; none if it only reads."""
    only_read: tuple[str, ...] = ()
    """Where it reads files that the process must not be able to write."""
    ports: tuple[int, ...] | None = None
    """TCP ports it connects to; None for no network at all."""


def backend_of(config: Config) -> str:
    """The name of the backend that `config` means.

    Raises:
        BackendError: it names one that does not exist.
    """
    name = DEFAULT_BACKEND if config.memory.backend is None else config.memory.backend
    if name not in BACKENDS:
        raise BackendError(f"harness.memory.backend {name!r} is not a backend", suggestion(name, list(BACKENDS)))
    return name


def row_of(config: Config) -> "Row":
    """What is to be known of the backend that `config` means.

    Raises:
        BackendError: it names one that does not exist.
    """
    return BACKENDS[backend_of(config)]


def open_backend(
    config: Config, identity: str, base: str | None, *, read_only: bool | None = None, locked: bool = False
) -> Running:
    """Open the configured backend. `identity` names its default place; `base` is the store base, if any.

    `read_only`: a place that may only be read will do, and only the reading methods of the store may be used then; as
    the configuration says, if None. `locked`: the process will give up its rights, and must be able to do with those
    that remain from the start.

    Raises:
        BackendError: it cannot be used; the text is the remedy.
    """
    try:
        only = config.memory.read_only if read_only is None else read_only
        return row_of(config).open(config, identity, base, only, locked)
    except OptionsError as error:
        raise BackendError(error.problem, error.remedy) from error


def describe(config: Config, identity: str | None, base: str | None) -> dict[str, Any]:
    """Where the configured backend keeps memories, without touching it: labels and values for an operator.

    Raises:
        BackendError: the configuration does not name a usable place.
    """
    try:
        return row_of(config).describe(config, identity, base)
    except OptionsError as error:
        raise BackendError(error.problem, error.remedy) from error


def check(config: Config, identity: str, base: str | None) -> tuple[dict[str, Any], list[str]]:
    """The state of the configured place, looked at and not changed, and why a run would be refused there.

    Raises:
        BackendError: it cannot be reached; the text is the remedy.
    """
    try:
        return row_of(config).check(config, identity, base)
    except OptionsError as error:
        raise BackendError(error.problem, error.remedy) from error


def must_be_named(config: Config) -> bool:
    """Whether somebody has to name the identity, as it decides which notes of a shared store are an agent's own."""
    return row_of(config).is_shared and (config.memory.options or {}).get("prefix") is None


def _open_file(config: Config, identity: str, base: str | None, read_only: bool, _locked: bool) -> Running:
    from .file import FileOptions, open_file, resolve_directory

    options = decode_options(FileOptions, config.memory.options, "harness.memory.options")
    opened = open_file(options, identity, base, read_only=read_only)
    directory = (resolve_directory(options, identity, base),)
    if read_only:
        return Running(opened, _nothing, _nothing, only_read=directory)
    return Running(opened, _nothing, _nothing, directory)


def _nothing() -> None:
    """There is nothing to begin or to close."""


def _describe_file(config: Config, identity: str | None, base: str | None) -> dict[str, Any]:
    from .file import FileOptions, resolve_directory

    options = decode_options(FileOptions, config.memory.options, "harness.memory.options")
    return {
        "directory": resolve_directory(options, identity, base) if identity or options.directory is not None else None,
        "require_read_before_update": options.require_read_before_update,
        "single_machine": options.single_machine,
    }


def _open_jetstream(config: Config, identity: str, _base: str | None, _read_only: bool, locked: bool) -> Running:
    from contextlib import suppress

    from .jetstream.client import load

    with suppress(ImportError):  # told when it connects
        load()  # before asyncio, which the next modules import
    from .jetstream.bucket import JetStreamOptions, open_jetstream
    from .jetstream.thread import BrokerThread

    options = decode_options(JetStreamOptions, config.memory.options, "harness.memory.options")
    broker = BrokerThread(
        lambda: open_jetstream(options, identity=identity, context=config.nats_context, locked=locked)
    )
    return Running(broker.opened, broker.begin, broker.close, ports=broker.ports)


def _describe_jetstream(config: Config, identity: str | None, _base: str | None) -> dict[str, Any]:
    from .jetstream import context as nats_context
    from .jetstream.bucket import JetStreamOptions, nesting, resolve_prefix

    options = decode_options(JetStreamOptions, config.memory.options, "harness.memory.options")
    known = options.prefix is not None or identity is not None
    prefix = resolve_prefix(options, identity or "unknown")
    return {
        "bucket": options.bucket,
        "context": nats_context.chosen(config.nats_context),
        "prefix": prefix if known else None,
        "shared": nesting(prefix) if known else [],
        "require_read_before_update": not options.no_require_read_before_update,
    }


def _check_file(config: Config, identity: str, base: str | None) -> tuple[dict[str, Any], list[str]]:
    import os

    from .file import FileBackend, FileOptions, refuse_disk, resolve_directory

    options = decode_options(FileOptions, config.memory.options, "harness.memory.options")
    directory = resolve_directory(options, identity, base)
    if not os.path.lexists(directory):
        return {"notes": 0, "unreadable": 0, "directory": "will be made at the first start"}, []
    if not os.path.isdir(directory) or not files.is_permitted(directory, change=not config.memory.read_only):
        what = "read" if config.memory.read_only else "read and write"
        return {}, [f"{directory} is not a directory that this user can {what}; mend that, or set directory"]
    if not config.memory.read_only and (refused := refuse_disk(directory, disk.inspect(directory), options)):
        return {}, [str(refused)]
    store = Store(FileBackend(directory))
    items = store.list()
    unreadable = 0
    for item in items:
        try:
            store.read(item.key)
        except UnreadableError:
            unreadable += 1
        except KeyNotFoundError:
            pass  # deleted since it was listed
    return {"notes": len(items), "unreadable": unreadable, "directory": "is there"}, []


def _check_jetstream(config: Config, identity: str, _base: str | None) -> tuple[dict[str, Any], list[str]]:
    import asyncio

    from .jetstream.bucket import JetStreamOptions
    from .jetstream.inspection import inspect_jetstream

    options = decode_options(JetStreamOptions, config.memory.options, "harness.memory.options")
    return asyncio.run(inspect_jetstream(options, identity=identity, context=config.nats_context))


class Row(NamedTuple):
    """A backend: what the rest of the program has to know of it, beside its name."""

    place: str
    """What an operator calls the place: a word for the lines of `doctor`."""
    in_files: bool
    """Whether notes are files in the directory that `describe` tells."""
    is_shared: bool
    """Whether agents share the place, and somebody has to say whose notes are meant; it is reached over a network."""
    open: Callable[[Config, str, str | None, bool, bool], Running]
    describe: Callable[[Config, str | None, str | None], dict[str, Any]]
    check: Callable[[Config, str, str | None], tuple[dict[str, Any], list[str]]]


BACKENDS: Final = {
    "file": Row("store", True, False, _open_file, _describe_file, _check_file),
    "jetstream": Row("broker", False, True, _open_jetstream, _describe_jetstream, _check_jetstream),
}
