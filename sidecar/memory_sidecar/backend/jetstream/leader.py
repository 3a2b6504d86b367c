"""What the stream's leader says, asked again until a call's deadline. Other members of a cluster lag, so none is asked.

A new leader may itself not know yet what an earlier one acknowledged: `newest` waits for it where a revision tells so.
"""

import asyncio
import re
from typing import Final

from .api import Api, Message, StreamInfo
from .waiting import Patience, both, left, now
from .watched import Settings, see_room

__all__ = ["LAG_SECONDS", "REVISION", "Leader"]

LAG_SECONDS: Final = 1.5
"""How long a new leader may not know yet what an earlier one acknowledged. After that, a revision beyond the end
of the stream is taken for one that was never given."""

REVISION: Final = re.compile(r"([1-9][0-9]{0,19})@.{1,64}")
"""How a revision is written: the sequence of its message, and what tells that from others that ever had it."""


class Leader:
    """The leader of one stream. `created` and `reached` are what it last said of it."""

    def __init__(self, api: Api, stream: str, patience: Patience, settings: Settings, *, created: str) -> None:
        self._api = api
        self._stream = stream
        self._patience = patience
        self._settings = settings
        self.created = created
        """When the bucket now in place was made, as last seen."""
        self.reached = 0
        """A sequence which that bucket is known to have reached."""

    async def info(self, deadline: float, *, change: bool = False) -> StreamInfo:
        """The stream's state. Asked for before every `change`, which is refused while notes would be lost.

        Raises:
            UnavailableError: there was no answer; or a change is refused.
        """

        async def ask() -> StreamInfo:
            return await self._api.info(self._stream, left(deadline))

        info = await self._patience.ask(ask, deadline)
        self.created, self.reached = info.created, info.last_sequence
        self._settings.see(info.config)
        see_room(info)
        if change:
            self._settings.check()
        return info

    async def last(self, subject: str, deadline: float) -> Message | None:
        """The last message whose subject matches; None if there is none."""

        async def ask() -> Message | None:
            return await self._api.last(self._stream, subject, left(deadline))

        return await self._patience.ask(ask, deadline)

    async def before_change(self, subject: str, deadline: float) -> tuple[StreamInfo, Message | None]:
        """The stream's state and the last message of `subject`, asked for together.

        Raises:
            UnavailableError: there was no answer; or a change is refused.
        """
        return await both(self.info(deadline, change=True), self.last(subject, deadline))

    async def newest(self, subject: str, after: str | None, deadline: float) -> Message | None:
        """The last message of `subject`. With `after`, a revision of it: not one from before that."""
        found = REVISION.fullmatch(after or "")
        begun, created = now(), self.created
        last = await self.last(subject, deadline)
        while found is not None and (last is None or last.sequence < int(found[1])):
            # Gone, or else the leader has not caught up yet: its word counts once it has come that far.
            info = await self.info(deadline)
            behind = info.created == created and info.last_sequence < int(found[1])
            last = await self.last(subject, deadline)
            if not behind or now() >= begun + LAG_SECONDS:
                break
            await asyncio.sleep(0.1)
        return last
