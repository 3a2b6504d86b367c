"""What a tool is: its definition in MCP's terms, and the function that serves a call."""

from collections.abc import Callable, Mapping

from ..hints import Any, Final
from ..named_tuple import NamedTuple
from ..store.authority import Store
from ..store.errors import StoreError
from ..store.rules import MAX_KEY
from ..store.scope import Scope

__all__ = ["KEY", "RESULT_KEY", "Handler", "Outcome", "Tool", "guarded"]

Arguments = Mapping[str, Any]


class Outcome(NamedTuple):
    """A tool's answer: structured, or an error text that tells the model what to do.

    The rest is for the operator, never on the wire: `code` is a stable word for logs and telemetry, `cause` what a
    store could not do, `listed` how many descriptions a listing shows.
    """

    structured: dict[str, Any] | None = None
    error: str | None = None
    code: str = "ok"
    cause: StoreError | None = None
    listed: int = 0


Handler = Callable[[Arguments, Store, Scope], Outcome]


class Tool(NamedTuple):
    """One tool.

    `describe` is given `read_only`, so that no text speaks of a tool that does not exist, and `guarded` (whether this
    store lets a run replace only what it has read), so that a text says what holds here.
    """

    name: str
    title: str
    describe: Callable[[bool, bool], str]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    annotations: dict[str, bool]
    handle: Handler

    def definition(self, *, read_only: bool, guarded: bool = False) -> dict[str, Any]:
        """The tool as MCP's `tools/list` shows it. `_meta` marks it as private to its harness."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.describe(read_only, guarded),
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations,
            "_meta": {"memory-sidecar/private": True},
        }


def guarded(store: Store) -> bool:
    """Whether `store` lets a run replace only what it has read."""
    return store.guard


KEY: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_KEY,
    "pattern": "^[A-Za-z0-9._=-]+$",
    "description": "The memory's key: letters, digits and . _ = - with no dot at either end and no two together.",
}
"""A key as an argument. The rule itself is the store's; this tells the model and its harness about it."""

RESULT_KEY: Final[dict[str, Any]] = {"type": "string"}
"""A key as it comes back in a result."""
