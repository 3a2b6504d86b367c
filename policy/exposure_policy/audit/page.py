"""The report as one HTML page to attach to a review. Pure; the page loads nothing and runs nothing.

Every text is made safe twice: by the caller's `show`, then by HTML escaping. A content security policy in the page
itself forbids whatever could still slip through.
"""

from collections.abc import Callable
from html import escape
from typing import Final

from .result import CLEAN, LEAK, Finding, Report, TargetReport
from .rules import NOT_LOOKED_AT, RULES, counted

__all__ = ["to_html"]

_STYLE: Final = """
:root { color-scheme: light dark;
  --ground: #fbfaf8; --card: #ffffff; --ink: #1d1f24; --soft: #5a5f6b; --line: #d9d7d1;
  --leak: #a3180f; --leak-bg: #fdeceb; --unaudited: #7a4b00; --unaudited-bg: #fdf3dd;
  --clean: #14603a; --clean-bg: #e6f4ec; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #15171b; --card: #1d2025; --ink: #e8e6e1; --soft: #a2a7b3; --line: #353a43;
  --leak: #ff9c92; --leak-bg: #3a1c1a; --unaudited: #f5c66b; --unaudited-bg: #37290f;
  --clean: #86d9a8; --clean-bg: #15301f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 0; overflow-wrap: anywhere; }
.meta, .seen { color: var(--soft); margin: 0; }
.verdict { border-left: .4rem solid currentColor; border-radius: .3rem; padding: .9rem 1.1rem; margin: 1.5rem 0; }
.verdict p { color: var(--ink); margin: .2rem 0 0; }
.verdict strong { font-size: 1.15rem; }
.leak { color: var(--leak); background: var(--leak-bg); }
.unaudited { color: var(--unaudited); background: var(--unaudited-bg); }
.clean, .accepted { color: var(--clean); background: var(--clean-bg); }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1.1rem 1.25rem;
  margin: 1rem 0; }
.head { display: flex; gap: .75rem; align-items: baseline; flex-wrap: wrap; }
.badge { border-radius: 1rem; padding: .05rem .7rem; font-size: .85rem; font-weight: 650; white-space: nowrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: .9rem 0 .2rem; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem .45rem 0; border-top: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; border-top: 0; }
td.evidence { overflow-wrap: anywhere; min-width: 14rem; }
th.name { overflow-wrap: anywhere; min-width: 9rem; font-weight: 400; }
td.tool code { white-space: nowrap; }
code { font: .88em/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
ul { margin: .7rem 0 0; padding-left: 1.2rem; }
li { overflow-wrap: anywhere; }
dl { margin: .6rem 0 0; } dt { font-weight: 600; margin-top: .7rem; } dd { margin: 0; }
footer { color: var(--soft); font-size: .92rem; margin-top: 2rem; }
@media (max-width: 40rem) {
  thead { position: absolute; clip-path: inset(50%); }
  tbody tr { display: block; border-top: 1px solid var(--line); padding: .5rem 0; }
  td, th[scope=row] { display: block; border: 0; padding: .1rem 0; }
  td::before, th[scope=row]::before { content: attr(data-label) ": "; color: var(--soft); font-weight: 400; }
}
@media print {
  :root { --ground: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #bbb;
    --leak: #8a0f08; --leak-bg: #fff; --unaudited: #6b4200; --unaudited-bg: #fff; --clean: #0d4a2b; --clean-bg: #fff; }
  main { max-width: none; padding: 0; } section { break-inside: avoid-page; } .badge { border: 1px solid; }
}
"""
_VERDICTS: Final = {
    "leak": "Memory leaks",
    "unaudited": "Not fully audited",
    "clean": "No memory is exposed",
    "accepted": "Nothing is exposed but what was accepted",
}
_KINDS: Final = {
    "mcp": "MCP server, launched",
    "url": "MCP server, streamable HTTP",
    "sse": "MCP server, SSE",
    "card": "A2A agent card",
    "host-config": "MCP host configuration",
}
_STATUSES: Final = {"leak": "leak", "unaudited": "not audited", "accepted": "accepted", "clean": "clean"}


