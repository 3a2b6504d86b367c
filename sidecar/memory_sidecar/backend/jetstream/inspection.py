"""What `doctor` and `info --check` see of a bucket: bound as a run would bind it, looked at, and nothing changed."""

from collections.abc import Awaitable, Mapping
from typing import Any, Final

from ...named_tuple import NamedTuple
from ..description import Finding
from ..opened import BackendError
from . import connect as nats_connect
from . import context as nats_context
from .api import ATTEMPT_SECONDS, Api, NoAnswerError, RefusedError
from .bucket import UNREACHABLE, bind_info
from .options import JetStreamOptions, resolve_prefix
from .refused import not_permitted
from .settings import Problem, absent_replicas, limits, refusals, risks
from .view import View

__all__ = ["Inspected", "inspect_jetstream"]


class Inspected(NamedTuple):
    """What was seen of a bucket."""

    state: Mapping[str, Any]
    """By names that programs rely on. What is wrong with the bucket is in it too, as sentences."""
    refused: list[Problem]
    """Why a run would be refused there."""
    findings: list[Finding]
    """What an operator should know although runs start there."""


async def inspect_jetstream(
    options: JetStreamOptions, *, identity: str, context: str | None, read_only: bool
) -> Inspected:
    """Bind as a run would, and tell the bucket's state and all that would be refused. Changes nothing.

    Raises:
        BackendError: there is no connection or no such bucket; the text holds the remedy.
    """
    prefix = resolve_prefix(options, identity)
    try:
        loaded = nats_context.load(context)
        nc = await nats_connect.connect(loaded, locked=True)
    except nats_context.ContextError as error:
        raise BackendError(error.problem, error.remedy) from error
    try:
        api = Api(nc, domain=loaded.jetstream_domain or None, api_prefix=loaded.jetstream_api_prefix or None)
        info = await bind_info(api, options.bucket)
        root = f"$KV.{options.bucket}."
        stored = await api.info(f"KV_{options.bucket}", ATTEMPT_SECONDS * 2, subjects=root + ">")
        found = refusals(options.bucket, info.config)
        lacking = await _lacking(api, options.bucket, prefix, read_only=read_only)
    except (RefusedError, NoAnswerError) as error:
        raise BackendError(UNREACHABLE) from error
    finally:
        await nats_connect.close(nc)
    keys = {subject.removeprefix(root) for subject in stored.subjects}
    ours = {key.removeprefix(prefix + ".") for key in keys if not prefix or key.startswith(prefix + ".")}
    config = info.config
    full, soon = limits(options.bucket, stored)
    lost = list(risks(options.bucket, config))
    absent = list(absent_replicas(options.bucket, stored))
    state = {
        "bucket": options.bucket,
        "created": info.created,
        "replicas": info.replicas,
        "storage": str(config.get("storage", "file")),
        "history": int(config.get("max_msgs_per_subject") or 0),
        "value_cap_bytes": max(0, int(config.get("max_msg_size") or 0)) or None,
        "may_be_lost": [str(one) for one in lost],
        "full": [str(one) for one in full],
        "soon_full": [str(one) for one in soon],
        "replicas_absent": [str(one) for one in absent],
        "messages": stored.messages,
        "bytes": stored.stored_bytes,
        "keys_here": len(ours),
        "keys_elsewhere": len(keys) - len(ours),
        # A key with a dot may be this prefix's own, or the key of an agent whose prefix nests under it.
        "prefixes_that_may_nest": sorted({key.split(".")[0] for key in ours if "." in key}),
    }
    kinds = (
        ("not-permitted", "wrong", lacking),
        ("bucket-full", "wrong", full),
        ("bucket-nearly-full", "note", soon),
        ("replica-absent", "note", absent),
        ("bucket-may-lose", "note", lost),
    )
    return Inspected(
        state, [*found, *lacking], [Finding(code, how, *one) for code, how, several in kinds for one in several]
    )


_IMPOSSIBLE: Final = {"Nats-Expected-Stream": "-", "Nats-Expected-Last-Subject-Sequence": str(2**63 - 1)}
"""A message with these is never stored: no stream has that name, and none has come so far."""


async def _lacking(api: Api, bucket: str, prefix: str, *, read_only: bool) -> list[Problem]:
    """What the broker does not permit this user, of all that a run asks for; nothing is changed by asking."""
    stream, root = f"KV_{bucket}", f"$KV.{bucket}." + (f"{prefix}." if prefix else "")
    lacking: list[Problem] = []

    async def tried(asked: Awaitable[object]) -> None:
        try:
            await asked
        except RefusedError as error:
            if error.code == 403:
                problem, _, remedy = not_permitted(error, root).partition("; ")
                lacking.append(Problem(problem, remedy))

    await tried(api.last(stream, f"{root}permitted", ATTEMPT_SECONDS))
    await tried(View(api, stream, root, lambda _: None).list())
    if not read_only:
        await tried(api.publish(f"{root}permitted", b"", _IMPOSSIBLE, ATTEMPT_SECONDS))
    return lacking
