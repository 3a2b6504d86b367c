"""Why something could not be audited, in words that help: what happened, then what to try. Pure.

Every reason ends with a remedy, since a run with an unaudited target fails, and somebody has to get it to pass.
"""

from typing import Final

from .files import told

__all__ = ["CHECK_COMMAND", "ENCODED", "MALFORMED", "ONLY_FRAMES", "OWN_SERVER", "QUIET", "TIME", "explain", "refusal"]

TIME: Final = "it may wait for credentials or a file: give it what it needs, or raise --timeout"
CHECK_COMMAND: Final = (
    "run the command by hand to see why; it gets the small environment that MCP clients give, and env(1) adds to it"
)
ONLY_FRAMES: Final = "a stdio server may print nothing else on its stdout: send its log to stderr"
MALFORMED: Final = "clients may see what this audit cannot: mend the server's answer"
ENCODED: Final = (
    "it was not decoded, since it may be of any size then: have it answer plainly to a client that asks for that"
)
QUIET: Final = "a client is not asked and told so much while it lists: have it wait until it is used"
OWN_SERVER: Final = (
    "this is the sidecar, and it refused: it serves only the harness that launched it, so a stranger has nothing to see"
)
_OTHER: Final = {
    "url": "give it with --sse if it speaks SSE",
    "sse": "give it with --url if it speaks streamable HTTP",
}
_PATH: Final = "check the URL's path (often /mcp, or /sse for SSE)"


def explain(error: BaseException, kind: str, status: int = 0) -> str:
    """The reason for an error of connecting to a target of this kind.

    `status` is the last HTTP status above 299 that it answered with, or 0.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = told(error)
    if kind == "mcp":
        return _of_command(error, text)
    if isinstance(error, ImportError):
        return _missing(error)
    if status:
        return f"it answered with status {status}; {_of_status(status, kind)}"
    if "SSL" in text:
        return f"no secure connection: {text}; check http or https, and whose name its certificate is for"
    if type(error).__name__ in ("ConnectError", "ConnectTimeout"):
        return f"nothing answers there: {text}; start the server, or check the host and the port"
    if "protocol" in text and "http" in text:
        return "the address is not a URL; begin it with http:// or https://"
    if "content type" in text.lower():
        return f"what answers there is not an MCP server: {text}; {_PATH}, and {_OTHER.get(kind, 'the host')}"
    if text == "Not Found":
        return f"there is nothing at that address; {_PATH}"
    return refusal(text)


def refusal(text: str) -> str:
    """The reason for a server that answers, with an error."""
    if text.startswith("refused by the exposure policy"):
        return OWN_SERVER
    return f"it refused to be looked at: {text}; ask whoever runs it what a client must do first"


def _of_command(error: BaseException, text: str) -> str:
    if isinstance(error, ImportError):
        return _missing(error)
    if isinstance(error, OSError):
        return f"the command cannot be started: {text}; check its path, and that it is a program"
    if isinstance(error, ValueError):
        return f"the command line cannot be read: {text}; give it as one word, quoted for the shell"
    return refusal(text)


def _missing(error: BaseException) -> str:
    return f"a package is missing: {error}; pip install 'memory-sidecar[audit]'"


def _of_status(status: int, kind: str) -> str:
    if status in (401, 403, 407):
        return (
            "it wants credentials, which a stranger has not: what it offers with them was not seen. Audit it where it "
            "wants none, or guard it in its code"
        )
    if status < 400:
        return "it sends clients elsewhere: give the address that it sends them to, if it is meant"
    if status >= 500:
        return "its own log tells why"
    return f"{_PATH}, or {_OTHER[kind]}" if kind in _OTHER else _PATH
