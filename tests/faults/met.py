"""A change of ours that meets an editor's save between our look and our change: for kills and power cuts."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.backend.test_file import names, opened

from memory_sidecar.store.authority import Store
from memory_sidecar.store.errors import StaleError
from memory_sidecar.store.scope import Scope

__all__ = ["ANSWERS", "met", "wrong"]

ANSWERS: Final = {"overwrite": b"changed", "removal": b"False"}
"""What ours answers, by what it tried."""


def met(notes: Path, what: str) -> Callable[[], bytes]:
    """A note in `notes`, and the change that meets the save. To be called in a child: it replaces `os.rename`."""
    store, scope = opened(notes, guard=True), Scope()
    store.create("key", "words", "old", scope=scope)
    (notes / "editors").write_text("editor's")
    return lambda: _change(store, scope, notes, what)


def _change(store: Store, scope: Scope, notes: Path, what: str) -> bytes:
    real, saves = os.rename, [lambda: os.replace(notes / "editors", notes / "key.md")]

    def rename(*arguments: Any, **named: Any) -> None:
        if saves:
            saves.pop()()
        real(*arguments, **named)

    os.rename = rename  # type: ignore[assignment] # in the child
    if what == "removal":
        return str(store.delete("key", expected=scope.revision("key"))).encode()
    try:
        store.update("key", "words", "ours", scope=scope)
    except StaleError as refused:
        return refused.reason.encode()
    return b"updated"


def wrong(notes: Path) -> list[str]:
    """What is wrong after the next start: a save is lost, or something is left beside."""
    saved = not (notes / "editors").exists()
    opened(notes)  # the next start
    found = []
    if not (notes / "key.md").exists() or ("editor's" if saved else "old") not in (notes / "key.md").read_text():
        found.append("the save is lost" if saved else "the old text is lost")
    if left := {*names(notes)} - {"key.md", "editors"}:
        found.append(f"left behind: {left}")
    return found
