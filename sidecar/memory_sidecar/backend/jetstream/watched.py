"""The settings of a bucket while it is used: judged at every look, so that what is stored is not lost unseen.

An operator may change a bucket at any time. So the settings are judged anew with every stream info that is fetched,
and every change of a note fetches one first: under settings that would lose what is stored, nothing is stored, and the
first look after they were mended lets changes through again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...observe import gauges, log
from ...store.errors import UnavailableError
from .api import StreamInfo
from .settings import Problem

__all__ = ["Settings", "see_room"]


class Settings:
    """The settings of one bucket, as last seen. `judge` tells why they are refused; [] if they will do.

    `refused` is what is known of them, and told, already.
    """

    def __init__(
        self, bucket: str, judge: Callable[[Mapping[str, Any]], list[Problem]], refused: Sequence[Problem] = ()
    ) -> None:
        self._bucket = bucket
        self._judge = judge
        self._refused = list(refused)
        self._seen: Mapping[str, Any] | None = None
        """The settings that were judged last: they seldom change, and each call looks at them."""

    def see(self, config: Mapping[str, Any]) -> None:
        """Judge the settings that a stream info told, and log where the answer is another one than before."""
        if config == self._seen:
            return
        self._seen = config
        refused = self._judge(config)
        gauges.see("bucket.refused", int(bool(refused)))
        if refused == self._refused:
            return
        self._refused = refused
        if refused:
            log.error(
                "changes are refused: the bucket was changed", bucket=self._bucket, reason="; ".join(map(str, refused))
            )
        else:
            log.warning("changes are taken again: the bucket was mended", bucket=self._bucket)

    def check(self) -> None:
        """Do nothing if notes may be changed.

        Raises:
            UnavailableError: under the settings last seen a note that is stored could be lost.
        """
        if not self._refused:
            return
        error = UnavailableError(
            "The memory store was set up anew so that it would lose or refuse notes. Nothing was changed. "
            "Go on without storing; its operator must mend it."
        )
        error.remedy = "; ".join(map(str, self._refused))
        raise error


def see_room(info: StreamInfo) -> None:
    """Let a monitor know how full the bucket is."""
    gauges.see("bucket.size", info.stored_bytes)
    limit = int(info.config.get("max_bytes") or 0)
    if limit > 0:
        gauges.see("bucket.limit", limit)
