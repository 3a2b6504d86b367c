"""One function per reader of untrusted bytes: it returns, or it raises because a promise was broken.

Each is a pure function of its input, so that an input which fails once fails always, here and in the tests.
"""

from collections.abc import Callable
from typing import Final

from .audit import answers, frames, hosts, offers
from .broker import broker
from .notes import documents, exports, headers
from .runs import journals, standings
from .settings import configurations, contexts, credentials, identities
from .wire import modern, wire

__all__ = ["TARGETS"]

TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    target.__name__: target
    for target in (
        *(wire, modern),
        *(documents, headers, exports),
        *(journals, standings),
        *(configurations, contexts, credentials, identities),
        broker,
        *(hosts, frames, offers, answers),
    )
}
