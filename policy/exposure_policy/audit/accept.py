"""Findings that somebody has reviewed and accepts, each by its exact id and with a reason. Pure, but for one file.

An id covers the target, the offer's name and everything that the offer shows: whatever of it changes is a new finding,
to be reviewed again. Nothing else can be accepted, above all not what was not seen.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from .files import read_text, told
from .result import Report

__all__ = ["AcceptError", "accept", "load"]

_ID: Final = re.compile(r"[0-9a-f]{16}")
_KEYS: Final = {"finding", "reason"}


class AcceptError(ValueError):
    """The file of accepted findings cannot be used. The text is one line that says why and what to do."""


def load(path: str) -> dict[str, str]:
    """The accepted ids, each with its reason.

    Raises:
        AcceptError: the file cannot be read, is not TOML, or an entry is not exactly an id and a reason.
    """
    try:
        data = tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise AcceptError(f"cannot read the accepted findings in {path}: {told(error)}; check --accept") from error
    entries = data.get("accept", [])
    if set(data) - {"accept"} or not isinstance(entries, list):
        raise AcceptError(f"{path} holds something else than [[accept]] entries; keep only those")
    accepted: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        where = f"entry {number} of {path}"
        if not isinstance(entry, dict) or set(entry) != _KEYS:
            raise AcceptError(f"{where} has other keys than finding and reason; give it these two")
        finding, reason = entry["finding"], entry["reason"]
        if not isinstance(finding, str) or not _ID.fullmatch(finding):
            raise AcceptError(f"{where} names no finding; use the 16 digits of an id from a report")
        if not isinstance(reason, str) or not reason.strip():
            raise AcceptError(f"{where} gives no reason; say in a sentence why the finding is acceptable")
        if finding in accepted:
            raise AcceptError(f"{where} accepts {finding} again; keep one")
        accepted[finding] = reason.strip()
    return accepted


def accept(report: Report, accepted: Mapping[str, str]) -> Report:
    """The report with these findings marked as accepted, and with the ids that match nothing in it as stale."""
    targets = tuple(
        replace(
            target,
            findings=tuple(replace(f, accepted=accepted.get(f.id, "")) for f in target.findings),
        )
        for target in report.targets
    )
    seen = {finding.id for target in targets for finding in target.findings}
    return Report(targets, stale=tuple((i, reason) for i, reason in accepted.items() if i not in seen))
