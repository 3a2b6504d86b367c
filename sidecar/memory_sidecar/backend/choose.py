"""The table of backends, and what a configuration means by it. A backend's module is imported only when chosen."""

from collections.abc import Callable, Sequence

from ..config import Config
from ..hints import TYPE_CHECKING, Any, Final
from ..options import OptionsError, decode_options, suggestion
from .opened import BackendError, Running
from .row import Place, Row

if TYPE_CHECKING:
    from .description import Description, Finding, Looked

__all__ = [
    "aside",
    "backend_of",
    "bring",
    "check",
    "decoded",
    "describe",
    "is_brought",
    "must_be_named",
    "open_backend",
    "open_many",
    "row_of",
    "rows",
    "warnings",
]


def _file() -> Row:
    from .file.row import ROW

    return ROW


def _jetstream() -> Row:
    from .jetstream.row import ROW

    return ROW


_ROWS: Final[dict[str, Callable[[], Row]]] = {"file": _file, "jetstream": _jetstream}
"""Every backend. The first is the one that a configuration means which names none."""

_BROUGHT: Final[list[str]] = []
"""The store of its own that this program brought, if it did: at most one."""


def bring(row: Row) -> None:
    """Add a store that this program brings itself. From now on a configuration that names no backend means that one.

    Once, before anything is opened.

    Raises:
        BackendError: another backend has its name.
    """
    if row.name in _ROWS:
        raise BackendError(f"a backend of this product is called {row.name!r} too", "give your own another name")
    _ROWS[row.name] = lambda: row
    _BROUGHT.append(row.name)


def is_brought() -> bool:
    """Whether this is a program with a store of its own."""
    return bool(_BROUGHT)


def backend_of(config: Config, *, serving: bool = False) -> str:
    """The name of the backend that `config` means.

    `serving`: for a harness. A program that brings a store of its own serves that one and no other; its other
    commands know all of them, so that notes can be copied from one to the other.

    Raises:
        BackendError: it names one that does not exist, or may not be served.
    """
    name = config.memory.backend
    if name is None:
        return _BROUGHT[0] if _BROUGHT else next(iter(_ROWS))
    if name not in _ROWS:
        raise BackendError(f"harness.memory.backend {name!r} is not a backend", suggestion(name, list(_ROWS)))
    if serving and _BROUGHT and name not in _BROUGHT:
        raise BackendError(
            f"harness.memory.backend names {name!r}, but the store brought along is {_BROUGHT[0]!r}",
            "name that one, or leave backend out",
        )
    return name


def rows() -> list[Row]:
    """Every backend; first the one that a configuration means which names none."""
    return sorted((make() for make in _ROWS.values()), key=lambda row: row.name != backend_of(Config()))


def row_of(config: Config) -> Row:
    """The row of the backend that `config` means.

    Raises:
        BackendError: it names one that does not exist.
    """
    return _ROWS[backend_of(config)]()


def open_backend(
    config: Config,
    identity: str,
    base: str | None,
    *,
    read_only: bool | None = None,
    make: bool = True,
    locked: bool = False,
    anyway: bool = False,
) -> Running:
    """Open the configured backend; see `Place` for the arguments. `read_only` is as the configuration says, if None.

    Raises:
        BackendError: it cannot be used; the text is the remedy.
    """
    only = config.memory.read_only if read_only is None else read_only
    row, options = decoded(config)
    return row.open(options, Place(identity or None, base, config.nats_context, only, make, locked, anyway))


def open_many(config: Config, base: str | None, *, locked: bool) -> Running:
    """Open the configured backend for identities that are named later; else as `open_backend`.

    Raises:
        BackendError: it cannot be used, serves one identity only, or its options name one place for all.
    """
    open_place, options = check_many(config)
    return open_place(options, Place(None, base, config.nats_context, config.memory.read_only, locked=locked))


def check_many(config: Config) -> tuple[Callable[[Any, Place], Running], Any]:
    """What opens the configured backend for identities that are named later, and its options. Touches nothing.

    Raises:
        BackendError: it serves one identity only, or its options name one place for all.
    """
    row, options = decoded(config)
    if row.open_many is None:
        raise BackendError(
            f"the store {row.name!r} is opened for one identity",
            "leave out --many-identities, and launch a process for each identity",
        )
    row.check_many(options)
    return row.open_many, options


def warnings(config: Config, identity: str | None, identities: Callable[[], Sequence[str]]) -> list[str]:
    """What an operator may not have meant of the configured place; see `Row.warnings`.

    Raises:
        BackendError: the configuration does not name a usable place.
    """
    row, options = decoded(config)
    return row.warnings(options, Place(identity, context=config.nats_context), identities)


def describe(config: Config, identity: str | None, base: str | None) -> "Description":
    """Where the configured backend keeps memories, without touching it.

    Raises:
        BackendError: the configuration does not name a usable place.
    """
    row, options = decoded(config)
    return row.describe(options, Place(identity, base, config.nats_context, config.memory.read_only))


def check(config: Config, identity: str | None, base: str | None) -> "Looked":
    """The state of the configured place, looked at and not changed.

    Raises:
        BackendError: it cannot be reached; the text is the remedy.
    """
    row, options = decoded(config)
    return row.check(options, Place(identity, base, config.nats_context, config.memory.read_only))


def aside(config: Config, identity: str | None, base: str | None) -> "Sequence[Finding]":
    """What can be seen of what the place needs, also where it cannot be reached; see `Row.aside`.

    Raises:
        BackendError: the configuration does not name a usable place.
    """
    row, options = decoded(config)
    return row.aside(options, Place(identity, base, config.nats_context, config.memory.read_only))


def must_be_named(config: Config) -> str:
    """Whether somebody has to name the identity; see `Row.must_be_named`.

    Raises:
        BackendError: the configuration names no backend that exists, or the options do not fit it.
    """
    row, options = decoded(config)
    return row.must_be_named(options)


def decoded(config: Config) -> tuple[Row, Any]:
    """The row of the configured backend, and its options.

    Raises:
        BackendError: the configuration names no backend that exists, or the options do not fit it.
    """
    row = row_of(config)
    try:
        return row, decode_options(row.options, config.memory.options, "harness.memory.options")
    except OptionsError as error:
        raise BackendError(error.problem, error.remedy) from error
