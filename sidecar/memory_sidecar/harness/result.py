"""A tool's answer, and what the model is told of calls that were never sent."""

from typing import Any, Final

__all__ = ["NOT_JSON", "NO_OBJECT", "TOO_LARGE", "UNKNOWN", "ToolResult", "for_model"]

TOO_LARGE: Final = (
    "The arguments are larger than a call may be. Nothing was changed. A content has at most 65536 bytes: shorten it, "
    "or split it over several keys."
)
NOT_JSON: Final = (
    "The arguments hold what JSON cannot carry (NaN, Infinity), too large a number, or lists and objects nested too "
    "deeply. Nothing was changed. Call the tool with the arguments that it takes, texts above all."
)
NO_OBJECT: Final = "The arguments must be a JSON object."
UNKNOWN: Final = (
    "The memory was restarted while it served this call, so whether anything was changed is not known. Call "
    "memory_read with this key to see what it holds before you try again."
)


class ToolResult(dict[str, Any]):
    """A tool's answer: MCP's CallToolResult as the sidecar sent it, with its parts at hand."""

    @property
    def text(self) -> str:
        """What to show the model."""
        return "".join(part["text"] for part in self["content"])

    @property
    def structured(self) -> dict[str, Any] | None:
        """The answer as an object; None for an error."""
        return self.get("structuredContent")

    @property
    def is_error(self) -> bool:
        """Whether the call failed. A refusal that the model can act on (an existing key) is no failure."""
        return bool(self.get("isError"))


def for_model(text: str) -> ToolResult:
    """An error that is told to the model."""
    return ToolResult(content=[{"type": "text", "text": text}], isError=True)
