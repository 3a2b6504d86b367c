"""Audit what strangers can see: connect to MCP servers and agent cards as they would, and report each memory tool.

Targets can be given in any mix and number. A command is launched as an MCP client would launch it, with a small
environment; give it variables with env(1): --mcp 'env TOKEN=x server --stdio'.

Exit status: 0 everything was seen and is clean, or accepted; 1 memory leaks; 2 nothing leaks as far as it was seen,
but something could not be audited; 64 wrong usage, and nothing was audited. A leak decides even when something else
could not be audited: it is certain.

Into a pipe or a file, the report has one record a line, its fields apart by tabs: status, kind of target, target, and
for a finding its surface, kind of offer, name, memory tool, evidence and id. So `| grep ^leak` is every leak.

What was reviewed and is fine goes into a TOML file for --accept, an [[accept]] entry with finding = "the id" and
reason = "why" for each. It stays in every report; a change of what is offered is a new finding with another id. What
could not be audited cannot be accepted.
"""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

from ...exits import EX_USAGE
from ..shared.failure import Failure
from ..shared.report import on_terminal

if TYPE_CHECKING:
    from exposure_policy.audit import Finding, Report, TargetReport

__all__ = ["configure", "run"]

# A line of a report: long enough to judge by, short enough that no server can bury the rest.
_SHOWN: Final = 400
# In the table and the records, which have little room; JSON, SARIF and the page tell all of the evidence.
_EVIDENCE: Final = 120
_LINES: Final = 3
_TARGETS: Final = (
    ("--mcp", "mcp", "COMMAND", "an MCP server to launch, as one quoted command line"),
    ("--url", "url", "URL", "an MCP server over streamable HTTP"),
    ("--sse", "sse", "URL", "an MCP server over SSE"),
    ("--card", "card", "FILE_OR_URL", "an A2A agent card, or a host whose well-known paths are tried"),
    ("--host-config", "host-config", "FILE", "an MCP host's configuration: is the sidecar listed in it?"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `memory-sidecar audit`. Imports nothing heavy."""
    targets = parser.add_argument_group("what to audit (each may be repeated)")
    for option, kind, metavar, meaning in _TARGETS:
        targets.add_argument(
            option, dest="targets", action="append", type=_Kind(kind), metavar=metavar, help=meaning, default=[]
        )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print the report as JSON instead of a table")
    output.add_argument("--sarif", metavar="FILE", help="also write SARIF 2.1.0, for code scanning")
    output.add_argument("--html", metavar="FILE", help="also write one self-contained page, to attach to a review")
    parser.add_argument(
        "--accept", metavar="FILE", help="TOML of reviewed findings that do not fail the run, each with a reason"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="for each target; what has not answered by then is not audited (default: 30)",
    )
    parser.set_defaults(usage_error=parser.error)


class _Kind:
    """Makes one list of all targets, in the order in which they were given."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __call__(self, value: str) -> tuple[str, str]:
        return self._kind, value


def _seconds(value: str) -> float:
    seconds = float(value)
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError("a timeout is more than 0 and at most 3600 seconds")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Audit every target, print and write the reports, and return the exit status."""
    if not args.targets:
        args.usage_error("name at least one target: --mcp, --url, --sse, --card or --host-config")
    if args.sarif and args.html and _same(args.sarif, args.html):
        args.usage_error("--sarif and --html name the same file; give each report its own")
    import logging

    try:
        import anyio
    except ImportError as error:
        raise Failure(
            "audit needs packages that are not installed",
            "install them: pip install 'memory-sidecar[audit]'",
            status=EX_USAGE,
        ) from error

    from exposure_policy.audit import LEAK, UNAUDITED, AcceptError, Bounds, Target, accept, audit, load

    try:
        accepted = load(args.accept) if args.accept else {}
    except AcceptError as error:
        args.usage_error(str(error))
    # The SDKs log what servers send; it would reach the terminal as it came.
    logging.disable(logging.CRITICAL)
    try:
        targets = [Target(kind, value) for kind, value in args.targets]
        report = accept(anyio.run(audit, targets, Bounds(seconds=args.timeout)), accepted)
    finally:
        logging.disable(logging.NOTSET)
    if args.json:
        from exposure_policy.audit.structured import to_json

        print(to_json(report))
    else:
        _print(report)
    status = report.exit_code
    if not _write_files(args, report) and status != LEAK:
        return UNAUDITED
    return status


def _same(one: str, other: str) -> bool:
    """Whether two names are of one file, which need not exist; /dev/stdout and such are no files to overwrite."""
    try:
        if not os.path.isfile(one) and os.path.exists(one):
            return False
        if os.path.samefile(one, other):
            return True
    except OSError:
        pass
    return os.path.realpath(one) == os.path.realpath(other)


def _show(text: str) -> str:
    from ...plain import neutralise

    return neutralise(text, _SHOWN)


def _write_files(args: argparse.Namespace, report: "Report") -> bool:
    from ...version import __version__

    written = True
    if args.sarif:
        from exposure_policy.audit.sarif import to_sarif

        written &= _write(args.sarif, to_sarif(report, _show, __version__))
    if args.html:
        from datetime import UTC, datetime

        from exposure_policy.audit.page import to_html

        when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        written &= _write(args.html, to_html(report, _show, __version__, when))
    return written


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        print(f"memory-sidecar audit: cannot write {path}: {error.strerror}", file=sys.stderr)
        return False
    return True


# --- the readable report ---------------------------------------------------------------------------------------

_VERDICTS: Final = {
    0: "Clean: everything on offer was seen, and none of it is memory.",
    1: "Leak: strangers can see memory tools.",
    2: "Not audited: something on offer could not be seen.",
}
_ACCEPTED: Final = "Accepted: everything on offer was seen, and all of it that is memory was reviewed and accepted."
_HOST: Final = "host-config"
_ONLY: Final = "other memories were not looked for: audit each server with --mcp or --url"
_NOT_LISTED: Final = f"Clean: no entry was seen to start the sidecar; {_ONLY}."
_LISTED: Final = f"Accepted: each entry that starts the sidecar was reviewed and accepted; {_ONLY}."
_STALE: Final = "not there any more: remove it, or review what took its place"


def _verdict(report: "Report") -> str:
    accepted = any(target.status == "accepted" for target in report.targets)
    if report.exit_code == 0 and all(target.kind == _HOST for target in report.targets):
        return _LISTED if accepted else _NOT_LISTED
    return _ACCEPTED if report.exit_code == 0 and accepted else _VERDICTS[report.exit_code]


def _print(report: "Report") -> None:
    if on_terminal():
        try:
            _print_table(report)
            return
        except ImportError:
            pass
    _print_records(report)


def _print_records(report: "Report") -> None:
    """One record a line, never wrapped: what `grep` and `cut` can use. Texts hold no tab once they are shown."""
    for target in report.targets:
        of_target = (target.kind, target.label)
        for found in target.findings:
            status = "accepted" if found.accepted else "leak"
            reason = (found.accepted,) if found.accepted else ()
            told = "; ".join(_evidence(found))
            _record(status, *of_target, found.surface, found.kind, found.name, found.tool, told, found.id, *reason)
        for why in target.unaudited:
            _record("unaudited", *of_target, why)
        if target.status == "clean":
            _record("clean", *of_target, _seen(target))
    for finding, accepted in report.stale:
        _record("stale", finding, _STALE, accepted)
    print(_verdict(report))


def _record(*fields: str) -> None:
    print("\t".join(map(_show, fields)))


def _print_table(report: "Report") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=False)
    styles = {"leak": "bold red", "unaudited": "bold yellow", "accepted": "bold cyan", "clean": "bold green"}
    for target in report.targets:
        head = (f"{target.status:<10}", styles[target.status])
        console.print(Text.assemble(head, f"{target.kind}  ", (_show(target.label), "bold")))
        console.print(Text(f"{'':10}{_seen(target)}", style="dim"))
        if target.findings:
            console.print(_table(target))
        for reason in target.unaudited:
            console.print(Text.assemble((f"{'':10}not audited: ", "yellow"), _show(reason)))
        console.print()
    for finding, accepted in report.stale:
        console.print(Text.assemble(("stale     ", "bold yellow"), f"{_show(finding)} is {_STALE} ({_show(accepted)})"))
    console.print(_verdict(report))


def _table(target: "TargetReport") -> object:
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, padding=(0, 1), pad_edge=False)
    for head in ("surface", "offer", "memory tool", "evidence"):
        table.add_column(head, overflow="fold")
    table.add_column("finding", no_wrap=True)
    for finding in target.findings:
        cells = (finding.surface, f"{finding.name} ({finding.kind})", finding.tool)
        evidence = _evidence(finding) + ([f"accepted: {_show(finding.accepted)}"] if finding.accepted else [])
        # Text, not str: a server's text must never be read as markup.
        table.add_row(*(Text(_show(cell)) for cell in cells), Text("\n".join(evidence)), Text(finding.id))
    return table


def _evidence(finding: "Finding") -> list[str]:
    from ...plain import neutralise

    lines = [neutralise(f"{e.label}: {e.text}", _EVIDENCE) for e in finding.evidence[:_LINES]]
    more = len(finding.evidence) - _LINES
    return [*lines, f"and {more} more"] if more > 0 else lines


def _seen(target: "TargetReport") -> str:
    if not target.seen:
        return "nothing on it was seen"
    from exposure_policy.audit.rules import counted

    only = "; looked for the sidecar alone" if target.kind == _HOST else ""
    return "seen: " + counted(target.seen) + only
