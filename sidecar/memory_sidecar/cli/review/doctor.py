"""Find what keeps a memory from working, and say what mends it. Changes nothing.

Give it the options that the harness gives to serve. Each line is one check: ok, note (works, but know this) or wrong,
then what was found, then the command or change that mends it. --json gives each a stable code. Several --config
are looked at one after the other.

Exit statuses: 0 nothing is wrong (with --strict: and there is no note, but that no ticket is at hand, or of a code that
--accept names); 1 something
is; 64 wrong usage.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from ...assemble import Arguments, default_journal_dir, settle
from ...backend.choose import aside, check, describe, open_backend, row_of
from ...backend.description import Directory, Finding, Looked
from ...backend.opened import BackendError, NotMadeError, Running
from ...backend.row import Row
from ...config import Config
from ...exits import EX_FOUND, EX_USAGE
from ...plain import visible
from ...remedy import RemedyError
from ...run.directory import identity_directory
from ...store.errors import KeyNotFoundError, StoreError, UnreadableError
from ...store.rules import MAX_ENTRIES, is_key
from ...system import files
from ...system.lockdown import available
from ...version import __version__
from ...wire.ticket import TICKET_VARIABLE, TicketError, open_ticket
from ..shared.failure import Failure
from ..shared.memory import why_unreadable
from ..shared.places import add_places, places
from ..shared.remedy import command
from ..shared.report import add_json, on_terminal, print_json, print_table
from .check import CODES, Check, Checks, wrong
from .directories import check_directory, litter
from .journals import check_journals

__all__ = ["configure", "run"]

_NEARLY_FULL: Final = MAX_ENTRIES * 9 // 10


def configure(parser: argparse.ArgumentParser) -> None:
    add_places(parser, "config")
    parser.add_argument("--run", dest="run_id", metavar="ID", help="also check whether this run can be opened")
    parser.add_argument("--strict", action="store_true", help="exit with 1 for notes too, for a monitor")
    parser.add_argument(
        "--accept",
        metavar="CODE",
        action="append",
        choices=sorted(CODES),
        default=[],
        help="with --strict: a note of this code is known and passes; may be repeated",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.accept and not arguments.strict:
        raise Failure("--accept is about what --strict counts", "add --strict", status=EX_USAGE)
    # That no harness is at hand is so wherever a monitor runs.
    accepted = {"ticket-none", *arguments.accept} if arguments.strict else None
    several = arguments.config or [None]
    reports = [
        _Report(one, list(_all(vars(arguments) | {"config": one}, arguments.run_id)), accepted) for one in several
    ]
    if arguments.json:
        told = [
            {"config": one.config, "ok": one.ok, "checks": [row._asdict() for row in one.checks]} for one in reports
        ]
        print_json(told[0] if len(told) == 1 else {"ok": all(one.ok for one in reports), "configurations": told})
    else:
        for number, one in enumerate(reports):
            if len(reports) > 1:
                print(f"{'' if number == 0 else chr(10)}{visible(one.config or '', lines=False)}")
            _print(one.checks)
    return 0 if all(one.ok for one in reports) else EX_FOUND


class _Report(NamedTuple):
    """What is found of one configuration."""

    config: str | None
    checks: list[Check]
    accepted: set[str] | None
    """The codes of which notes pass; None for all of them. What is wrong never passes."""

    @property
    def ok(self) -> bool:
        return not any(
            one.state == "wrong"
            or (one.state == "note" and self.accepted is not None and one.code not in self.accepted)
            for one in self.checks
        )


def _print(checks: list[Check]) -> None:
    if on_terminal():
        rows: list[tuple[str, str, str]] = []
        for one in checks:
            rows.append((one.check, one.state, one.found))
            rows += [("", "", f"-> {one.mend}")] if one.mend else []
        print_table(("CHECK", "", "FOUND"), rows, styled=1)
        return
    for one in checks:
        print(f"{one.state:<6} {one.check:<12} {visible(one.found, lines=False)}")
        if one.mend:
            print(f"{'':<20}-> {visible(one.mend, lines=False)}")


def _all(options: Mapping[str, str | None], run_id: str | None) -> Checks:
    yield Check(
        "program",
        "program",
        "ok",
        f"memory-sidecar {__version__} on Python {sys.version.split()[0]} at {sys.executable}",
    )
    yield from _launching(options)
    try:
        given = places(options)
        config, identity = settle(given)
        row = row_of(config)
    except RemedyError as error:
        yield wrong("config-unusable", "config", error)
        return
    yield _config(given, config, row.name)
    yield _lockdown(connect=row.connects)
    yield _identity(identity)
    yield from _store(given, config, identity, row)
    yield from check_journals(given, run_id, identity)
    yield from _apart(given, config, identity)


def _launching(options: Mapping[str, str | None]) -> Checks:
    """What `serve` itself refuses to start on. No harness is at hand here, so a ticket is looked at if there is one."""
    path = os.environ.get(TICKET_VARIABLE)
    if not path:
        yield Check(
            "ticket-none",
            "launch",
            "note",
            f"no launch ticket in {TICKET_VARIABLE}, and serve needs one, with pipes for stdin and stdout: "
            "a harness starts it, not a person and not an MCP host",
            f"{command(_named(options), 'try')}, or MemorySidecar.launch in memory_sidecar.harness",
        )
        return
    try:
        open_ticket(path).close()
    except TicketError as error:
        again = "let the harness write a fresh one, mode 0600, for each launch"
        yield Check("ticket-unusable", "launch", "wrong", f"the launch ticket {path} cannot be used: {error}", again)
    else:
        yield Check("ticket", "launch", "ok", f"the launch ticket {path} is there, private and not yet used")


def _named(options: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """The options, with a place for the name where without one nobody knows whose memory is meant."""
    with suppress(RemedyError):
        given = places(options)
        config, identity = settle(given)
        somewhere = given.config or given.store_dir or given.journal_dir
        if somewhere and not describe(config, identity, given.store_dir).named:
            return {**options, "identity": "NAME"}
    return options


def _lockdown(connect: bool) -> Check:
    held = available(connect=connect)
    code, state = ("lockdown-partial", "note") if held.reason else ("lockdown", "ok")
    return Check(code, "lockdown", state, f"serve gives up its rights; holding: {held.describe()}")


def _config(given: Arguments, config: Config, backend: str) -> Check:
    named = f"{given.config}: backend {backend}" if given.config else f"no --config: memory is on, backend {backend}"
    if not config.memory.enabled:
        return Check(
            "memory-off", "config", "wrong", f"{named}, but memory is not enabled", "set harness.memory.enabled: true"
        )
    return Check("config", "config", "ok", named + (", read only" if config.memory.read_only else ""))


def _identity(identity: str | None) -> Check:
    if identity is None:
        return Check(
            "identity-none",
            "identity",
            "note",
            "none is set: memories go under the base name of the harness's script or program, where that is certain",
            "set identity in --config, or --identity, to keep them together whatever launches them",
        )
    if not is_key(identity):
        return Check(
            "identity-illegal",
            "identity",
            "note",
            f"{identity!r} cannot name a directory or a prefix",
            "set identity to letters, digits and . _ = -",
        )
    return Check("identity", "identity", "ok", identity)


# --- the store -------------------------------------------------------------------------------------------------


def _store(given: Arguments, config: Config, identity: str | None, row: Row) -> Checks:
    try:
        directory = describe(config, identity, given.store_dir).directory
        if directory is not None and directory.path is None:
            yield from check_directory("store", files.absolute(directory.parent), "--store-dir")
            return
    except RemedyError as error:
        yield wrong("store-unusable", "store", error)
        return
    if directory is not None and directory.path is not None:
        path, read_only = directory.path, config.memory.read_only
        yield from check_directory("store", path, directory.option, read_only, directory.vouch)
        if not os.path.isdir(path) or not os.access(path, os.R_OK | os.X_OK):
            return
        yield from litter("store", path)
    with suppress(RemedyError):
        yield from _found(row.label, aside(config, identity, given.store_dir))
    try:
        running = open_backend(config, identity or "", given.store_dir, read_only=True, make=False, locked=True)
    except NotMadeError as error:
        yield Check("store-missing", row.label, "ok", f"{error.problem}; {NotMadeError.THEN}")
        return
    except BackendError as error:
        yield wrong("store-unusable", row.label, error)
        return
    counted = Counted()
    yield from _notes(running, row.label, directory, given._asdict(), counted)
    # What would be refused there is told above, in more words.
    with suppress(RemedyError, StoreError):
        yield from _looked(row.label, check(config, identity, given.store_dir), counted.notes)


class Counted:
    """How many notes a check has listed; None if it could not."""

    notes: int | None = None


def _found(name: str, findings: Sequence[Finding]) -> Checks:
    for one in findings:
        yield Check(one.code, name, one.state, one.found, one.mend)


_MANY_MARKS: Final = MAX_ENTRIES
"""Marks of deletions from which on creates and listings take noticeably longer."""


def _looked(name: str, looked: Looked, notes: int | None) -> Checks:
    """What the state of the place says about notes to come."""
    yield from _found(name, looked.findings)
    marks = 0 if notes is None or looked.names is None else looked.names - notes
    if marks >= _MANY_MARKS:
        yield Check(
            "deletion-marks",
            name,
            "note",
            f"{marks} marks of deletions are kept, which makes creates and listings slow",
            f"remove them: {looked.compact}",
        )


def _notes(
    running: Running, name: str, directory: Directory | None, options: Mapping[str, str | None], counted: Counted
) -> Checks:
    running.begin()
    unreadable: list[tuple[str, str]] = []
    try:
        store = running.opened.store
        items = store.list()
        counted.notes = len(items)
        for item in items:
            # A listing doesn't look at bodies, so each note is read, as a model would.
            try:
                store.read(item.key)
            except KeyNotFoundError:
                pass  # deleted since it was listed
            except UnreadableError as error:
                unreadable.append(why_unreadable(directory, item.key, error))
    except StoreError as error:
        cause = f" ({error.__cause__})" if isinstance(error.__cause__, OSError) else ""
        found, mend = (
            (error.remedy, "")
            if error.remedy
            else (
                f"{error}{cause}",
                "see the other lines, and the log of the harness",
            )
        )
        yield Check("store-failed", name, "wrong", found, mend)
        return
    finally:
        running.close()
    where = running.opened.store.info().location
    yield _room(len(items), name, f" in {where}" if where else "", directory, options)
    for found, mend in unreadable:
        yield Check("note-unreadable", name, "wrong", found, mend)


def _room(notes: int, name: str, where: str, directory: Directory | None, options: Mapping[str, str | None]) -> Check:
    """How many notes there are, and whether one more can be stored."""
    found = f"{notes} of {MAX_ENTRIES} notes{where}"
    if notes < _NEARLY_FULL:
        return Check("notes", name, "ok", found)
    mend = f"remove what is not needed: {command(options, 'list')}, then {command(options, 'quarantine', 'KEY')}"
    if notes < MAX_ENTRIES:
        return Check("memory-nearly-full", name, "note", found, mend)
    if directory is not None:
        mend += f"; or set {directory.option}, to keep the memory apart from notes of people"
    return Check("memory-full", name, "wrong", f"{found}: no new one can be stored", mend)


def _apart(given: Arguments, config: Config, identity: str | None) -> Checks:
    """Whether notes and journals have a directory each. What cannot be told is told by the other checks."""
    with suppress(RemedyError):
        where = describe(config, identity, given.store_dir).directory
        if where is None:
            return
        notes = os.path.realpath(where.path or where.parent)
        journals = given.journal_dir or default_journal_dir(given.store_dir)
        # Journals lie in a directory for each identity, so each directory in that of the journals is taken for one.
        taken = {os.path.realpath(journals)}
        if identity is not None and is_key(identity):
            taken.add(os.path.realpath(identity_directory(journals, identity)))
        if notes in taken or os.path.dirname(notes) in taken:
            yield Check(
                "shared-directory",
                "journal",
                "wrong",
                f"notes and journals are in one directory, {where.path or where.parent}",
                f"set --journal-dir, or {where.option}, to another one",
            )
