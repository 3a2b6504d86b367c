"""The report as JSON for programs. Texts stay exactly as they came, in ASCII escapes, so that printing is safe."""

import json
from dataclasses import asdict
from typing import Any

from .result import Report

__all__ = ["to_json"]


def to_json(report: Report) -> str:
    """The whole report, indented, ASCII only.

    `exit` is the run's exit status; each target has its `status`, `findings`, `unaudited` reasons and counts. A
    finding's `accepted` is the reviewer's reason, or empty; `stale` holds what was accepted and is not there.
    """
    data: dict[str, Any] = {
        "exit": report.exit_code,
        "stale": [{"finding": finding, "reason": reason} for finding, reason in report.stale],
        "targets": [
            {
                "kind": target.kind,
                "target": target.label,
                "status": target.status,
                "findings": [asdict(finding) for finding in target.findings],
                "unaudited": list(target.unaudited),
                "seen": dict(target.seen),
            }
            for target in report.targets
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=True)
