"""A store that a program brings itself, as one row more; `memory_sidecar.own_store` is public.

Everything but the documents is this product's: the command line, the configuration, authority, journals, the lockdown.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..named_tuple import NamedTuple
from ..store.authority import Store
from ..store.contract import Backend, Info
from ..store.nowhere import Nowhere
from ..store.rules import is_key
from ..system.digest import digest
from .opened import BackendError, NotMadeError, Opened, Running, nothing
from .row import Place, Row

if TYPE_CHECKING:
    from .description import Description, Fact, Looked

__all__ = ["OpenedStore", "OpenedStores", "OwnStore", "row"]


T = TypeVar("T")


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
    begin: Callable[[], None] = nothing
    """Starts its threads, if it has any: called once, after the rights are given up."""
    close: Callable[[], None] = nothing
    """Lets go of what it opened, within a few seconds."""


class OpenedStores(NamedTuple):
    """What opening yields for `--many-identities`: the place in which each identity has a store of its own."""

    open_for: Callable[[str], OpenedStore]
    """Opens the store of an identity, which is a legal key. Called for each run's opening, from any thread, after
    `begin` and with the rights below alone; of what it returns, `backend` and `fingerprint` count. No two identities
    may get one fingerprint. What it raises as `BackendError` is told to the harness."""
    guard: bool = True
    """Whether a run must have read what it overwrites, as the tools say it; the same for all."""
    directories: tuple[str, ...] = ()
    ports: tuple[int, ...] | None = None
    begin: Callable[[], None] = nothing
    close: Callable[[], None] = nothing
    """As in `OpenedStore`, for all of them."""


def _tells_nothing(_options: Any, _place: Place) -> "Sequence[Fact]":
    return ()


class OwnStore(NamedTuple):
    """A kind of store: its name, the options that `harness.memory.options` may hold, and how to open it."""

    name: str
    """What `harness.memory.backend` may say, and what `Backend.info` says."""
    options: type[Any]
    """A `NamedTuple` of `str`, `bool`, `int` or mappings; a configuration that does not fit it is refused by name."""
    open: Callable[[Any, Place], OpenedStore]
    """Called with the decoded options and the place. What it raises as `BackendError` is told."""
    describe: "Callable[[Any, Place], Sequence[Fact]]" = _tells_nothing
    """The lines that `info` shows of it, made without touching it: where it is, without a password."""
    by_identity: bool = False
    """Whether each identity has notes of its own there. If so, commands ask whose memory is meant."""
    connects: bool = False
    """Whether it needs the network."""
    open_many: Callable[[Any, Place], OpenedStores] | None = None
    """Opens it for `--many-identities`; None if a process serves one identity, and the option is refused."""


def row(own: OwnStore) -> Row:
    """The store as a row of the table."""

    def open_own(options: Any, place: Place) -> Running:
        opened = _opened(own, options, place)
        fingerprint = f"{own.name}:{digest(opened.fingerprint.encode())}"
        store = Store(opened.backend, guard=opened.guard)
        made = Opened(store, fingerprint)
        return Running(made, opened.begin, opened.close, opened.directories, ports=opened.ports)

    def describe(options: Any, place: Place) -> "Description":
        from .description import Description

        _check_identity(own, place)
        return Description(own.describe(options, place), named=place.identity is not None or not own.by_identity)

    def check(options: Any, place: Place) -> "Looked":
        from .description import Looked, counted, fact

        try:
            running = open_own(options, place._replace(read_only=True, make=False))
        except NotMadeError:
            return Looked([fact("notes", 0), fact("unreadable", 0), fact("store", NotMadeError.THEN)])
        try:
            running.begin()
            return Looked([*counted(running.opened.store)])
        finally:
            running.close()

    def open_many(options: Any, place: Place) -> Running:
        return _opened_many(own, options, place)

    return Row(
        own.name,
        own.options,
        open_own,
        describe,
        check,
        must_be_named=lambda _options: "",
        connects=own.connects,
        label="store",
        open_many=None if own.open_many is None else open_many,
    )


def _opened(own: OwnStore, options: Any, place: Place) -> OpenedStore:
    """Open the store.

    Raises:
        BackendError: it says so, it fails, or it tells more of itself than may be told.
    """
    _check_identity(own, place)
    opened = _asked(own, lambda: own.open(options, place))
    _check_told(own, opened)
    return opened


def _check_identity(own: OwnStore, place: Place) -> None:
    """A store may make a file's name of an identity, so none but a legal key gets there: from no command either.

    Raises:
        BackendError: it is none, and the store has notes by identity.
    """
    if own.by_identity and place.identity is not None and not is_key(place.identity):
        raise BackendError(
            f"the identity {place.identity!r} cannot name notes in the store {own.name!r}",
            "set identity to letters, digits and . _ = -",
        )


def _opened_many(own: OwnStore, options: Any, place: Place) -> Running:
    """Open the place in which each identity has a store.

    Raises:
        BackendError: as of `_opened`.
    """
    if own.open_many is None:
        raise AssertionError("asked for what it does not offer")
    open_places = own.open_many
    shared = _asked(own, lambda: open_places(options, place))
    whose: dict[str, str] = {}
    lock = threading.Lock()

    def open_for(identity: str) -> Opened:
        opened = _asked(own, lambda: shared.open_for(identity))
        _check_told(own, opened)
        with lock:
            other = whose.setdefault(opened.fingerprint, identity)
        if other != identity:
            raise BackendError(
                f"the store {own.name!r} gives the identities {other!r} and {identity!r} one memory",
                "give each a store, and a fingerprint, of its own",
            )
        fingerprint = f"{own.name}:{digest(opened.fingerprint.encode())}"
        return Opened(Store(opened.backend, guard=shared.guard), fingerprint)

    nobodys = Opened(Store(Nowhere("No identity is named.", Info(own.name, "")), guard=shared.guard), "none")
    return Running(nobodys, shared.begin, shared.close, shared.directories, ports=shared.ports, open_for=open_for)


def _asked(own: OwnStore, ask: Callable[[], T]) -> T:
    """What the store answers to an opening.

    Raises:
        BackendError: it says so, or it fails.
    """
    try:
        return ask()
    except BackendError:
        raise
    except Exception as error:
        raise BackendError(
            f"the store {own.name!r} cannot be opened ({type(error).__name__})", "see the cause in the log"
        ) from error


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
