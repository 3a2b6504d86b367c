"""The operations that faults are injected into, and what must hold afterwards whatever happened."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.backend.file.store_id import FILE_NAME
from memory_sidecar.run import journal as journaling
from memory_sidecar.run.read import read_journal
from memory_sidecar.run.session import Run, Setting
from memory_sidecar.run.terms import JournalError, stage_name
from memory_sidecar.tools.catalog import Catalog

__all__ = ["OPERATIONS", "Operation", "prepare", "verify"]

OLD, NEW = "the old text, " * 300, "the new text, " * 400
RUN = "faulty"


class Operation(NamedTuple):
    """`act` serves one call on an open run and returns the harness's answer; `before` and `after` are the content
    that key `note` may hold (None: nothing)."""

    act: Callable[[Run], bytes]
    before: str | None
    after: str | None
    authority: bool | None
    """Whether the run must hold authority over `note` once the call was acknowledged; None if it doesn't matter."""


def _call(tool: str, **arguments: object) -> Callable[[Run], bytes]:
    def act(run: Run) -> bytes:
        answer = run.call(tool, arguments)
        return json.dumps([answer.outcome.structured, answer.outcome.error, answer.unsaved]).encode()

    return act


def _suspend(run: Run) -> bytes:
    run.end("suspended")
    return json.dumps([{"suspended": True}, None, run.unsaved]).encode()


def _compact(run: Run) -> bytes:
    journaling._COMPACT_AFTER = -1  # type: ignore[misc] # in the child that is spoiled
    sys.modules.pop("memory_sidecar.run.compact", None)  # loaded by whoever needs it first, on a machine with faults
    return _call("memory_read", key="note")(run)


def _resume(run: Run) -> bytes:
    again = Run(RUN, run._setting)
    try:
        again.open("require")
        again.begin()
    except JournalError:
        return json.dumps([None, "The run cannot be resumed now.", None]).encode()
    return json.dumps([{"resumed": again.resumed}, None, again.unsaved]).encode()


_NOTE = {"key": "note", "description": "A note: for faults"}
OPERATIONS = {
    "create": Operation(_call("memory_write", **_NOTE, content=NEW), None, NEW, True),
    "overwrite": Operation(_call("memory_write", **_NOTE, content=NEW, overwrite=True), OLD, NEW, True),
    "delete": Operation(_call("memory_delete", key="note"), OLD, None, False),
    "read": Operation(_call("memory_read", key="note"), OLD, OLD, True),
    "compact": Operation(_compact, OLD, OLD, True),
    "suspend": Operation(_suspend, OLD, OLD, True),
    "resume": Operation(_resume, OLD, OLD, True),
}


def open_run(place: Path) -> Run:
    opened = open_file(FileOptions(require_read_before_update=True), "faults", str(place))
    catalog = Catalog(enabled=True, read_only=False)
    run = Run(RUN, Setting(opened.store, opened.fingerprint, catalog, True, "faults", str(place / "runs" / "faults")))
    run.open()
    run.begin()
    return run


def prepare(name: str, place: Path) -> Run:
    """A run in `place` about to make the operation."""
    operation = OPERATIONS[name]
    run = open_run(place)
    if operation.before is not None:
        run.call("memory_write", {**_NOTE, "content": operation.before})
        if name in ("read", "compact"):  # authority is still to be earned
            run.end("suspended")
            (place / "runs" / "faults" / f"{RUN}.jsonl").unlink()
            run = open_run(place)
    if name == "resume":
        run.end("suspended")
    return run


def verify(name: str, place: Path, answer: bytes | None, *, power_cut: bool = False) -> list[str]:
    """What is wrong after the operation was cut or spoiled and answered `answer`; nothing, if all is well.

    After a power cut a run may have lost authority it earned last (it reads again), but never gained any.
    """
    if answer is not None and answer.startswith(b"raised"):
        return [f"the process would have failed: {answer!r}"]
    operation = OPERATIONS[name]
    structured, error, unsaved = json.loads(answer) if answer is not None else (None, None, None)
    # A refusal that the model can act on is none: a note that may not be read in that moment counts as changed.
    acknowledged = structured is not None and structured.get("found", structured.get("written", True))
    wrong = []
    if "/" in (error or "") or str(place) in f"{structured}":
        wrong.append(f"a path is shown: {error} {structured}")

    store = open_file(FileOptions(), "faults", str(place)).store
    found = {item.key for item in store.list()}
    content = store.read("note").content if "note" in found else None
    if content not in (operation.before, operation.after):
        wrong.append(f"the note holds neither the old nor the new text, but {content!r:.60}")
    if acknowledged and content != operation.after:
        wrong.append("the acknowledged change is not there")
    if "Nothing was changed" in (error or "") and content != operation.before:
        wrong.append("a change is there that was said not to be")
    if [path.name for path in (place / "memory" / "faults").iterdir() if path.name not in ("note.md", FILE_NAME)]:
        wrong.append("something was left behind and not swept")
    promised = acknowledged and unsaved is None and not power_cut
    return wrong + _wrong_with_journal(place, operation.authority if promised else None)


def _wrong_with_journal(place: Path, authority: bool | None) -> list[str]:
    journal = place / "runs" / "faults" / f"{RUN}.jsonl"
    if not journal.exists():
        return ["the journal is gone"] if authority else []
    replayed, busy = read_journal(str(journal))
    # Whoever resumes the run finds it as it was, and clears away what was left of a short journal.
    resumed = open_run(place)
    resumed._journal.close()
    scope = resumed.scope()
    if replayed is not None and scope["keys"] != (replayed.keys if replayed.store == scope["store"] else {}):
        return ["the run is resumed with another scope"]
    if (place / "runs" / "faults" / stage_name(RUN)).exists():
        return ["a journal that was being made short was left behind"]
    if busy:
        return ["a dead run's journal is locked"]
    held = replayed is not None and "note" in replayed.keys
    if authority is not None and held != authority:
        return [f"authority over the note was acknowledged as {authority}, but is {held}"]
    return []
