"""Move a note out of every later run's reach, and back: for the day a poisoned one is found.

  memory-sidecar quarantine KEY            copy the note to the quarantine directory, then remove it from the memory
  memory-sidecar quarantine --list         what is in the quarantine directory
  memory-sidecar quarantine --restore KEY  put it back, and empty its place in quarantine

The copy is on disk before the note is removed, and only the very revision that was copied is removed. It is an export
file: memory-sidecar import reads it too. A value that is no readable note (not UTF-8, say), or a note that import
would refuse (its header is one that cannot be kept, say), is kept byte for byte in a file of the same format without
notes, and put back as it was. The directory is quarantine under --store-dir, else in
the user's state directory; no model can reach it.

The answer names the runs that met the note, and those that were shown all descriptions in the index or by memory_list,
as runs --saw does. A run that is open now may still remember what it saw.

Exit statuses: 0 done; 1 there is no such note, it cannot be read, or it cannot be put back, or it is quarantined but
not all journals could be read, so that the list of runs is incomplete; 64 wrong usage; 78 the
configuration, the memory or a directory cannot be used.
"""

import argparse
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...assemble import default_journal_dir
from ...exits import EX_CONFIG, EX_FOUND, EX_USAGE
from ...plain import visible
from ...run.records import timestamp
from ...run.saw import Answer, Sought, saw
from ...store.contract import ABSENT, ANYTHING, Entry, Stored
from ...store.document import UNREADABLE
from ...store.errors import ConflictError, InvalidError, KeyNotFoundError, StoreError, UnreadableError
from ...store.portable import Note, encode
from ...store.rules import MAX_READ_BYTES, is_key
from ...store.scope import Scope
from ...system import files
from ..shared.failure import Failure, complain
from ..shared.journals import all_journals, directories
from ..shared.memory import Memory, opened, unreadable
from ..shared.note_file import load, save
from ..shared.places import PLACES, add_options, place, places
from ..shared.remedy import command
from ..shared.report import add_json, moment, on_terminal, print_json, print_table, shown_revision
from ..shared.sights import as_json, print_answer
from ..shared.transfer import Result, check, put

__all__ = ["configure", "run"]

_SUFFIX: Final = ".jsonl"
_ATTEMPTS: Final = 5
"""How often a note is copied anew because a run changed it before it could be removed."""


class _Kept(NamedTuple):
    """One quarantined note: its file, what its header says, and the note."""

    path: str
    header: Mapping[str, Any]
    note: Note

    @property
    def about(self) -> Mapping[str, Any]:
        found = self.header.get("quarantine")
        return found if isinstance(found, dict) else {}

    def text(self, name: str) -> str:
        return str(self.about.get(name) or "")

    @property
    def document(self) -> bytes | None:
        """The bytes of what is no note that could be put back as one; None of a note."""
        raw = self.about.get("document")
        return None if raw is None else b64decode(str(raw))


