"""Serve one harness on stdin and stdout, until it closes them.

A harness starts this command as its subprocess. It writes a fresh token of 32 random bytes in URL-safe text to a new
file of mode 0600, passes the file's path in MEMORY_SIDECAR_TICKET, and presents the token as a capability:

  "capabilities": {"extensions": {"memory-sidecar/harness": {"ticket": TOKEN}}}

in the params of initialize, or in MCP 2026-07-28 the same object as "io.modelcontextprotocol/clientCapabilities" in
the _meta of each request. Without that nothing is served: memory is private to the harness that launched it. Messages
are MCP's, one JSON text a line, and `instructions` of the answer to initialize goes into the system prompt. The Python
library memory_sidecar.harness does all this.

Exit statuses: 0 the harness left; 64 no ticket or no private pipe, or wrong usage without a ticket; 77 refused by
policy; 78 the options, the configuration, a directory or this machine cannot be used (the harness gets the remedy as
the answer to its first request).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ..assemble import lock_down, prepare
from ..backend.choose import is_brought
from ..exits import EX_USAGE, StartError
from ..hints import TYPE_CHECKING, Final
from ..observe import log
from ..system.inherited import has_descriptors, put_right, restart_alone
from ..version import __version__
from ..wire.last_word import TOO_FEW_DESCRIPTORS, answer_alone, explained
from ..wire.serve import serve
from ..wire.stdio import PARENT_VARIABLE, NotPrivateError, Parent, claim, watch_parent
from ..wire.ticket import TICKET_VARIABLE, WHO_MAY_START, Ticket, TicketError, open_ticket
from .shared.places import PLACES, add_options, places

if TYPE_CHECKING:
    import argparse

    from ..wire.service import Service

__all__ = ["configure", "log_refusal", "quick", "run", "serve_harness"]

_OPTIONS: Final = {
    **PLACES,
    "run": ("ID", "open this run at the handshake, resuming it if it exists"),
    "keep-runs": (
        "AGE",
        "remove journals of runs that are over and unused for so long (30d), not of suspended or interrupted ones",
    ),
    "lockdown": (
        "auto|require|off",
        "give up the rights that serving needs not: all that the system offers (auto), all or no start (require), none",
    ),
    "log-level": ("error|warning|info|debug", "which events are told on stderr; default: warning"),
    "log-format": ("text|json", "how they are written, one line each; default: text"),
    "default-identity": ("NAME", "the identity, if neither --identity nor the configuration names one"),
}


_MANY: Final = "--many-identities"
"""The one option without a value."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    add_options(parser, _OPTIONS)
    parser.add_argument(
        _MANY,
        action="store_const",
        const="yes",
        help="serve any identity that a run is opened for, each with memory, journals and limits of its own",
    )


def run(arguments: argparse.Namespace) -> int:
    return serve_harness(vars(arguments))


def quick(words: Sequence[str]) -> dict[str, str | None] | None:
    """The options, if `words` are nothing but `--name value` pairs, each once; None leaves it to a real parser.

    A harness launches this for every run, and loading argparse would take a tenth of that.
    """
    flags: dict[str, str | None] = {"many_identities": "yes"} if _MANY in words else {}
    words = [word for word in words if word != _MANY]
    names = [word.removeprefix("--") for word in words[::2]]
    if (
        len(words) % 2
        or len(set(names)) < len(names)
        or not all(word.startswith("--") for word in words[::2])
        or not set(names) <= set(_OPTIONS)
    ):
        return None
    values = words[1::2]
    if any(value.startswith("-") for value in values):
        return None
    return {name.replace("-", "_"): value for name, value in zip(names, values, strict=True)} | flags