def to_html(report: Report, show: Callable[[str], str], version: str, when: str) -> str:
    """The report as one page.

    `show` makes a stranger's text safe to display; `version` is the product's; `when` is the time of the run as
    the page shall tell it.
    """

    def text(raw: str) -> str:
        return escape(show(raw), quote=True)

    passed = "accepted" if any(t.status == "accepted" for t in report.targets) else "clean"
    status = {LEAK: "leak", CLEAN: passed}.get(report.exit_code, "unaudited")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="referrer" content="no-referrer">',
        f"<title>Memory exposure audit: {_VERDICTS[status]}</title>",
        f"<style>{_STYLE}</style></head><body><main>",
        "<h1>Memory exposure audit</h1>",
        f'<p class="meta">{text(when)} · memory-sidecar {text(version)}</p>',
        f'<div class="verdict {status}"><strong>{_VERDICTS[status]}</strong><p>{_summary(report)}</p></div>',
    ]
    order = list(_STATUSES)
    if report.stale:
        parts.append("<section><h2>Accepted, but not there any more</h2><ul>")
        parts += [f"<li><code>{text(finding)}</code>: {text(reason)}</li>" for finding, reason in report.stale]
        parts.append("</ul></section>")
    parts += [_section(target, text) for target in sorted(report.targets, key=lambda t: order.index(t.status))]
    told = {e.rule for t in report.targets for f in t.findings for e in f.evidence}
    used = [name for name in RULES if name in told]
    if used:
        parts.append("<section><h2>What the findings mean</h2><dl>")
        parts += [
            f"<dt>{escape(RULES[name].title)} ({name})</dt>"
            f"<dd>{escape(RULES[name].meaning)} {escape(RULES[name].remedy)}</dd>"
            for name in used
        ]
        parts.append("</dl></section>")
    parts.append(f"<footer><p>{escape(NOT_LOOKED_AT)}</p></footer></main></body></html>")
    return "\n".join(parts) + "\n"


def _summary(report: Report) -> str:
    counted = [(sum(t.status == status for t in report.targets), _STATUSES[status]) for status in _STATUSES]
    told = ", ".join(f"{number} {what}" for number, what in counted if number)
    total = len(report.targets)
    return f"{total} target{'' if total == 1 else 's'}: {told}." if total else "Nothing was given to audit."


def _section(target: TargetReport, text: Callable[[str], str]) -> str:
    parts = [
        '<section><div class="head">',
        f'<span class="badge {target.status}">{_STATUSES[target.status]}</span>',
        f"<h2><code>{text(target.label)}</code></h2></div>",
        f'<p class="seen">{_KINDS.get(target.kind, text(target.kind))}. {_seen(target, text)}</p>',
    ]
    if target.findings:
        parts.append('<div class="scroll"><table><thead><tr>')
        parts += [f'<th scope="col">{head}</th>' for head in _HEADS]
        parts.append("</tr></thead><tbody>")
        for finding in target.findings:
            parts.append(
                f'<tr><th scope="row" class="name" data-label="Offer"><code>{text(finding.name)}</code>'
                f' <span class="meta">{text(finding.kind)}</span></th>'
                f'<td data-label="Surface">{text(finding.surface)}</td>'
                f'<td class="tool" data-label="Memory tool">{_tools(finding, text)}</td>'
                f'<td class="evidence" data-label="Evidence">{_evidence(finding, text)}</td>'
                f'<td class="tool" data-label="Finding"><code>{text(finding.id)}</code>{_accepted(finding, text)}</td>'
                "</tr>"
            )
        parts.append("</tbody></table></div>")
    if target.unaudited:
        parts.append("<ul>")
        parts += [f"<li>Not audited: {text(reason)}</li>" for reason in target.unaudited]
        parts.append("</ul>")
    parts.append("</section>")
    return "\n".join(parts)


_HEADS: Final = ("Offer", "Surface", "Memory tool", "Evidence", "Finding")


def _tools(finding: Finding, text: Callable[[str], str]) -> str:
    return "<br>".join(f"<code>{text(tool)}</code>" for tool in finding.tool.split(", "))


def _accepted(finding: Finding, text: Callable[[str], str]) -> str:
    return f'<br><span class="badge accepted">accepted</span> {text(finding.accepted)}' if finding.accepted else ""


def _evidence(finding: Finding, text: Callable[[str], str]) -> str:
    return "<br>".join(
        f'<span class="meta">{text(e.label)}:</span> <code>{text(e.text)}</code>' for e in finding.evidence
    )


def _seen(target: TargetReport, text: Callable[[str], str]) -> str:
    if not target.seen:
        return "Nothing on it was seen."
    return "Seen: " + text(counted(target.seen)) + "."
