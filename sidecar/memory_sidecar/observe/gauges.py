"""Numbers that a monitor watches, as they were when last seen: written where they are seen anyway, read by telemetry.

Nothing is asked for their sake. What has not been seen is not told. Of one process: with many identities the notes of
none are told, as each has its own.
"""

from collections.abc import Mapping

from ..hints import Final
from ..named_tuple import NamedTuple

__all__ = ["GAUGES", "Gauge", "add", "leave_out_notes", "see", "seen"]


class Gauge(NamedTuple):
    """What is known of a number beside its name, which telemetry tells after `memory_sidecar.`."""

    unit: str
    about: str


GAUGES: Final[Mapping[str, Gauge]] = {
    "notes": Gauge("{note}", "Notes in the memory, as last listed or changed by this process"),
    "notes.limit": Gauge("{note}", "Notes that the memory may hold"),
    "deletion_marks": Gauge(
        "{mark}", "Marks of deletions under the prefix, as last listed: nats kv compact removes them"
    ),
    "bucket.size": Gauge("By", "What the bucket's messages take, as its max_bytes counts it"),
    "bucket.limit": Gauge("By", "The bucket's max_bytes, if it has one"),
    "bucket.refused": Gauge("{state}", "1 while the bucket's settings would lose notes, so that changes are refused"),
    "broker.reconnects": Gauge("{reconnect}", "How often the broker's connection was made again"),
    "runs.unsaved": Gauge("{run}", "Open runs whose authority cannot be saved at the moment"),
}

_seen: dict[str, int] = {}
_left_out: set[str] = set()


def see(name: str, value: int) -> None:
    """The number is this now."""
    _seen[name] = value


def add(name: str, change: int) -> None:
    """The number has changed; one that was never seen has been 0."""
    _seen[name] = _seen.get(name, 0) + change


def seen() -> Mapping[str, int]:
    """All that have been seen, by name."""
    return {name: value for name, value in _seen.items() if name not in _left_out}


def leave_out_notes() -> None:
    """Tell nothing of notes: this process serves many identities, and their numbers would be mixed up."""
    _left_out.update(("notes", "notes.limit", "deletion_marks"))
