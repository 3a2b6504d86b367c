"""The row of the backend that keeps notes in files."""

import os

from ...hints import TYPE_CHECKING
from ...system import files
from ..opened import Running
from ..row import Place, Row
from .entry import SUFFIX
from .listing import keys
from .opening import FileOptions, open_file, refuse_disk, resolve_directory, vouching

if TYPE_CHECKING:
    from ..description import Description, Looked

__all__ = ["ROW"]


def _open(options: FileOptions, place: Place) -> Running:
    opened = open_file(options, place.identity or "", place.base, read_only=place.read_only)
    directory = (resolve_directory(options, place.identity, place.base),)
    if place.read_only:
        return Running(opened, only_read=directory)
    return Running(opened, directories=directory)


def _check_many(options: FileOptions) -> None:
    from .many import check_many

    check_many(options)


def _open_many(options: FileOptions, place: Place) -> Running:
    from .many import open_many

    return open_many(options, place)


def _describe(options: FileOptions, place: Place) -> "Description":
    from ..description import Description, Directory, fact, guarded

    named = place.identity is not None or options.directory is not None
    path = resolve_directory(options, place.identity, place.base) if named else None
    directory = Directory(
        path,
        parent=os.path.join(place.base or "", "memory"),
        option="harness.memory.options.directory or --store-dir",
        vouch=vouching(options),
        suffix=SUFFIX,
    )
    vouched = "this machine alone writes there" if options.single_machine else ""
    facts = [
        fact("directory", path, path or "memory/<identity>"),
        guarded(options.require_read_before_update),
        fact("single_machine", options.single_machine, vouched, "vouched for"),
    ]
    return Description(facts, named, directory)


def _check(options: FileOptions, place: Place) -> "Looked":
    import shlex

    from ...store.authority import Store
    from ...system import disk, exchange
    from ..description import Finding, Looked, counted, fact
    from .notes import FileBackend
    from .store_id import NOT_YET, kept_id

    directory = resolve_directory(options, place.identity, place.base)
    if not os.path.lexists(directory):
        state = fact("directory", "will be made at the first start")
        return Looked([fact("notes", 0), fact("unreadable", 0), state])
    if not os.path.isdir(directory) or not files.is_permitted(directory, change=not place.read_only):
        what = "read" if place.read_only else "read and write"
        return Looked([], [f"{directory} is not a directory that this user can {what}; mend that, or set directory"])
    if not place.read_only and (refused := refuse_disk(directory, disk.inspect(directory), options)):
        return Looked([], [str(refused)])
    why_not = kept_id(directory).why_not
    if why_not == NOT_YET and place.read_only:
        why_not = "nothing is written into a memory that is read_only, no id either"
    shown = f"none: {why_not}; moving the directory would end the authority of its runs" if why_not else "kept in it"
    facts = [*counted(Store(FileBackend(directory))), fact("directory", "is there"), fact("store_id", shown)]
    findings = []
    if open_to := _open_to_others(directory):
        seen = f"other users may read or change notes in {directory}: {_some(open_to)}"
        few = " ".join(shlex.quote(os.path.join(directory, name)) for name in open_to[:4])
        every = f"find {shlex.quote(directory)} -maxdepth 1 -type f -name '*{SUFFIX}' -exec chmod 600 {{}} +"
        findings.append(
            Finding("notes-open-to-others", "note", seen, every if len(open_to) > 3 else f"chmod 600 {few}")
        )
    if others := _strays(directory):
        seen = f"not seen as notes in {directory}: {_some(others)}"
        findings.append(Finding("strays", "note", seen, "notes are files KEY.md"))
    if kept := exchange.displaced(directory):
        seen = f"saves that a killed sidecar had displaced are kept in {directory}: {_some(kept)}"
        findings.append(
            Finding(
                "displaced-saves", "note", seen, "compare each with the note that its name ends with, then remove it"
            )
        )
    return Looked(facts, findings=findings)


def _some(found: list[str]) -> str:
    return ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")


def _open_to_others(directory: str) -> list[str]:
    """Notes that others may change; or read, where the directory lets them in."""
    entered = os.stat(directory).st_mode & 0o011
    with files.open_directory(directory) as opened:
        names = [key + SUFFIX for key in keys(opened)]
        modes = {name: os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode for name in names}
    return sorted(name for name, mode in modes.items() if mode & (0o066 if entered else 0o022))


def _strays(directory: str) -> list[str]:
    """What lies there and is no note, nor hidden: it is never touched, and a person may wonder where it is."""
    with files.open_directory(directory) as opened:
        notes = {key + SUFFIX for key in keys(opened)}
        return sorted(name for name in os.listdir(opened) if not name.startswith(".") and name not in notes)


ROW = Row(
    "file",
    FileOptions,
    _open,
    _describe,
    _check,
    must_be_named=lambda _options: "",
    connects=False,
    label="store",
    open_many=_open_many,
    check_many=_check_many,
)
