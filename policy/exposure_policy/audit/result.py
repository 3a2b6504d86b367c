"""What an audit found, as plain data, and the one decision over it: clean, leak, or not audited.

Texts in here come from strangers and are kept as they came; whoever shows them makes them safe first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["CLEAN", "LEAK", "UNAUDITED", "Bounds", "Evidence", "Finding", "Report", "Target", "TargetReport"]

CLEAN: Final = 0
LEAK: Final = 1
UNAUDITED: Final = 2


@dataclass(frozen=True)
class Bounds:
    """How much of a target is looked at, and for how long. What lies beyond is unaudited."""

    seconds: float = 30.0
    """For one target, from launch or connect to its last answer; a child is gone at most a few seconds later."""
    pages: int = 200
    """Of one listing: many servers give 50 or 100 entries a page, so this is more than anybody's list."""
    entries: int = 10_000
    """Of one listing."""
    received: int = 16 * 1024 * 1024
    """Bytes that one target may answer with; nothing grows after it was counted, since no compressed answer is read. A
    listing of real tools is below a mebibyte."""
    asked: int = 1_000
    """Requests and notifications of one connection: what a server sends that is no answer."""
    noise: int = 1024 * 1024
    """Bytes that a launched command may write to stderr."""


@dataclass(frozen=True)
class Target:
    """What to audit: `kind` is `mcp` (a command), `url`, `sse`, `card` or `host-config`."""

    kind: str
    value: str


@dataclass(frozen=True)
class Evidence:
    """One sign by which an offer is known as memory."""

    rule: str
    """Which rule told: name, marker, identity, address, schema, text, set, listed."""
    where: str
    """The field, and the page of the listing when it isn't the first."""
    text: str
    """What stands there."""

    @property
    def label(self) -> str:
        """The rule and the place in words: `schema in inputSchema`, or only `name` where they are the same."""
        return self.where if self.where.startswith(self.rule) else f"{self.rule} in {self.where}"


@dataclass(frozen=True)
class Finding:
    """One memory tool on one surface where a stranger meets it, and all by which it is known."""

    surface: str
    """`mcp`, `a2a`, or `host-config`."""
    kind: str
    """What the offer is there: a tool, a skill, a prompt, a listed server, ..."""
    name: str
    """How the offer calls itself."""
    tool: str
    """The memory tool it is, or most resembles; of a listed sidecar, all that it would offer."""
    evidence: tuple[Evidence, ...]
    """At least one; the most telling first."""
    line: int = 1
    """Line in a file that was audited; 1 elsewhere."""
    id: str = ""
    """The same in every run, until the target's label or anything that the offer shows changes."""
    accepted: str = ""
    """The reason for which a reviewer accepts it; empty if nobody does."""

    @property
    def rule(self) -> str:
        """The rule of the most telling evidence, by which reports classify the finding."""
        return self.evidence[0].rule


@dataclass(frozen=True)
class TargetReport:
    """What was seen of one target."""

    kind: str
    label: str
    """The target as it may be shown: without values that look like secrets."""
    findings: tuple[Finding, ...] = ()
    unaudited: tuple[str, ...] = ()
    """Why something could not be seen. Empty means that everything on offer was."""
    seen: Mapping[str, int] = field(default_factory=dict)
    """How many tools, prompts, skills, ... were looked at."""
    file: str | None = None
    """Path of an audited file, as it was given."""

    @property
    def status(self) -> str:
        """`leak`, `unaudited`, `accepted` or `clean`, the first that holds: nothing that was accepted hides another."""
        if not all(finding.accepted for finding in self.findings):
            return "leak"
        if self.unaudited:
            return "unaudited"
        return "accepted" if self.findings else "clean"


@dataclass(frozen=True)
class Report:
    """One run over all its targets."""

    targets: tuple[TargetReport, ...]
    stale: tuple[tuple[str, str], ...] = ()
    """Accepted ids that match no finding of this run, each with its reason: to be removed, or reviewed again."""

    @property
    def exit_code(self) -> int:
        """1 if anything leaks and isn't accepted, else 2 if anything (or everything) could not be audited, else 0.

        A leak is certain, what was not seen isn't: so the leak decides. The report tells both.
        """
        statuses = {target.status for target in self.targets}
        if "leak" in statuses:
            return LEAK
        return CLEAN if statuses and statuses <= {"clean", "accepted"} else UNAUDITED
