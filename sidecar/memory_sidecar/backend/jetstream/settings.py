"""What the settings of a bucket mean for the memories in it. Pure: from a stream's configuration to sentences.

`refusals` says why a bucket will not do; `risks` what one that will do may still lose when servers fail; `limits` and
`absent_replicas` what it will soon be short of. Each is a `Problem`, whose remedy is a command. It names no context of
an agent: with the permissions that an agent needs, it may change no bucket.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...named_tuple import NamedTuple
from ...store.rules import MAX_ENTRY_BYTES
from .api import StreamInfo

__all__ = ["NATS", "WHO", "Problem", "absent_replicas", "add_command", "is_readable", "limits", "refusals", "risks"]

NATS: Final = "nats --context ADMIN"
"""How a command begins that an operator is to run. The text that holds one ends with `WHO`."""
WHO: Final = " (ADMIN is a context of this broker that may administer it, as an agent's own need not)"

_ANOTHER: Final = "make a bucket of another name with: {anew}"


class Problem(NamedTuple):
    """What is wrong with a bucket, and what to do: each one clause."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def add_command(bucket: str) -> str:
    """The command that makes the bucket as this backend wants it."""
    return f"{NATS} kv add {bucket} --history=1 --max-value-size={MAX_ENTRY_BYTES}"


def refusals(bucket: str, config: Mapping[str, Any]) -> list[Problem]:
    """Why a bucket of these settings is refused; none if it will do.

    Refused is what would lose memories, or refuse to store them, behind the agents' back.
    """
    edit, anew = f"{NATS} stream edit KV_{bucket}", add_command(f"{bucket}-2")
    return [
        Problem(f'KV bucket "{bucket}" {what}', remedy.format(edit=edit, anew=anew) + (WHO if "{" in remedy else ""))
        for what, remedy in (*_losses(config), *_obstacles(bucket, config))
    ]


def is_readable(bucket: str, config: Mapping[str, Any]) -> bool:
    """Whether notes can be read under these settings although they are refused, and reading them removes none.

    Where values go once they were consumed, a listing could be what consumes them.
    """
    holds_values = bool(config.get("mirror")) or f"$KV.{bucket}.>" in (config.get("subjects") or ())
    return holds_values and config.get("retention", "limits") == "limits" and not config.get("allow_msg_counter")


def risks(bucket: str, config: Mapping[str, Any]) -> Iterator[Problem]:
    """What a bucket of these settings would lose when servers fail."""
    if config.get("storage") == "memory":
        yield Problem(
            f'KV bucket "{bucket}" is kept in memory, so all notes are lost when its servers restart',
            f"copy them (memory-sidecar copy) to a bucket made with: {add_command(bucket + '-2')} --storage=file{WHO}",
        )
    elif int(config.get("num_replicas") or 1) == 1:
        yield Problem(
            f'KV bucket "{bucket}" has one replica, so notes are lost with the disk of its server, and those of the '
            "last two minutes in a power cut unless the server is set to sync_interval: always",
            f"on a cluster run: {NATS} stream edit KV_{bucket} --replicas=3{WHO}",
        )


def _losses(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings under which stored memories could silently vanish, with the remedy.

    That single messages may expire (`allow_msg_ttl`, which some clients set on every bucket they make) is none:
    only a message whose own writer asked for it does, and none of ours ever does.
    """
    if config.get("max_age"):
        yield (
            "has a TTL, so stored memories would silently expire",
            "remove it with: {edit} --max-age=0s",
        )
    if str(config.get("persist_mode") or "default") == "async":
        yield (
            "confirms writes before they are on disk (persist_mode: async), so they would be lost when its server dies",
            _ANOTHER,
        )
    if config.get("discard", "old") == "old":
        for limit, name in (("max_msgs", "messages"), ("max_bytes", "bytes")):
            if int(config.get(limit) or 0) > 0:
                yield (
                    f"discards its oldest values beyond {config[limit]} {name}, so memories would silently vanish",
                    "make it refuse new ones instead with: {edit} --discard=new",
                )
    if config.get("retention", "limits") != "limits":
        yield "removes values once they were consumed", _ANOTHER


def _obstacles(bucket: str, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings under which legal memories could not be stored or found again, with the remedy."""
    if 0 < int(config.get("max_msg_size") or 0) < MAX_ENTRY_BYTES:
        yield (
            f"caps values at {config['max_msg_size']} bytes, below the {MAX_ENTRY_BYTES} of a full entry",
            f"raise it with: {{edit}} --max-msg-size={MAX_ENTRY_BYTES}",
        )
    if config.get("mirror"):
        yield (
            "is a mirror, which lags behind its origin and cannot be written",
            "name the origin in harness.memory.options.bucket",
        )
    elif f"$KV.{bucket}.>" not in (config.get("subjects") or ()):
        yield "is a stream that only has the name of one", _ANOTHER
    if int(config.get("max_msgs_per_subject") or 0) < 1:
        # Clients in Go take a stream without a history for no bucket, so half of a mixed fleet would not start.
        yield (
            "keeps any number of old values of a key (max_msgs_per_subject), which other clients refuse to open",
            "bound them with: {edit} --max-msgs-per-subject=1",
        )
    if config.get("no_ack"):
        yield "confirms no writes (no_ack)", "turn that off with: {edit} --ack"
    if config.get("allow_msg_counter"):
        yield "holds counters, not values (allow_msg_counter)", _ANOTHER
    if config.get("discard_new_per_subject"):
        yield "refuses overwrites once a key has its full history", _ANOTHER
    if config.get("sealed"):
        yield "is sealed, so nothing can ever be stored in it", _ANOTHER
    if config.get("subject_transform"):
        yield "renames keys as it stores them (subject_transform)", "remove the transform"


_NEARLY: Final = 0.9
"""The share of a limit from which an operator is told."""

_SMALL_BYTES: Final = 1024
"""What a small note takes in a bucket, headers included. A bucket with less room than that is full."""


def limits(bucket: str, info: StreamInfo) -> tuple[list[Problem], list[Problem]]:
    """What an operator must know of the bucket's room: where it is full, and where it soon will be."""
    full: list[Problem] = []
    soon: list[Problem] = []
    for setting, used, least, most in (
        ("max_msgs", info.messages, 1, 1),
        ("max_bytes", info.stored_bytes, _SMALL_BYTES, MAX_ENTRY_BYTES),
    ):
        limit = int(info.config.get(setting) or 0)
        if limit <= 0 or (used + most <= limit and used < _NEARLY * limit):
            continue
        is_full = used + least > limit
        what = "new notes are refused" if is_full else "soon new notes will be refused"
        (full if is_full else soon).append(
            Problem(
                f'KV bucket "{bucket}" holds {used} of its {setting} {limit}, so {what}',
                f"raise that with: {NATS} stream edit KV_{bucket} --{setting.replace('_', '-')}={2 * limit}, or remove "
                f"the marks of deletions with: {NATS} kv compact {bucket}{WHO}",
            )
        )
    return full, soon


def absent_replicas(bucket: str, info: StreamInfo) -> Iterator[Problem]:
    """Replicas that do not take part, of which the leader tells."""
    for peer in info.peers:
        if peer.get("offline") or not peer.get("current"):
            state = "down" if peer.get("offline") else "behind"
            yield Problem(
                f'the replica of KV bucket "{bucket}" on {str(peer.get("name"))!r:.80} is {state}, so the next failure '
                "may stop writes",
                f"see: {NATS} stream info KV_{bucket}{WHO}",
            )
