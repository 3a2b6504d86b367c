"""A store that a program brings itself, in place of a configured backend; `memory_sidecar.own_store` is public.

Everything but the documents is this product's: the command line, the configuration, authority, journals, the lockdown.
"""

from collections.abc import Callable
from typing import Any

from ..config import Config
from ..named import NamedTuple
from ..options import OptionsError, decode_options
from ..store.contract import Backend
from ..store.store import Store
from ..system.digest import digest
from .choose import Running
from .opened import BackendError, Opened

__all__ = ["OpenedStore", "OwnStore", "open_own"]


def _nothing() -> None:
    """There is nothing to begin or to close."""


class OpenedStore(NamedTuple):
    """What opening a store of one's own yields."""

    backend: Backend
    """Keeps the contract of `memory_sidecar.store.contract`; `memory_sidecar.testing` checks it."""
    fingerprint: str
    """Tells this store from every other one, and from one that was made anew in its place: a database's own id, not its
    path. A run that resumes on another fingerprint keeps no authority. Only a digest of it is told."""
    guard: bool = True
    """Whether a run must have read what it overwrites."""
    directories: tuple[str, ...] = ()
    """Where it writes files. All other directories are closed to it once the process has given up its rights."""
    ports: tuple[int, ...] | None = None
    """TCP ports it connects to; None for no network at all."""
    begin: Callable[[], None] = _nothing
    """Starts its threads, if it has any: called once, after the rights are given up."""
    close: Callable[[], None] = _nothing
    """Lets go of what it opened, within a few seconds."""


class OwnStore(NamedTuple):
    """A kind of store: its name, the options that `harness.memory.options` may hold, and how to open it."""

    name: str
    """What `harness.memory.backend` may say, and what `Backend.info` says."""
    options: type[Any]
    """A `NamedTuple` of `str`, `bool`, `int` or mappings; a configuration that does not fit it is refused by name."""
    open: Callable[[Any, str], OpenedStore]
    """Called with the decoded options and the identity. What it raises as `BackendError` is told."""


def open_own(own: OwnStore, config: Config, identity: str) -> Running:
    """Open the store, as the configuration says.

    Raises:
        BackendError: the configuration names another backend, its options do not fit, or the store tells more of itself
            than may be told.
    """
    named = config.memory.backend
    if named is not None and named != own.name:
        raise BackendError(
            f"harness.memory.backend names {named!r}, but the store brought along is {own.name!r}",
            "name that one, or leave backend out",
        )
    try:
        options = decode_options(own.options, config.memory.options, "harness.memory.options")
        opened = own.open(options, identity)
    except OptionsError as error:
        raise BackendError(error.problem, error.remedy) from error
    except BackendError:
        raise
    except Exception as error:
        raise BackendError(
            f"the store {own.name!r} cannot be opened ({type(error).__name__})", "see the cause in the log"
        ) from error
    _check_told(own, opened)
    fingerprint = f"{own.name}:{digest(opened.fingerprint.encode())}"
    store = Store(opened.backend, guard=opened.guard)
    return Running(Opened(store, fingerprint), opened.begin, opened.close, opened.directories, ports=opened.ports)


def _check_told(own: OwnStore, opened: OpenedStore) -> None:
    """What a store tells of itself lands in logs, on spans and at the harness: an identifier, and nothing else."""
    info = opened.backend.info()
    if info.backend != own.name:
        raise BackendError(f"the store {own.name!r} calls itself {info.backend!r}", "give it one name")
    if not info.location.isprintable() or any(sign in info.location for sign in "/\\@?;"):
        raise BackendError(
            f"the location that the store {own.name!r} tells looks like a path, an address or a credential",
            "let it tell a plain identifier, or nothing",
        )
    if not opened.fingerprint:
        raise BackendError(
            f"the store {own.name!r} has no fingerprint, so a run could not tell it from another",
            "let it keep an id of its own and tell that",
        )
