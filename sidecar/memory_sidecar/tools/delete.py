"""`memory_delete`: remove a memory. `deleted` is true exactly when this call removed one."""

from ..store.authority import Store
from ..store.errors import KeyNotFoundError
from ..store.scope import Scope
from .tool import KEY, RESULT_KEY, Arguments, Outcome, Tool

__all__ = ["TOOL"]


def _handle(arguments: Arguments, store: Store, scope: Scope) -> Outcome:
    key = arguments["key"]
    deleted = store.delete(key, scope=scope)
    return Outcome({"deleted": deleted, "key": key}, code="ok" if deleted else KeyNotFoundError.code)


TOOL = Tool(
    name="memory_delete",
    title="Delete a memory",
    describe=lambda _read_only, _guarded: (
        # That it cannot be taken back is known before, not after.
        "Remove one memory by its key, for good. "
        # Otherwise notes that became wrong stay, and are believed.
        "Use it for what is wrong or no longer needed. "
        # A key that held nothing is an answer, not an error to try again.
        "The answer says whether there was one."
    ),
    input_schema={
        "type": "object",
        "properties": {"key": KEY},
        "required": ["key"],
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": {"deleted": {"type": "boolean"}, "key": RESULT_KEY},
        "required": ["deleted", "key"],
        "additionalProperties": False,
    },
    annotations={"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False},
    handle=_handle,
)
