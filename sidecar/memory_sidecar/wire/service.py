"""What a started process serves: made by `assemble`, used by the wire."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..named import NamedTuple
from ..run.session import Setting

if TYPE_CHECKING:
    from ..observe.telemetry import Telemetry

__all__ = ["Service"]


class Service(NamedTuple):
    """`run` is the id of the process's own run, `named` whether the operator chose it. `close` releases the backend's
    connection, within a few seconds. `telemetry` is None unless it is configured.
    """

    setting: Setting
    run: str
    named: bool
    close: Callable[[], None]
    telemetry: "Telemetry | None" = None