def serve_harness(options: Mapping[str, str | None], wrong: StartError | None = None) -> int:
    """Serve the harness that started this process, and return the exit status.

    `options` are those of the command line, with underscores; `wrong` says that they could not be read.
    """
    path = os.environ.get(TICKET_VARIABLE, "")
    try:
        # A program with a store of its own may have opened files, and chosen how it was started.
        put_right(strays=not is_brought())
        if not is_brought() and options.get("lockdown") != "off":
            restart_alone()
        os.environ.pop(TICKET_VARIABLE, None)
        if not path:
            return _refuse(WHO_MAY_START)
        source, sink = claim()
    except NotPrivateError as error:
        return _refuse(f"{error}; {WHO_MAY_START}")
    except Exception as error:  # noqa: BLE001 - told, like any other
        return _answer_alone(0, 1, error) if path else _refuse(WHO_MAY_START)
    try:
        parent, ticket, service = _prepared(options, path, wrong)
    except Exception as error:  # noqa: BLE001 - told, like any other
        return _answer_alone(source, sink, error)
    status = serve(source, sink, parent, ticket, service)
    if sys.flags.inspect and not is_brought():
        # PYTHONINSPECT: the interpreter would go on with a prompt, find stdin at its end, and say 1.
        os._exit(status)
    return status


def _prepared(
    options: Mapping[str, str | None], path: str, wrong: StartError | None
) -> tuple[Parent, Ticket | TicketError, Service | StartError]:
    """Whose child this is, its ticket, and what is to be served to the holder of that."""
    parent = watch_parent(os.environ.pop(PARENT_VARIABLE, ""))  # early: of one that dies before, only its word tells
    refused = wrong or _configure_log(options) or (None if has_descriptors() else TOO_FEW_DESCRIPTORS)
    try:
        ticket = open_ticket(path)
    except TicketError as error:
        log.warning("the launch ticket cannot be used; every client will be refused", reason=error)
        return parent, error, _locked(StartError("the launch ticket cannot be used"))
    return parent, ticket, _locked(refused) if refused is not None else _started(options)


def _answer_alone(source: int, sink: int, error: Exception) -> int:
    reason = explained(error)
    with suppress(Exception):  # whoever asks is told, whatever becomes of the log
        log.error("cannot start", reason=reason, cause=log.problem(error))
    return answer_alone(source, sink, reason)


def _started(options: Mapping[str, str | None]) -> Service | StartError:
    """What is to be served. Whatever goes wrong, the harness is answered: it never sees only a closed pipe."""
    try:
        plan = prepare(places(options))
        if plan.identity is not None:
            log.identify(plan.identity)
        service = plan.start()
        _tell_start(service)
    except StartError as error:
        return _locked(error)
    except Exception as error:  # noqa: BLE001 - told, like any other
        found = log.problem(error)
        log.error("cannot start", error=found)
        return _locked(StartError(f"the sidecar cannot start: {found}", "mend that, or report it"))
    return service


def _configure_log(options: Mapping[str, str | None]) -> StartError | None:
    """Set up the log as asked. What cannot be set up is said, to the harness as well."""
    level_word, format_word = _log_words(options)
    level = next((known for known in log.LEVELS if known == level_word), None)
    log.configure(level or "warning", format_word)
    return log_refusal(options)


def log_refusal(options: Mapping[str, str | None]) -> StartError | None:
    """What is wrong with the options of the log; None if nothing is."""
    level_word, format_word = _log_words(options)
    if level_word not in log.LEVELS:
        return StartError(f"--log-level {level_word!r} is not a level", f"use {', '.join(log.LEVELS)}")
    if format_word not in log.FORMATS:
        return StartError(f"--log-format {format_word!r} is not a format", f"use {' or '.join(log.FORMATS)}")
    return None


def _log_words(options: Mapping[str, str | None]) -> tuple[str, str]:
    level, form = options.get("log_level"), options.get("log_format")
    return "warning" if level is None else level, "text" if form is None else form


def _tell_start(service: Service) -> None:
    backend, location = service.info
    log.info(
        "started",
        version=__version__,
        backend=backend,
        location=location or None,
        read_only=service.catalog.read_only,
        lockdown=service.lockdown,
        many_identities=service.many or None,
    )


def _locked(error: StartError) -> StartError:
    """A process that only has to say `error` needs no rights at all."""
    with suppress(Exception):
        lock_down("auto")
    return error


def _refuse(reason: str) -> int:
    if sys.stderr is not None:  # else `print` would take stdout, and that may be the wire
        print(f"memory-sidecar: {reason}", file=sys.stderr)
    return EX_USAGE
