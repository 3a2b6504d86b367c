"""Find what keeps a memory from working, and say what mends it. Changes nothing.

Give it the options that the harness gives to serve. Each line is one check: ok, note (works, but know this) or wrong,
then what was found, then the command or change that mends it.

Exit statuses: 0 nothing is wrong; 1 something is; 64 wrong usage.
"""

import argparse
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from ...assemble import Arguments, default_journal_dir, settle
from ...backend.choose import Row, Running, backend_of, check, describe, open_backend, row_of
from ...backend.opened import BackendError
from ...config import Config
from ...exits import EX_FOUND
from ...plain import visible
from ...remedy import RemedyError
from ...store.errors import KeyNotFoundError, StoreError, UnreadableError
from ...store.rules import MAX_ENTRIES, is_key
from ...system import files
from ...system.lockdown import available
from ...version import __version__
from ...wire.ticket import TICKET_VARIABLE
from ..shared.memory import why_unreadable
from ..shared.places import PLACES, add_options, places
from ..shared.remedy import command
from ..shared.report import add_json, on_terminal, print_json, print_table
from .check import Check, Checks, wrong
from .directories import check_directory, litter, strays
from .journals import check_journals

__all__ = ["configure", "run"]

_NEARLY_FULL: Final = MAX_ENTRIES * 9 // 10


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, PLACES)
    parser.add_argument("--run", dest="run_id", metavar="ID", help="also check whether this run can be opened")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    checks = list(_all(vars(arguments), arguments.run_id))
    wrong = [check for check in checks if check.state == "wrong"]
    if arguments.json:
        print_json({"ok": not wrong, "checks": [check._asdict() for check in checks]})
    elif on_terminal():
        rows: list[tuple[str, str, str]] = []
        for one in checks:
            rows.append((one.check, one.state, one.found))
            rows += [("", "", f"-> {one.mend}")] if one.mend else []
        print_table(("CHECK", "", "FOUND"), rows, styled=1)
    else:
        for one in checks:
            print(f"{one.state:<6} {one.check:<12} {visible(one.found, lines=False)}")
            if one.mend:
                print(f"{'':<20}-> {visible(one.mend, lines=False)}")
    return EX_FOUND if wrong else 0


def _all(options: Mapping[str, str | None], run_id: str | None) -> Checks:
    yield Check("program", "ok", f"memory-sidecar {__version__} on Python {sys.version.split()[0]} at {sys.executable}")
    yield from _launching(options)
    try:
        given = places(options)
        config, identity = settle(given)
        row = row_of(config)
    except RemedyError as error:
        yield wrong("config", error)
        return
    yield _config(given, config, backend_of(config))
    yield _lockdown(connect=row.is_shared)
    yield _identity(identity)
    yield from _store(given, config, identity, row)
    yield from check_journals(given, run_id, identity)
    yield from _apart(given, config, identity, row)


def _launching(options: Mapping[str, str | None]) -> Checks:
    """What `serve` itself refuses to start on. No harness is at hand here, so a ticket is looked at if there is one."""
    path = os.environ.get(TICKET_VARIABLE)
    if not path:
        yield Check(
            "launch",
            "note",
            f"no launch ticket in {TICKET_VARIABLE}, and serve needs one, with pipes for stdin and stdout: "
            "a harness starts it, not a person and not an MCP host",
            f"{command(options, 'try')}, or MemorySidecar.launch in memory_sidecar.harness",
        )
        return
    again = "let the harness write a fresh one, mode 0600, for each launch"
    try:
        status = os.lstat(path)
    except OSError as error:
        yield Check("launch", "wrong", f"the launch ticket {path} cannot be used: {error.strerror}", again)
        return
    private = (
        stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o177
    )
    if private:
        yield Check("launch", "ok", f"the launch ticket {path} is there, and private")
    else:
        yield Check("launch", "wrong", f"the launch ticket {path} is not a private file of this user", again)


def _lockdown(connect: bool) -> Check:
    held = available(connect=connect)
    return Check("lockdown", "note" if held.reason else "ok", f"serve gives up its rights; holding: {held.describe()}")


def _config(given: Arguments, config: Config, backend: str) -> Check:
    named = f"{given.config}: backend {backend}" if given.config else f"no --config: memory is on, backend {backend}"
    if not config.memory.enabled:
        return Check("config", "wrong", f"{named}, but memory is not enabled", "set harness.memory.enabled: true")
    return Check("config", "ok", named + (", read only" if config.memory.read_only else ""))


