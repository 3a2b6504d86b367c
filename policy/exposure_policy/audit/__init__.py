"""An audit that connects as a stranger and tells which memory tool is on which surface.

    report = await audit([Target("mcp", "python server.py"), Target("card", "https://agent.example")])

SDKs are imported by the probe that needs them. What could not be seen is `unaudited`, never clean.
"""

from .accept import AcceptError, accept, load
from .engine import audit, label
from .result import CLEAN, LEAK, UNAUDITED, Bounds, Evidence, Finding, Report, Target, TargetReport

__all__ = [
    "CLEAN",
    "LEAK",
    "UNAUDITED",
    "AcceptError",
    "Bounds",
    "Evidence",
    "Finding",
    "Report",
    "Target",
    "TargetReport",
    "accept",
    "audit",
    "label",
    "load",
]
