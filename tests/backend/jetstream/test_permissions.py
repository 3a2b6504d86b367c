"""The least set of subjects, as text: the tests of the command try each with a real broker."""

import pytest

from memory_sidecar.backend.jetstream.context import NatsContext
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.permissions import Permissions, permissions


def publishes(context: NatsContext, prefix: str = "bot", *, read_only: bool = False, inside: bool = False) -> list[str]:
    return list(permissions(JetStreamOptions("b"), prefix, context, read_only=read_only, inside=inside).publish)


def test_claims_name_what_may_be_published_and_what_may_be_subscribed_to() -> None:
    claims = Permissions(("a", "b.>"), ("_INBOX.>",)).claims()
    assert claims == {"nats": {"pub": {"allow": ["a", "b.>"]}, "sub": {"allow": ["_INBOX.>"]}}}


def test_a_writer_may_change_its_own_notes_alone_and_a_reader_none() -> None:
    assert publishes(NatsContext("c"))[-1] == "$KV.b.bot.>"
    assert publishes(NatsContext("c"), "")[-1] == "$KV.b.>"
    assert not any("$KV." in subject for subject in publishes(NatsContext("c"), read_only=True))


@pytest.mark.parametrize(
    ("context", "inside", "api"),
    [
        (NatsContext("c"), False, "$JS.API"),
        (NatsContext("c", jetstream_domain="hub"), False, "$JS.hub.API"),
        (NatsContext("c", jetstream_domain="hub"), True, "$JS.API"),
        (NatsContext("c", jetstream_api_prefix="JS.other"), False, "JS.other"),
        (NatsContext("c", jetstream_api_prefix="JS.other."), False, "JS.other"),
        (NatsContext("c", jetstream_api_prefix="JS.other."), True, "JS.other"),
    ],
    ids=str,
)
def test_the_api_is_reached_as_the_context_says(context: NatsContext, api: str, *, inside: bool) -> None:
    info, *_, notes = publishes(context, inside=inside)
    assert info == f"{api}.STREAM.INFO.KV_b"
    assert notes == ("" if api == "$JS.API" else f"{api}.") + "$KV.b.bot.>"


def test_an_inbox_of_its_own_is_the_only_one() -> None:
    options = JetStreamOptions("b")
    assert permissions(options, "", NatsContext("c"), read_only=True, inside=False).subscribe == ("_INBOX.>",)
    own = NatsContext("c", inbox_prefix="_INBOX_bot")
    assert permissions(options, "", own, read_only=True, inside=False).subscribe == ("_INBOX_bot.>",)
