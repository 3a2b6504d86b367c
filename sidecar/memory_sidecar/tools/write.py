"""`memory_write`: create a memory, or replace one on purpose. A refusal tells the model its one next step."""

from ..hints import Final
from ..plain import neutralise
from ..store.authority import Store
from ..store.errors import KeyExistsError, KeyNotFoundError, StaleError, StoreError, UnreadableError
from ..store.rules import MAX_CONTENT_BYTES, MAX_DESCRIPTION, one_line
from ..store.scope import Scope
from .tool import KEY, RESULT_KEY, Arguments, Outcome, Tool, guarded

__all__ = ["TOOL"]

_ANOTHER_KEY: Final = "To save what you have, use another key."
"""The next call where this key is of no use."""


def _handle(arguments: Arguments, store: Store, scope: Scope) -> Outcome:
    key = arguments["key"]
    write = store.update if arguments.get("overwrite", False) else store.create
    try:
        write(key, arguments["description"], arguments["content"], scope=scope)
    except KeyExistsError:
        return _refused(key, "exists", _why_exists(store, key, scope))
    except StaleError as refusal:
        return _refused(key, refusal.reason, _why_stale(store, key, refusal.reason))
    except UnreadableError as error:
        error.args = (_or_elsewhere(error),)
        raise
    return Outcome({"written": True, "key": key, **_otherwise(arguments["description"])})


def _or_elsewhere(error: StoreError) -> str:
    """What the store says, and the next call; once, where it is what the store says too."""
    text = str(error)
    return text if "another key" in text else f"{text} {_ANOTHER_KEY}"


def _otherwise(description: str) -> dict[str, str]:
    """The description as it was stored, where that is not what was sent. White space alone makes no difference."""
    stored = one_line(description)
    return {} if stored == " ".join(description.split()) else {"description": stored}


def _why_exists(store: Store, key: str, scope: Scope) -> str:
    # Read with a scope of its own: the model sees the description, not the content, so it earns no authority. That it
    # saw it, and of which revision, is for the ledger.
    looked = Scope()
    try:
        entry = store.read(key, scope=looked)
    except KeyNotFoundError:
        return "This key held a memory a moment ago and is free now. Call memory_write again."
    except StoreError as error:
        return _or_elsewhere(error)
    scope.show(key, looked.revision(key))
    # The description is quoted: one that holds a quotation mark must not go on as if it were this text.
    described = neutralise(entry.description).replace('"', "'")
    what = f'described as "{described}"' if described else "without a description"
    # Where no read is needed, the text costs none: nothing requires one here, or this run knows what is stored.
    known = not guarded(store) or scope.revision(key) == looked.revision(key)
    how = "call memory_write again" if known else "read it, then call memory_write"
    return (
        f"This key already holds a memory, {what}. To replace it, {how} with overwrite: true. "
        "To keep both, use another key."
    )


def _why_stale(store: Store, key: str, reason: str) -> str:
    changed = reason == "changed"
    try:
        store.read(key)
    except KeyNotFoundError:
        gone = "Nothing is stored under this key any more." if changed else "Nothing is stored under this key."
        return f"{gone} To create it, call memory_write without overwrite."
    except StoreError as error:
        return _or_elsewhere(error)
    what = "This memory changed after this run read it." if changed else "This run has not read this memory."
    return f"{what} Call memory_read with this key, then memory_write again with overwrite: true."


def _refused(key: str, code: str, reason: str) -> Outcome:
    return Outcome({"written": False, "key": key, "code": code, "reason": reason}, code=code)


_REPLACES: Final = {
    True: "if this run has read or written it and it has not changed since",
    False: "whatever that is",
}

TOOL = Tool(
    name="memory_write",
    title="Write a memory",
    describe=lambda _read_only, guarded: (
        # When to use it, and what to put where. The example spares keys that hold a date or a sentence.
        "Save a memory for later runs, under a short, stable key such as build.notes, with a one-line description. "
        # Models that know markdown notes write a header of their own, which would be part of the text.
        "Write no front matter: the description is kept beside the content. "
        # Which of two calls is meant, and what is asked for before the second one: a refusal fewer.
        "Creates by default and refuses a key that is taken; with overwrite: true it replaces what the key holds, "
        f"{_REPLACES[guarded]}."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "key": KEY,
            "description": {
                "type": "string",
                "minLength": 1,
                "description": f"One line that says what the memory holds, at most {MAX_DESCRIPTION} characters.",
            },
            "content": {
                "type": "string",
                "description": f"The text to keep, at most {MAX_CONTENT_BYTES} bytes as UTF-8.",
            },
            "overwrite": {
                "type": "boolean",
                "default": False,
                "description": "Replace the memory that the key already holds.",
            },
        },
        "required": ["key", "description", "content"],
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "oneOf": [
            {
                "properties": {"written": {"const": True}, "key": RESULT_KEY, "description": {"type": "string"}},
                "required": ["written", "key"],
                "additionalProperties": False,
            },
            {
                "properties": {
                    "written": {"const": False},
                    "key": RESULT_KEY,
                    "code": {"enum": ["exists", "not_read", "changed"]},
                    "reason": {"type": "string"},
                },
                "required": ["written", "key", "code", "reason"],
                "additionalProperties": False,
            },
        ],
    },
    annotations={"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False},
    handle=_handle,
)
