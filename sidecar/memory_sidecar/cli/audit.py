"""Audit what strangers can see: connect to MCP servers and agent cards as they would, and report each memory tool.

Targets can be given in any mix and number. A command is launched as an MCP client would launch it, with a small
environment; give it variables with env(1): --mcp 'env TOKEN=x server --stdio'.

Exit status: 0 everything was seen and is clean; 1 memory leaks; 2 nothing leaks as far as it was seen, but
something could not be audited. A leak decides even when something else could not be audited: it is certain.
"""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from .report import on_terminal

if TYPE_CHECKING:
    from exposure_policy.audit import Finding, Report, TargetReport

__all__ = ["configure", "run"]

# A line of a report: long enough to judge by, short enough that no server can bury the rest.
_SHOWN: Final = 400
# In the table, which has little room; JSON, SARIF and the page tell all of the evidence.
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
    import logging

    import anyio

    from exposure_policy.audit import LEAK, UNAUDITED, Bounds, Target, audit

    # The SDKs log what servers send; it would reach the terminal as it came.
    logging.disable(logging.CRITICAL)
    try:
        targets = [Target(kind, value) for kind, value in args.targets]
        report = anyio.run(audit, targets, Bounds(seconds=args.timeout))
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


def _show(text: str) -> str:
    from ..plain import neutralise

    return neutralise(text, _SHOWN)


def _write_files(args: argparse.Namespace, report: "Report") -> bool:
    from ..version import __version__

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


# --- the table ---------------------------------------------------------------------------------------------

_VERDICTS: Final = {
    0: "Clean: everything on offer was seen, and none of it is memory.",
    1: "Leak: strangers can see memory tools.",
    2: "Not audited: something on offer could not be seen.",
}


def _print(report: "Report") -> None:
    try:
        if not on_terminal():
            raise ImportError
        from rich.console import Console
    except ImportError:
        _print_plainly(report)
        return
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=False)
    for target in report.targets:
        style = {"leak": "bold red", "unaudited": "bold yellow", "clean": "bold green"}[target.status]
        console.print(Text.assemble((f"{target.status:<10}", style), f"{target.kind}  ", (_show(target.label), "bold")))
        console.print(Text(f"{'':10}{_seen(target)}", style="dim"))
        if target.findings:
            console.print(_table(target))
        for reason in target.unaudited:
            console.print(Text.assemble((f"{'':10}not audited: ", "yellow"), _show(reason)))
        console.print()
    console.print(_VERDICTS[report.exit_code])


def _table(target: "TargetReport") -> object:
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, padding=(0, 1), pad_edge=False)
    for head in ("surface", "offer", "memory tool", "evidence"):
        table.add_column(head, overflow="fold")
    for finding in target.findings:
        cells = (finding.surface, f"{finding.name} ({finding.kind})", finding.tool)
        # Text, not str: a server's text must never be read as markup.
        table.add_row(*(Text(_show(cell)) for cell in cells), Text("\n".join(_evidence(finding))))
    return table


def _evidence(finding: "Finding") -> list[str]:
    from ..plain import neutralise

    lines = [neutralise(f"{e.label}: {e.text}", _EVIDENCE) for e in finding.evidence[:_LINES]]
    more = len(finding.evidence) - _LINES
    return [*lines, f"and {more} more"] if more > 0 else lines


def _print_plainly(report: "Report") -> None:
    for target in report.targets:
        print(f"{target.status:<10}{target.kind}  {_show(target.label)}  {_seen(target)}")
        for found in target.findings:
            print(f"  {found.surface}  {_show(found.name)} ({_show(found.kind)}) is {found.tool}")
            for line in _evidence(found):
                print(f"    {line}")
        for reason in target.unaudited:
            print(f"  not audited: {_show(reason)}")
    print(_VERDICTS[report.exit_code])


def _seen(target: "TargetReport") -> str:
    if not target.seen:
        return "nothing on it was seen"
    from exposure_policy.audit.rules import counted

    return "seen: " + counted(target.seen)
