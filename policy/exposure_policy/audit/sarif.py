"""The report as SARIF 2.1.0, in the subset that code scanning services accept. Pure.

Every result needs a place in a repository. A file that was audited is its own place, with a line; a server
is not in the repository, so it gets a stable address of its own and its real one as a logical location.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from .result import Finding, Report, TargetReport
from .rules import RULES, UNAUDITED_RULE, Rule, relation

__all__ = ["to_sarif"]

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_UNAUDITED: Final = "unaudited"
# Shown as "high" by code scanning: a leak lets strangers read or plant what an agent believes.
_SEVERITY: Final = {"listed": "5.0", _UNAUDITED: "4.0"}
_DEFAULT_SEVERITY: Final = "8.0"


def to_sarif(report: Report, show: Callable[[str], str], version: str, root: str | None = None) -> str:
    """The report as a SARIF log.

    `show` makes a stranger's text safe to display; `version` is the product's; paths of audited files are
    told relative to `root` (the working directory when None) if they are below it.
    """
    root = os.path.realpath(root or os.getcwd())
    rules = {**RULES, _UNAUDITED: UNAUDITED_RULE}
    indices = {name: index for index, name in enumerate(rules)}
    results: list[dict[str, Any]] = []
    notifications: list[dict[str, Any]] = []
    for target in report.targets:
        results += [
            _result(finding.rule, indices, _message(finding, target, show), target, finding, show, root)
            for finding in target.findings
        ]
        for reason in target.unaudited:
            text = f"{show(target.label)} could not be audited: {show(reason)}."
            results.append(_result(_UNAUDITED, indices, text, target, reason, show, root))
            notifications.append({"level": "error", "message": {"text": text}})
    for finding_id, reason in report.stale:
        text = (
            f"The accepted finding {finding_id} is not there any more ({show(reason)}): remove it, or review it again."
        )
        notifications.append({"level": "warning", "message": {"text": text}})
    failed = any(target.unaudited for target in report.targets)
    run = {
        "tool": {
            "driver": {
                "name": "memory-sidecar audit",
                "semanticVersion": version,
                "rules": [_rule(name, rule) for name, rule in rules.items()],
            }
        },
        "automationDetails": {"id": "memory-sidecar-audit/"},
        "invocations": [{"executionSuccessful": not failed, "toolExecutionNotifications": notifications}],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=True)


def _rule(name: str, rule: Rule) -> dict[str, Any]:
    return {
        "id": f"memory-exposure/{name}",
        "name": "MemoryExposure" + name.title(),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.title}. {rule.meaning}"},
        "help": {"text": f"{rule.meaning} {rule.remedy}", "markdown": f"{rule.meaning}\n\n**{rule.remedy}**"},
        "defaultConfiguration": {"level": "error"},
        "properties": {
            "tags": ["security", "memory"],
            "precision": rule.precision,
            "problem.severity": "error",
            "security-severity": _SEVERITY.get(name, _DEFAULT_SEVERITY),
        },
    }


def _message(finding: Finding, target: TargetReport, show: Callable[[str], str]) -> str:
    told = "; ".join(f"{show(e.label)}: {show(e.text)}" for e in finding.evidence)
    return (
        f"{show(finding.kind).capitalize()} '{show(finding.name)}' on {finding.surface} {relation(finding)} "
        f"{finding.tool} ({told}). "
        f"Target: {show(target.label)}. Finding: {finding.id}."
    )


def _result(
    rule: str,
    indices: dict[str, int],
    text: str,
    target: TargetReport,
    what: Finding | str,
    show: Callable[[str], str],
    root: str,
) -> dict[str, Any]:
    name = what.name if isinstance(what, Finding) else ""
    line = what.line if isinstance(what, Finding) else 1
    identity = json.dumps([target.kind, target.label, rule, name, "" if name else str(what)])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    result = {
        "ruleId": f"memory-exposure/{rule}",
        "ruleIndex": indices[rule],
        "level": "error",
        # In a message braces and brackets would be placeholders and links.
        "message": {"text": re.sub(r"[{}\[\]]", lambda m: "(" if m[0] in "{[" else ")", text)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _address(target, root)},
                    "region": {"startLine": line},
                },
                "logicalLocations": [{"name": show(name or target.label), "fullyQualifiedName": show(target.label)}],
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": f"{digest}:1"},
    }
    if isinstance(what, Finding) and what.accepted:
        result["suppressions"] = [{"kind": "external", "justification": show(what.accepted)}]
    return result


def _address(target: TargetReport, root: str) -> str:
    """Where a result stands: a path of the repository, or a stable one that stands for something outside it."""
    if target.file is not None:
        path = os.path.realpath(target.file)
        inside = os.path.relpath(path, root)
        if not inside.startswith(os.pardir):
            return quote(inside.replace(os.sep, "/"))
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", target.label).strip("-.")[-80:] or "target"
    digest = hashlib.sha256(target.label.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"memory-sidecar-audit/{target.kind}/{slug}-{digest}"
