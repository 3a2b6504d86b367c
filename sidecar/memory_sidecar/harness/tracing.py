"""The harness's own trace, passed on: so that what the sidecar tells a collector hangs below the harness's span.

OpenTelemetry is never imported here. If the harness has not, it has no trace to pass on.
"""

import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["with_trace"]


def with_trace(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """`params` with the current span in `_meta`, as MCP has it (SEP-414); unchanged if there is none."""
    trace = sys.modules.get("opentelemetry.trace")
    # A module that is being imported on another thread is there, but not whole.
    current = getattr(trace, "get_current_span", None)
    if current is None:
        return params
    context = current().get_span_context()
    if not context.is_valid:
        return params
    carrier = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"}
    state = context.trace_state.to_header()
    if state:
        carrier["tracestate"] = state
    # What the caller has put there itself was meant.
    return {**params, "_meta": {**carrier, **params.get("_meta", {})}}
