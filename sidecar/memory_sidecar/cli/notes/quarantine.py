"""Move a note out of every later run's reach, and back: for the day a poisoned one is found.

  memory-sidecar quarantine KEY            copy the note to the quarantine directory, then remove it from the memory
  memory-sidecar quarantine --list         what is in the quarantine directory
  memory-sidecar quarantine --restore KEY  put it back, and empty its place in quarantine

The copy is on disk before the note is removed, and only the very revision that was copied is removed. It is an export
file: memory-sidecar import reads it too. A note comes back byte for byte. A value that is no readable note (not UTF-8,
say), or a note that import would refuse (its description is too long, say), is kept in a file of the same format
without notes. The directory is quarantine under --store-dir, else in the user's state directory; no model can reach it.

The answer names the runs that met the note, and those that were shown all descriptions in the index or by memory_list,
as runs --saw does. A run that is open now may still remember what it saw.

Exit statuses: 0 done; 1 there is no such note, it cannot be read, or it cannot be put back, or it is quarantined but
not all journals could be read, or there is none, so that the list of runs is incomplete; 64 wrong usage; 78 the
configuration, the memory or a directory cannot be used.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ...assemble import Arguments, default_journal_dir
from ...exits import EX_CONFIG, EX_FOUND, EX_USAGE
from ...plain import visible
from ...run.records import timestamp
from ...run.saw import Answer, Sought, saw
from ...store.contract import Backend, Entry, Stored
from ...store.document import UNREADABLE, check_text, parse
from ...store.errors import ConflictError, InvalidError, KeyNotFoundError, StoreError, UnreadableError
from ...store.portable import Note, Raw, encode, raw_members
from ...store.rules import MAX_READ_BYTES, validate_key
from ...system import files
from ..shared.failure import Failure, complain
from ..shared.journals import all_journals, directories
from ..shared.memory import Memory, opened, unreadable
from ..shared.note_file import opened_file, save
from ..shared.places import add_places, place, places
from ..shared.remedy import command
from ..shared.report import add_json, moment, on_terminal, print_json, print_table, shown_revision
from ..shared.sights import NO_JOURNAL, as_json, print_answer
from ..shared.transfer import carried, put

__all__ = ["configure", "run"]

_SUFFIX: Final = ".jsonl"
_ATTEMPTS: Final = 5
"""How often a note is copied anew because a run changed it before it could be removed."""


class _Kept(NamedTuple):
    """One quarantined note: its file, what its header says, and the note."""

    path: str
    header: Mapping[str, Any]
    key: str
    description: str
    what: Entry | bytes
    """The note, or the bytes of what is no note that could be put back as one."""

    def text(self, name: str) -> str:
        """What was noted about it; "" if nothing."""
        about = self.header.get("quarantine")
        return str((about.get(name) if isinstance(about, dict) else None) or "")


def configure(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("key", metavar="KEY", nargs="?", help="the note to quarantine")
    what.add_argument("--list", action="store_true", help="list what is quarantined")
    what.add_argument("--restore", metavar="KEY", help="put this note back where it came from")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why; kept with the note")
    parser.add_argument("--overwrite", action="store_true", help="with --restore: replace what the key holds now")
    parser.add_argument("--quarantine-dir", metavar="DIR", help="another directory to keep quarantined notes in")
    add_places(parser, "journal-dir")
    add_json(parser)


def _places(arguments: argparse.Namespace) -> Arguments:
    """Which memory is meant. Of journals there may be several directories."""
    return places(vars(arguments) | {"journal_dir": None})


def run(arguments: argparse.Namespace) -> int:
    directory = place("--quarantine-dir", arguments.quarantine_dir) or os.path.join(
        os.path.dirname(default_journal_dir(_places(arguments).store_dir)), "quarantine"
    )
    directory = files.absolute(directory)
    if arguments.list:
        return _list(directory, as_json=arguments.json)
    if arguments.restore is not None:
        return _restore(arguments, directory)
    return _quarantine(arguments, directory)


# --- in --------------------------------------------------------------------------------------------------------


def _quarantine(arguments: argparse.Namespace, directory: str) -> int:
    key = arguments.key
    with opened(_places(arguments), write=True) as memory:
        try:
            path, entry, revision, proof = _move(memory, key, arguments.reason, directory)
        except KeyNotFoundError as error:
            raise Failure(f"there is no note {key}", f"see {command(_places(arguments)._asdict(), 'list')}") from error
    if not arguments.json:
        # Before the journals are read, which may take a while: this is done, whatever comes.
        print(f"{key} at revision {shown_revision(revision)} is quarantined in {visible(path, lines=False)}")
        print(f"to put it back: {_again(arguments, f'--restore={key}')}", flush=True)
    sought = Sought(key, None)
    unread = ""
    answer: Answer | None = None
    try:
        answer = saw(all_journals(directories(vars(arguments))), sought, memory.where(key)._replace(proof=proof))
    except Failure as error:
        unread = f"{error}\n"
    if answer is not None and not answer.read:
        unread = f"{NO_JOURNAL}\n"
    complete = answer is not None and answer.complete
    if arguments.json:
        about = {"quarantined": key, "revision": revision, "description": entry.description, "file": path}
        print_json(about | {"complete": False} | ({} if answer is None else as_json(answer)))
    elif answer is not None:
        print("\nRuns that met this note:")
        print_answer(answer, sought, vars(arguments))
        if "open" in [*(one.state for one in answer.seen), *(one.state for one in answer.listed)]:
            print("\nOpen runs may still remember it; end them, if that matters.")
    if not complete:
        again = command(vars(arguments), "runs", "--saw", key)
        mend = "" if answer is not None and _is_told(answer) else f"; mend that, then look again: {again}"
        complain(f"{unread}{key} is quarantined, but the list of runs is incomplete{mend}")
    return 0 if complete else EX_FOUND


def _is_told(answer: Answer) -> bool:
    """Whether all that the answer lacks is of another store, for which another question was told already."""
    return answer.read > 0 and len(answer.elsewhere) == len(answer.left_out)


def _again(arguments: argparse.Namespace, *words: str) -> str:
    chosen: str | None = arguments.quarantine_dir
    return command(vars(arguments), "quarantine", *words, *(() if chosen is None else ("--quarantine-dir", chosen)))


def _move(memory: Memory, key: str, reason: str, directory: str) -> tuple[str, Entry, str, str]:
    """Returns where the copy is, the note, its revision, and that again if it is a proof (`Where.proof`), else ""."""
    try:
        validate_key(key)
    except InvalidError as error:
        raise Failure(str(error), status=EX_USAGE) from error
    for _ in range(_ATTEMPTS):
        stored, backend = _stored(memory, key)
        holds = memory.opened.holds
        proof = stored.revision if holds is not None and memory.ask(partial(holds, key, stored.revision)) else ""
        kept = _as_kept(key, stored.document)
        path = _keep(memory, kept, stored.revision, reason, directory)
        entry = kept.entry if isinstance(kept, Note) else Entry(kept.description, "")
        try:
            if _remove(memory, backend, key, stored.revision):
                return path, entry, stored.revision, proof
        except BaseException:
            complain(f"{key} may still be in the memory; a copy is in {path}")
            raise
        os.unlink(path)  # the note was changed since: this copy is of an old one
    raise Failure(f"runs keep changing {key}", "end them, or try again")


def _stored(memory: Memory, key: str) -> tuple[Stored, Backend]:
    """What is stored under a key, and the backend that reads it whole.

    Raises:
        KeyNotFoundError: nothing is.
        Failure: it cannot be read at all, or not whole.
    """
    backend = memory.store.backend
    try:
        stored = memory.ask(lambda: backend.get(key))
        if stored is not None and len(stored.document) > MAX_READ_BYTES:
            # It may be cut. Ours can read it whole all the same; a store of others need not.
            whole: Callable[[], Backend] | None = getattr(backend, "whole", None)
            if whole is None:
                check_text(stored.document)
            else:
                backend = whole()
                stored = memory.ask(lambda: backend.get(key))
    except UnreadableError as error:
        raise Failure(*unreadable(memory, key, error)) from error
    if stored is None:
        raise KeyNotFoundError
    return stored, backend


def _as_kept(key: str, document: bytes) -> Note | Raw:
    """The document as a note, if it can be put back as one byte for byte."""
    try:
        entry = parse(document)
    except UnreadableError:
        return Raw(key, UNREADABLE, document)
    try:
        if carried(key, entry) == document:
            return Note(key, entry)
    except StoreError:
        pass
    return Raw(key, entry.description, document)


def _keep(memory: Memory, kept: Note | Raw, revision: str, reason: str, directory: str) -> str:
    """Write the copy and return its path; it is on disk then."""
    time = timestamp()
    about = {
        "quarantined": time,
        "reason": reason,
        "revision": revision,
        "store": memory.fingerprint,
        "location": memory.store.info().location,
    }
    if isinstance(kept, Raw):
        about |= raw_members(kept)
    header = {"created": time, "identity": memory.identity, "backend": memory.backend, "quarantine": about}
    compact = "".join(char for char in time if char not in "-:.")
    path = os.path.join(directory, f"{compact}-{kept.key}{_SUFFIX}")
    try:
        files.make_private_directory(directory)
    except OSError as error:
        raise Failure(
            f"cannot use the quarantine directory {directory}: {error.strerror}; nothing was moved",
            "set --quarantine-dir",
            status=EX_CONFIG,
        ) from error
    try:
        save(path, encode(header, [kept] if isinstance(kept, Note) else []), overwrite=False)
    except Failure as error:
        raise Failure(f"{error.problem}; nothing was moved", "free space there, or set --quarantine-dir") from error
    return path


def _remove(memory: Memory, backend: Backend, key: str, revision: str) -> bool:
    """Whether that very revision was removed, be it a readable note or not."""
    try:
        return memory.ask(lambda: backend.remove(key, revision)) is not None
    except ConflictError:
        return False


# --- out -------------------------------------------------------------------------------------------------------


def _restore(arguments: argparse.Namespace, directory: str) -> int:
    key = arguments.restore
    kept, _ = _read(directory)
    with opened(_places(arguments), write=True, make=True) as memory:
        candidates = [one for one in kept if one.key == key]
        if not candidates:
            raise Failure(
                f"no note {visible(key, lines=False)} is in {directory}", f"see {_again(arguments, '--list')}"
            )
        ours = [one for one in candidates if one.text("store") == memory.fingerprint]
        if not ours:
            raise Failure(
                f"{key} was quarantined from another memory",
                "to put it into this one all the same: "
                + command(_places(arguments)._asdict(), "import", candidates[-1].path),
            )
        newest = ours[-1]
        result = put(memory, key, newest.what, overwrite=arguments.overwrite)
    if result.what == "collided":
        raise Failure(f"{key} holds another note by now, which was left as it is", "to replace it, add --overwrite")
    if result.what == "refused":
        raise Failure(f"{key} was not put back: {result.reason}")
    os.unlink(newest.path)
    if arguments.json:
        print_json({"restored": key, "what": result.what, "file": newest.path})
    else:
        print(f"{key} is back in the memory" + (", replacing what was there" if result.what == "overwritten" else ""))
    return 0


def _list(directory: str, *, as_json: bool) -> int:
    kept, problems = _read(directory)
    if as_json:
        print_json(
            {
                "quarantined": [
                    {
                        "key": one.key,
                        "description": one.description,
                        "identity": one.header.get("identity"),
                        "time": one.text("quarantined"),
                        "revision": one.text("revision"),
                        "reason": one.text("reason"),
                        "file": one.path,
                    }
                    for one in kept
                ]
            }
        )
    elif kept:
        print_table(
            ("TIME (UTC)", "KEY", "REVISION", "IDENTITY", "REASON", "DESCRIPTION"),
            [
                (
                    moment(one.text("quarantined")),
                    one.key,
                    shown_revision(one.text("revision")),
                    str(one.header.get("identity") or ""),
                    one.text("reason"),
                    one.description,
                )
                for one in kept
            ],
        )
    elif on_terminal():
        print(f"Nothing is quarantined in {directory}.")
    for problem in problems:
        complain(problem)
    return 1 if problems else 0


def _read(directory: str) -> tuple[Sequence[_Kept], Sequence[str]]:
    """What is kept, oldest first, and what cannot be read."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(_SUFFIX))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise Failure(
            f"cannot read the quarantine directory {directory}: {error.strerror}",
            "check its permissions",
            status=EX_CONFIG,
        ) from error
    kept: list[_Kept] = []
    problems: list[str] = []
    for name in names:
        path = os.path.join(directory, name)
        try:
            with opened_file(path) as found:
                notes, (header, raw, *_) = list(found.notes()), found.about
        except Failure as error:
            problems.append(f"{error.problem}; restore that file from a backup, or move it away")
        else:
            kept += [_Kept(path, header, key, entry.description, entry) for key, entry in notes]
            if raw is not None:
                kept.append(_Kept(path, header, *raw))
    return kept, problems
