"""Putting notes into a memory, for `copy`, `import` and `quarantine --restore`: nothing is lost, and all is told.

A note arrives byte for byte as it was, with whatever header its author gave it, or is refused by name. Create-only
unless overwriting was asked for. A note that is there already, the same, counts as done; so the same command run again
goes on where it was stopped. The same is also what says the same in other bytes: a header in other quotes, or none
where a stand-in for the description is there.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ...exits import EX_FOUND
from ...plain import shows, visible
from ...store.contract import ABSENT, Entry
from ...store.document import check_text, other_lines, parse, restored, serialize
from ...store.errors import (
    ConflictError,
    InvalidError,
    KeyNotFoundError,
    OutcomeUnknownError,
    StoreError,
    StoreFullError,
    UnavailableError,
    UnreadableError,
)
from ...store.rules import check_capacity, one_line, validate_write
from .failure import Failure, complain, in_steps, stopped_status, told
from .memory import Memory, unreadable
from .report import print_json

__all__ = ["NO_DESCRIPTION", "Report", "Result", "Source", "carried", "print_report", "put", "reader", "transfer"]

NO_DESCRIPTION: Final = "(no description)"

Source = Callable[[], tuple[str, Entry | bytes]]
"""Reads one note: its key, and the entry, or the very bytes of what is kept as bytes."""

_ATTEMPTS: Final = 5
"""How often one note is tried while runs write it too."""


class Result(NamedTuple):
    """What became of one note. `what`: created, overwritten, unchanged, collided or refused (then why)."""

    key: str
    what: str
    reason: str = ""


class Report(NamedTuple):
    """What became of all. `stopped` says why some were not tried; "" if all were. `status` is the exit status then."""

    results: Sequence[Result]
    total: int
    stopped: str
    status: int = EX_FOUND

    def keys(self, what: str) -> list[str]:
        return [result.key for result in self.results if result.what == what]


def carried(key: str, entry: Entry) -> bytes:
    """The document by which `put` stores the entry: byte for byte the one that it was read from.

    A description that shows nothing, in an entry that no document reads as, is stood in for.

    Raises:
        StoreError: no memory takes it: it breaks a rule, or its header cannot be kept.
    """
    is_described = shows(one_line(entry.description))
    line = validate_write(key, entry.description if is_described else NO_DESCRIPTION, entry.content)
    try:
        document = restored(entry._replace(description=line) if is_described else entry)
        if is_described or parse(document) == entry:
            return document
    except InvalidError:
        if is_described:
            raise
    return serialize(line, entry.content, entry.header)


def transfer(
    notes: Iterable[Source],
    total: int,
    memory: Memory,
    *,
    overwrite: bool,
    dry_run: bool,
    advance: Callable[[], None],
) -> Report:
    """Put each note that `notes` yields a reader of.

    Stops in order, between two notes, when a store is out of reach, what yields them fails (a `Failure`), or on Ctrl-C,
    SIGTERM or SIGHUP.
    """
    results: list[Result] = []
    try:
        stored = {item.key for item in memory.list()}
        with in_steps() as stop_here:
            for read in notes:
                stop_here()
                try:
                    key, note = read()
                except _LeftOut as left_out:
                    results.append(left_out.result)
                else:
                    result = put(memory, key, note, overwrite=overwrite, dry_run=dry_run)
                    if dry_run and result.what == "created":
                        result = _if_room(memory, result, stored)
                    results.append(result)
                advance()
    except UnavailableError as error:
        return Report(results, total, told(error))
    except Failure as error:
        return Report(results, total, str(error), error.status)
    except KeyboardInterrupt as interrupt:
        return Report(results, total, "interrupted", stopped_status(interrupt))
    return Report(results, total, "")


class _LeftOut(Exception):  # noqa: N818 - an outcome
    def __init__(self, result: Result) -> None:
        self.result = result


def reader(memory: Memory, key: str) -> Source:
    """Reads one note of `memory` when `transfer` comes to it."""

    def read() -> tuple[str, Entry]:
        try:
            return key, memory.read(key)
        except KeyNotFoundError as error:
            raise _LeftOut(Result(key, "refused", "It was deleted meanwhile.")) from error
        except UnreadableError as error:
            raise _LeftOut(Result(key, "refused", _why(memory, key, error))) from error

    return read


def _why(memory: Memory, key: str, error: StoreError) -> str:
    """Why a note was left out, for an operator: what a model would be told to do is not what helps here."""
    if isinstance(error, UnreadableError):
        problem, remedy = unreadable(memory, key, error)
        problem = problem.removeprefix(f"{key}: ")
        return f"{problem}; {remedy}" if remedy else problem
    if isinstance(error, StoreFullError) and not error.remedy:
        return f"{str(error).partition('. ')[0]}; quarantine what is not needed there, then run it again"
    if isinstance(error, OutcomeUnknownError) and not error.remedy:
        return "it may or may not have been stored, as its confirmation was lost; run it again to see"
    # Of what a model is told the first sentence says what is wrong, the rest what the model should do.
    return error.remedy or str(error).partition(". ")[0].removesuffix(".")


def _if_room(memory: Memory, result: Result, stored: set[str]) -> Result:
    try:
        check_capacity(len(stored))
    except StoreFullError as error:
        return Result(result.key, "refused", _why(memory, result.key, error))
    stored.add(result.key)
    return result


def put(memory: Memory, key: str, note: Entry | bytes, *, overwrite: bool, dry_run: bool = False) -> Result:
    """Store one note, or tell why not. Bytes are stored as they are, whatever they hold.

    Raises:
        UnavailableError: the store is out of reach. Nothing was stored.
    """
    try:
        document = note if isinstance(note, bytes) else carried(key, note)
        for _ in range(_ATTEMPTS):
            with suppress(ConflictError):  # a run was faster: look again
                return _put(memory, key, document, overwrite=overwrite, dry_run=dry_run)
    except UnavailableError:
        raise
    except OutcomeUnknownError as error:
        return _looked_up(memory, key, document, Result(key, "refused", _why(memory, key, error)))
    except StoreError as error:
        return Result(key, "refused", _why(memory, key, error))
    return Result(key, "refused", "Runs keep writing this key. Try again later.")


def _put(memory: Memory, key: str, document: bytes, *, overwrite: bool, dry_run: bool) -> Result:
    backend = memory.store.backend
    found = memory.ask(lambda: backend.get(key))
    if found is None:
        if not dry_run:
            memory.ask(lambda: backend.put(key, document, ABSENT))
        return Result(key, "created")
    if found.document == document:
        return Result(key, "unchanged")
    check_text(found.document)  # what isn't a note is its owner's, and no command replaces it
    if not overwrite:
        return Result(key, "unchanged" if _means(found.document) == _means(document) else "collided")
    if not dry_run:
        # Replaces the very value that was just compared.
        memory.ask(lambda: backend.put(key, document, found.revision))
    return Result(key, "overwritten")


def _means(document: bytes) -> Entry | bytes:
    """What two documents have in common that say the same in other bytes."""
    try:
        entry = parse(document)
    except UnreadableError:
        return document
    description = entry.description if shows(entry.description) else NO_DESCRIPTION
    return Entry(description, entry.content, other_lines(entry.header))


def _looked_up(memory: Memory, key: str, document: bytes, unknown: Result) -> Result:
    try:
        found = memory.ask(lambda: memory.store.backend.get(key))
    except StoreError:
        return unknown
    return Result(key, "created") if found is not None and found.document == document else unknown


_KINDS: Final = ("created", "overwritten", "unchanged", "collided", "refused")


def print_report(report: Report, *, dry_run: bool, as_json: bool) -> int:
    """Print what became of all notes, and return the exit status: 0 if every one is stored now."""
    tried = len(report.results)
    if as_json:
        value: dict[str, Any] = {"dry_run": dry_run, "total": report.total, "tried": tried, "stopped": report.stopped}
        value |= {kind: report.keys(kind) for kind in _KINDS[:-1]}
        value["refused"] = [
            {"key": result.key, "reason": result.reason} for result in report.results if result.what == "refused"
        ]
        print_json(value)
    else:
        counts = ", ".join(f"{len(report.keys(kind))} {kind}" for kind in _KINDS if report.keys(kind))
        if counts or not report.stopped:
            print(f"{'would be: ' if dry_run else ''}{counts or 'nothing to do'}")
        for key in report.keys("collided"):
            print(f"collided: {visible(key, lines=False)} holds another note, which was left as it is")
        for result in report.results:
            if result.what == "refused":
                print(f"refused: {visible(result.key, lines=False)}: {visible(result.reason, lines=False)}")
        if report.keys("collided"):
            print("to replace notes that collided, run it again with --overwrite")
    if report.stopped:
        complain(
            f"stopped after {tried} of {report.total}: {report.stopped}\n"
            "run the same command again to go on: what is stored already is not stored twice"
        )
    left = report.keys("collided") or report.keys("refused")
    if report.stopped:
        return report.status
    return EX_FOUND if left else 0