def configure(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("key", metavar="KEY", nargs="?", help="the note to quarantine")
    what.add_argument("--list", action="store_true", help="list what is quarantined")
    what.add_argument("--restore", metavar="KEY", help="put this note back where it came from")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why; kept with the note")
    parser.add_argument("--overwrite", action="store_true", help="with --restore: replace what the key holds now")
    parser.add_argument("--quarantine-dir", metavar="DIR", help="another directory to keep quarantined notes in")
    add_options(parser, PLACES)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    directory = place("--quarantine-dir", arguments.quarantine_dir) or os.path.join(
        os.path.dirname(default_journal_dir(places(vars(arguments)).store_dir)), "quarantine"
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
    with opened(places(vars(arguments)), write=True) as memory:
        try:
            path, entry, revision = _move(memory, key, arguments.reason, directory)
        except KeyNotFoundError as error:
            raise Failure(f"there is no note {key}", f"see {command(vars(arguments), 'list')}") from error
    if not arguments.json:
        # Before the journals are read, which may take a while: this is done, whatever comes.
        print(f"{key} at revision {shown_revision(revision)} is quarantined in {visible(path, lines=False)}")
        print(f"to put it back: {_again(arguments, f'--restore={key}')}", flush=True)
    sought = Sought(key, None)
    unread = ""
    answer: Answer | None = None
    try:
        answer = saw(all_journals(directories(vars(arguments))), sought, memory.where(key))
    except Failure as error:
        unread = f"{error}\n"
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
        complain(
            f"{unread}{key} is quarantined, but the list of runs is incomplete; mend that, then look again: {again}"
        )
    return 0 if complete else EX_FOUND


def _again(arguments: argparse.Namespace, *words: str) -> str:
    chosen: str | None = arguments.quarantine_dir
    return command(vars(arguments), "quarantine", *words, *(() if chosen is None else ("--quarantine-dir", chosen)))


def _move(memory: Memory, key: str, reason: str, directory: str) -> tuple[str, Entry, str]:
    for _ in range(_ATTEMPTS):
        scope = Scope()
        try:
            entry = memory.read(key, scope)
            revision, document = scope.revision(key) or "", None
            if not _can_return(key, entry):
                stored = _bytes_of(memory, key)
                if stored.revision != revision:
                    continue  # changed since it was read
                document = stored.document
        except InvalidError as error:
            raise Failure(str(error), status=EX_USAGE) from error
        except UnreadableError as error:
            stored = _bytes_of(memory, key, error)
            entry, revision, document = Entry(UNREADABLE, ""), stored.revision, stored.document
        path = _keep(memory, Note(key, entry), revision, reason, directory, document)
        try:
            if _remove(memory, key, revision, raw=document is not None):
                return path, entry, revision
        except BaseException:
            complain(f"{key} may still be in the memory; a copy is in {path}")
            raise
        os.unlink(path)  # the note was changed since: this copy is of an old one
    raise Failure(f"runs keep changing {key}", "end them, or try again")


def _can_return(key: str, entry: Entry) -> bool:
    try:
        check(key, entry)
    except StoreError:
        return False
    return True


def _bytes_of(memory: Memory, key: str, error: UnreadableError | None = None) -> Stored:
    """What is stored under a key, byte for byte. `error`: why it is no readable note, if it is none.

    Raises:
        KeyNotFoundError: it is gone by now.
        Failure: it cannot be read at all, or not whole.
    """
    try:
        stored = memory.ask(lambda: memory.store.backend.get(key))
    except UnreadableError as unreadable_error:
        raise Failure(*unreadable(memory, key, unreadable_error)) from unreadable_error
    if stored is None:
        raise KeyNotFoundError
    if error is not None and len(stored.document) > MAX_READ_BYTES:
        raise Failure(*unreadable(memory, key, error)) from error
    return stored


def _keep(memory: Memory, note: Note, revision: str, reason: str, directory: str, document: bytes | None = None) -> str:
    """Write the copy and return its path; it is on disk then. `document`: the bytes to keep in the note's stead."""
    time = timestamp()
    about = {
        "quarantined": time,
        "reason": reason,
        "revision": revision,
        "store": memory.fingerprint,
        "location": memory.store.info().location,
    }
    if document is not None:
        about |= {"key": note.key, "description": note.entry.description, "document": b64encode(document).decode()}
    header = {"created": time, "identity": memory.identity, "backend": memory.backend, "quarantine": about}
    compact = "".join(char for char in time if char not in "-:.")
    path = os.path.join(directory, f"{compact}-{note.key}{_SUFFIX}")
    try:
        files.make_private_directory(directory)
    except OSError as error:
        raise Failure(
            f"cannot use the quarantine directory {directory}: {error.strerror}; nothing was moved",
            "set --quarantine-dir",
            status=EX_CONFIG,
        ) from error
    try:
        save(path, encode(header, [note] if document is None else []), overwrite=False)
    except Failure as error:
        raise Failure(f"{error.problem}; nothing was moved", "free space there, or set --quarantine-dir") from error
    return path


def _remove(memory: Memory, key: str, revision: str, *, raw: bool = False) -> bool:
    """Whether that very revision was removed. `raw`: perhaps no readable note, which the store would not touch."""
    if raw:
        try:
            return memory.ask(lambda: memory.store.backend.remove(key, revision)) is not None
        except ConflictError:
            return False
    return memory.ask(lambda: memory.store.delete(key, expected=revision))


# --- out -------------------------------------------------------------------------------------------------------


def _restore(arguments: argparse.Namespace, directory: str) -> int:
    key = arguments.restore
    kept, _ = _read(directory)
    with opened(places(vars(arguments)), write=True, make=True) as memory:
        candidates = [one for one in kept if one.note.key == key]
        if not candidates:
            raise Failure(
                f"no note {visible(key, lines=False)} is in {directory}", f"see {_again(arguments, '--list')}"
            )
        ours = [one for one in candidates if one.about.get("store") == memory.fingerprint]
        if not ours:
            raise Failure(
                f"{key} was quarantined from another memory",
                "to put it into this one all the same: " + command(vars(arguments), "import", candidates[-1].path),
            )
        newest = ours[-1]
        result = _put_back(memory, newest, overwrite=arguments.overwrite)
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


def _put_back(memory: Memory, kept: _Kept, *, overwrite: bool) -> Result:
    key, document = kept.note.key, kept.document
    if document is None:
        return put(memory, key, kept.note.entry, overwrite=overwrite)
    try:
        memory.ask(lambda: memory.store.backend.put(key, document, ANYTHING if overwrite else ABSENT))
    except ConflictError:
        return Result(key, "collided")
    return Result(key, "created")


def _list(directory: str, *, as_json: bool) -> int:
    kept, problems = _read(directory)
    if as_json:
        print_json(
            {
                "quarantined": [
                    {
                        "key": one.note.key,
                        "description": one.note.entry.description,
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
                    one.note.key,
                    shown_revision(one.text("revision")),
                    str(one.header.get("identity") or ""),
                    one.text("reason"),
                    one.note.entry.description,
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
            found = load(path)
        except Failure as error:
            problems.append(str(error))
        else:
            kept += [_Kept(path, found.header, note) for note in found.notes]
            about = found.header.get("quarantine")
            if isinstance(about, dict) and "document" in about and is_key(str(about.get("key"))):
                entry = Entry(str(about.get("description", UNREADABLE)), "")
                kept.append(_Kept(path, found.header, Note(str(about["key"]), entry)))
    return kept, problems
