"""What a started process serves: made by `assemble`, used by the wire."""

from collections.abc import Callable

from ..hints import TYPE_CHECKING
from ..named_tuple import NamedTuple
from ..run.session import Setting
from ..store.contract import Info
from ..tools.catalog import Catalog
from .lanes import Name

if TYPE_CHECKING:
    from ..observe.telemetry import Telemetry

__all__ = ["Service"]


class Service(NamedTuple):
    """One identity's memory, or with `many` that of any identity that a request names.

    Identities below are None where the process serves one, and never None with `many`.
    """

    catalog: Catalog
    info: Info
    """Of the store that is served, or in which all identities have theirs."""
    lockdown: str
    setting: Callable[[str | None], Setting]
    """The memory of an identity, opened. It raises RemedyError if that cannot be used. Any thread may call it."""
    journal: Callable[[str | None], tuple[str, str]]
    """Where the journals of an identity are, and its name. Nothing is opened or made."""
    run: str
    """The id of the process's own run; "" with `many`, where there is none."""
    named: bool
    """Whether the operator chose that id."""
    close: Callable[[], None]
    """Releases the backend's connection, within a few seconds."""
    telemetry: "Telemetry | None" = None
    """None unless it is configured."""

    @property
    def many(self) -> bool:
        """Whether each request for a run names an identity."""
        return not self.run

    @property
    def own(self) -> Name | None:
        """The process's own run."""
        return None if self.many else Name(None, self.run)
