"""What a user of the broker must be allowed for one memory, and nothing more. Pure; `api` and `consumer` do the asking.

Tried by running every command under exactly this set, and under it less each subject.
"""

import json
from typing import Any

from ...named_tuple import NamedTuple
from .context import NatsContext
from .options import JetStreamOptions

__all__ = ["Permissions", "permissions"]


class Permissions(NamedTuple):
    """The subjects that one user may publish and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]

    def server(self) -> str:
        """As the `permissions` of a user in a server's configuration."""
        blocks = (
            f"  {name}: {{ allow: [\n" + "".join(f"    {json.dumps(subject)}\n" for subject in subjects) + "  ] }\n"
            for name, subjects in (("publish", self.publish), ("subscribe", self.subscribe))
        )
        return "permissions: {\n" + "".join(blocks) + "}\n"

    def claims(self) -> dict[str, Any]:
        """As the `nats` claim of a user's JWT."""
        return {"nats": {"pub": {"allow": list(self.publish)}, "sub": {"allow": list(self.subscribe)}}}


def permissions(
    options: JetStreamOptions, prefix: str, context: NatsContext, *, read_only: bool, inside: bool = False
) -> Permissions:
    """The least set for the notes under `prefix` ("" for the whole bucket), reached as `context` says.

    `inside`: the server that the user connects to is itself of the context's JetStream domain. It takes the domain out
    of a subject before it looks whether that is permitted.
    """
    api = context.jetstream_api_prefix.rstrip(".") or (
        f"$JS.{context.jetstream_domain}.API" if context.jetstream_domain and not inside else "$JS.API"
    )
    stream = f"KV_{options.bucket}"
    reading = (
        f"{api}.STREAM.INFO.{stream}",
        f"{api}.STREAM.MSG.GET.{stream}",
        f"{api}.CONSUMER.CREATE.{stream}.>",
        f"{api}.CONSUMER.MSG.NEXT.{stream}.>",
        f"{api}.CONSUMER.DELETE.{stream}.>",
    )
    # Through a foreign API prefix a broker maps the bucket's own subjects too.
    notes = ("" if api == "$JS.API" else f"{api}.") + f"$KV.{options.bucket}." + (f"{prefix}." if prefix else "") + ">"
    return Permissions(reading if read_only else (*reading, notes), (f"{context.inbox_prefix or '_INBOX'}.>",))
