"""Putting notes into a memory, for `copy`, `import` and `quarantine --restore`: nothing is lost, and all is told.

Create-only unless overwriting was asked for. A note that is there already, the same, counts as done; so the same
command run again goes on where it was stopped. A description that cannot be stored (a hand-written file without one)
is stood in for, and the stand-in means the same as none, so that a copy and its way back compare equal.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ...exits import EX_FOUND
from ...plain import shows, visible
from ...store.contract import Entry
from ...store.document import parse, serialize
from ...store.errors import (
    InvalidError,
    KeyExistsError,
    KeyNotFoundError,
    OutcomeUnknownError,
    StaleError,
    StoreError,
    StoreFullError,
    UnavailableError,
    UnreadableError,
)
from ...store.rules import check_capacity, normalize_description, validate_write
from ...store.scope import Scope
from .failure import complain, in_steps, stopped_status, told
from .memory import Memory
from .report import print_json

__all__ = ["NO_DESCRIPTION", "Report", "Result", "check", "form", "print_report", "put", "reader", "transfer"]

NO_DESCRIPTION: Final = "(no description)"

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


def form(entry: Entry) -> Entry:
    """The entry as any memory can store it."""
    try:
        line = normalize_description(entry.description)
    except InvalidError:
        # One that is too long stays, to be refused by name: cutting it would lose something.
        if shows(entry.description):
            return entry
        line = NO_DESCRIPTION
    try:
        return parse(serialize(line, entry.content, entry.header))
    except (StoreError, UnicodeEncodeError):
        return entry._replace(description=line)  # refused by name when it is put


def check(key: str, entry: Entry) -> Entry:
    """The entry as `put` stores it.

    Raises:
        StoreError: no memory takes it: it breaks a rule, or its header cannot be kept.
    """
    entry = form(entry)
    validate_write(key, entry.description, entry.content)
    serialize(*entry)
    return entry


def transfer(
    notes: Iterable[Callable[[], tuple[str, Entry]]],
    total: int,
    memory: Memory,
    *,
    overwrite: bool,
    dry_run: bool,
    advance: Callable[[], None],
) -> Report:
    """Put each note that `notes` yields a reader of.

    Stops in order, between two notes, when a store is out of reach or on Ctrl-C, SIGTERM or SIGHUP.
    """
    results: list[Result] = []
    try:
        stored = {item.key for item in memory.list()}
        with in_steps() as stop_here:
            for read in notes:
                stop_here()
                try:
                    key, entry = read()
                except _LeftOut as left_out:
                    results.append(left_out.result)
                else:
                    result = put(memory, key, entry, overwrite=overwrite, dry_run=dry_run)
                    if dry_run and result.what == "created":
                        result = _if_room(result, stored)
                    results.append(result)
                advance()
    except UnavailableError as error:
        return Report(results, total, told(error))
    except KeyboardInterrupt as interrupt:
        return Report(results, total, "interrupted", stopped_status(interrupt))
    return Report(results, total, "")


class _LeftOut(Exception):  # noqa: N818 - an outcome
    def __init__(self, result: Result) -> None:
        self.result = result


def reader(memory: Memory, key: str) -> Callable[[], tuple[str, Entry]]:
    """Reads one note of `memory` when `transfer` comes to it."""

    def read() -> tuple[str, Entry]:
        try:
            return key, memory.read(key)
        except KeyNotFoundError as error:
            raise _LeftOut(Result(key, "refused", "It was deleted meanwhile.")) from error
        except UnreadableError as error:
            raise _LeftOut(Result(key, "refused", told(error))) from error

    return read


def _if_room(result: Result, stored: set[str]) -> Result:
    try:
        check_capacity(len(stored))
    except StoreFullError as error:
        return Result(result.key, "refused", told(error))
    stored.add(result.key)
    return result


def put(memory: Memory, key: str, entry: Entry, *, overwrite: bool, dry_run: bool = False) -> Result:
    """Store one note, or tell why not.

    Raises:
        UnavailableError: the store is out of reach. Nothing was stored.
    """
    try:
        entry = check(key, entry)
        for _ in range(_ATTEMPTS):
            with suppress(KeyExistsError, StaleError):  # a run was faster: look again
                return _put(memory, key, entry, overwrite=overwrite, dry_run=dry_run)
    except UnavailableError:
        raise
    except OutcomeUnknownError as error:
        if _holds(memory, key, entry):
            return Result(key, "created")
        return Result(key, "refused", told(error))
    except StoreError as error:
        return Result(key, "refused", told(error))
    return Result(key, "refused", "Runs keep writing this key. Try again later.")


def _put(memory: Memory, key: str, entry: Entry, *, overwrite: bool, dry_run: bool) -> Result:
    scope = Scope()
    try:
        found = memory.read(key, scope)
    except KeyNotFoundError:
        if not dry_run:
            memory.ask(lambda: memory.store.create(key, entry.description, entry.content, header=entry.header))
        return Result(key, "created")
    if form(found) == entry:
        return Result(key, "unchanged")
    if not overwrite:
        return Result(key, "collided")
    if not dry_run:
        # Replaces the very value that was just compared, where the store can tell.
        memory.ask(lambda: memory.store.update(key, entry.description, entry.content, header=entry.header, scope=scope))
    return Result(key, "overwritten")


def _holds(memory: Memory, key: str, entry: Entry) -> bool:
    try:
        return form(memory.read(key)) == entry
    except StoreError:
        return False


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
