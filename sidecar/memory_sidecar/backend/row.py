"""A backend as the rest of the program knows it: one row of functions. Nobody outside this package asks for a name.

A new backend is a module with its options, its `Backend` (`store.contract`) and its `Row`, and one line in `choose`.
"""

from collections.abc import Callable, Sequence

from ..hints import TYPE_CHECKING, Any
from ..named_tuple import NamedTuple
from .opened import Running

if TYPE_CHECKING:
    from .description import Description, Finding, Looked

__all__ = ["Place", "Row"]


class Place(NamedTuple):
    """What a backend is opened with, beside its own options."""

    identity: str | None
    """Whose memory it is. None if nobody has said; `Row.open` gets one, unless the options make it unnecessary."""
    base: str | None = None
    """`--store-dir`: what relative paths of the options are relative to. None: to the working directory."""
    context: str | None = None
    """`nats_context` of the configuration."""
    read_only: bool = False
    """Only reading methods will be called: a place that may only be read will do."""
    make: bool = True
    """Make the place if it is not there. A command that only looks would rather be told that it isn't."""
    locked: bool = False
    """The process gives up its rights after the opening. Opening has to work in a way that also works without them."""
    anyway: bool = False
    """For an operator who only reads: open a place that a run would be refused, if reading it harms nothing, so that
    notes can be saved before it is mended. `Running.problems` then says what is wrong."""


def _none(_options: Any, _place: Place, _identities: Callable[[], Sequence[str]]) -> list[str]:
    return []


def _unseen(_options: Any, _place: Place) -> "Sequence[Finding]":
    return ()


def _nothing(_options: Any) -> None:
    return None


class Row(NamedTuple):
    """One backend. Each function gets the decoded options first.

    What a function raises as `BackendError` is told to the operator, with the remedy.
    """

    name: str
    """What `harness.memory.backend` says, and what `Backend.info` says."""
    options: type[Any]
    """A `NamedTuple` of `str`, `bool`, `int` or mappings, for `options.decode_options`."""
    open: Callable[[Any, Place], Running]
    describe: "Callable[[Any, Place], Description]"
    """Where the memory is, without touching it."""
    check: "Callable[[Any, Place], Looked]"
    """The state of the place, looked at and not changed, and why a run would be refused there."""
    must_be_named: Callable[[Any], str]
    """Where only the identity tells an agent's own notes from those of others in a shared place, none is guessed: the
    option that could be set instead of naming one. "" where the identity need not be named."""
    connects: bool
    """Whether it needs the network. If so, nothing about it can be found out offline."""
    label: str
    """What to call the place in a list of checks: store, broker."""
    open_many: Callable[[Any, Place], Running] | None = None
    """Opens it for identities that are named later, each with a memory of its own; `Place.identity` is None. None where
    a process can serve one identity only."""
    check_many: Callable[[Any], object] = _nothing
    """Raises for options that name one place for all identities, where each is to have its own. Touches nothing."""
    aside: "Callable[[Any, Place], Sequence[Finding]]" = _unseen
    """What can be seen of what it needs beside the place itself, whether or not that can be reached."""
    warnings: Callable[[Any, Place, Callable[[], Sequence[str]]], list[str]] = _none
    """What an operator may not have meant of the place, one sentence each; told at each start. The last argument tells
    which identities are in use here."""