def _identity(identity: str | None) -> Check:
    if identity is None:
        return Check(
            "identity",
            "note",
            "none is set: memories go under the base name of the harness's script or program, where that is certain",
            "set identity in --config, or --identity, to keep them together whatever launches them",
        )
    if not is_key(identity):
        return Check(
            "identity",
            "note",
            f"{identity!r} cannot name a directory or a prefix",
            "set identity to letters, digits and . _ = -",
        )
    return Check("identity", "ok", identity)


# --- the store -------------------------------------------------------------------------------------------------


def _store(given: Arguments, config: Config, identity: str | None, row: Row) -> Checks:
    try:
        where = describe(config, identity, given.store_dir)
        directory = where["directory"] if row.in_files else None
        if row.in_files and directory is None:
            directory = files.absolute(os.path.join(given.store_dir or "", "memory"))
            yield from check_directory("store", directory, "--store-dir")
            return
    except RemedyError as error:
        yield wrong("store", error)
        return
    if directory is not None:
        read_only = config.memory.read_only
        guard = where["require_read_before_update"] and not where["single_machine"]
        option = "harness.memory.options.directory or --store-dir"
        yield from check_directory("store", directory, option, read_only, guard)
        if not os.path.isdir(directory) or not os.access(directory, os.R_OK | os.X_OK):
            return
        yield from strays(directory)
        yield from litter("store", directory)
    name = row.place
    try:
        running = open_backend(config, identity or "", given.store_dir, read_only=True, locked=True)
        # Of files it would tell what reading them tells below.
        state = {} if directory is not None else check(config, identity or "", given.store_dir)[0]
    except BackendError as error:
        yield wrong(name, error)
        return
    counted = Counted()
    yield from _notes(running, name, directory, given._asdict(), counted)
    yield from _bucket(name, state, counted.notes)


class Counted:
    """How many notes a check has listed; None if it could not."""

    notes: int | None = None


_MANY_MARKS: Final = MAX_ENTRIES
"""Marks of deletions from which on creates and listings take noticeably longer."""


def _bucket(name: str, state: Mapping[str, Any], notes: int | None) -> Checks:
    """What the state of a bucket says about notes to come."""
    for what in state.get("full", []):
        yield Check(name, "wrong", *_parted(what))
    for kind in ("soon_full", "replicas_absent", "may_be_lost"):
        for what in state.get(kind, []):
            yield Check(name, "note", *_parted(what))
    marks = 0 if notes is None else int(state.get("keys_here") or 0) - notes
    if marks >= _MANY_MARKS:
        yield Check(
            name,
            "note",
            f"{marks} marks of deletions are kept, which makes creates and listings slow",
            f"remove them: nats kv compact {state['bucket']}",
        )


def _parted(text: str) -> tuple[str, str]:
    """What is found, and what mends it, of a sentence that has both."""
    found, _, mend = text.partition("; ")
    return found, mend


def _notes(
    running: Running, name: str, directory: str | None, options: Mapping[str, str | None], counted: Counted
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
        yield Check(name, "wrong", found, mend)
        return
    finally:
        running.close()
    where = running.opened.store.info().location
    yield Check(
        name,
        "note" if len(items) >= _NEARLY_FULL else "ok",
        f"{len(items)} of {MAX_ENTRIES} notes" + (f" in {where}" if where else ""),
        f"remove what is not needed: {command(options, 'list')}, then {command(options, 'quarantine', 'KEY')}"
        if len(items) >= _NEARLY_FULL
        else "",
    )
    for found, mend in unreadable:
        yield Check(name, "wrong", found, mend)


def _apart(given: Arguments, config: Config, identity: str | None, row: Row) -> Checks:
    """Whether notes and journals have a directory each. What cannot be told is told by the other checks."""
    with suppress(RemedyError, KeyError):
        notes = describe(config, identity, given.store_dir)["directory"] if row.in_files else None
        journals = given.journal_dir or default_journal_dir(given.store_dir)
        if notes is not None and os.path.realpath(notes) == os.path.realpath(journals):
            yield Check(
                "journal",
                "wrong",
                f"notes and journals are in one directory, {notes}",
                "set --journal-dir, or harness.memory.options.directory, to another one",
            )
