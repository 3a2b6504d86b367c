"""Show the memory a configuration means: enabled or not, where, with which tools, limits and exposure.

Works offline: no run is started, no directory is made and no broker is asked. With --check the place is looked at too:
a broker is asked for the state of its bucket, and what a run would be refused for is named. Nothing is changed.

Exit statuses: 0 all is well; 1 --check found that a run would be refused; 78 the configuration cannot be used.
"""

import argparse
import json
import os
from typing import Any, Final

from exposure_policy import TOOLS

from ...assemble import Arguments, default_journal_dir, settle
from ...backend.choose import check, describe, must_be_named, row_of, warnings
from ...backend.description import Description, Looked, json_of
from ...backend.opened import BackendError
from ...config import Config
from ...exits import EX_CONFIG, StartError
from ...places import neighbours
from ...plain import visible
from ...remedy import RemedyError
from ...run.directory import identity_directory
from ...store import rules
from ...system import disk, files
from ...system.lockdown import available
from ...tools.catalog import Catalog
from ..shared.failure import Failure, complain
from ..shared.places import PLACES, add_options, places
from ..shared.whose import check_named
from .directories import check_directory

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, PLACES)
    parser.add_argument("--check", action="store_true", help="look at the store too, and say what would be refused")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(arguments: argparse.Namespace) -> int:
    try:
        memory, where = _memory(places(vars(arguments)))
        looked = _check(places(vars(arguments))) if arguments.check else Looked([])
    except RemedyError as error:
        complain(f"memory-sidecar info: {error}")
        return EX_CONFIG
    if arguments.json:
        if arguments.check:
            memory["check"] = {"state": json_of(looked.facts), "refused": list(looked.refused)}
        print(json.dumps({"memory": memory}, indent=2))
    else:
        print("Memory")
        for label, value in _rows(memory, where):
            print(f"  {label:<12} {visible(value, lines=False)}")
        if arguments.check:
            _show_check(looked)
    return 1 if looked.refused else 0


def _check(arguments: Arguments) -> Looked:
    """The state of the store, and why a run would be refused there."""
    config, identity = settle(arguments)
    if not config.memory.enabled:
        return Looked([])
    try:
        where = describe(config, identity, arguments.store_dir)
        check_named(where, arguments)
        unusable = _unusable(arguments, config, where, identity)
        found = check(config, identity, arguments.store_dir) if not unusable else Looked([])
        return found._replace(refused=[*unusable, *found.refused])
    except (BackendError, StartError, Failure) as error:
        return Looked([], [str(error)])


_REFUSED: Final = ("directory-unusable", "disk-read-only", "disk-unfit")
"""What `doctor` finds wrong with a directory and a run cannot start with."""


def _unusable(arguments: Arguments, config: Config, where: Description, identity: str | None) -> list[str]:
    """Which directories a run could not be started with, and what mends that."""
    journal = files.absolute(arguments.journal_dir or default_journal_dir(arguments.store_dir))
    own = identity_directory(journal, identity) if identity is not None and rules.is_key(identity) else journal
    checks = list(check_directory("journal", own, "--journal-dir"))
    if where.directory is not None and where.directory.path is not None:
        directory, read_only = where.directory, config.memory.read_only
        checks += check_directory("store", where.directory.path, directory.option, read_only, directory.vouch)
    return [f"{one.found}; {one.mend}" for one in checks if one.code in _REFUSED]


def _show_check(found: Looked) -> None:
    print("Check")
    for one in found.facts:
        print(f"  {one.label:<24} {visible(one.shown, lines=False)}")
    for refusal in found.refused:
        print(f"  {'refused':<24} {visible(refusal, lines=False)}")
    if not found.refused:
        print("  a run would start here")


def _memory(arguments: Arguments) -> tuple[dict[str, Any], Description]:
    """What `--json` prints, and what is printed of the store without it."""
    config, identity = settle(arguments)
    memory = config.memory
    row = row_of(config)
    where = describe(config, identity, arguments.store_dir)
    journal = files.absolute(arguments.journal_dir or default_journal_dir(arguments.store_dir))
    told = {
        "enabled": memory.enabled,
        "identity": identity,
        "identity_from": _identity_from(arguments, config),
        "backend": row.name,
        "where": json_of(where.facts),
        "disk": _disk(where.directory.path if where.directory is not None else None),
        "journal": journal,
        "to_be_known": warnings(config, identity, lambda: neighbours(os.path.join(journal, "x"))),
        "read_only": memory.read_only,
        "index": not memory.no_index,
        "tools": list(Catalog(enabled=memory.enabled, read_only=memory.read_only).names),
        "limits": {
            "key_characters": rules.MAX_KEY,
            "description_characters": rules.MAX_DESCRIPTION,
            "content_bytes": rules.MAX_CONTENT_BYTES,
            "entries": rules.MAX_ENTRIES,
            "entry_bytes": rules.MAX_ENTRY_BYTES,
        },
        "lockdown": available(connect=row.connects).describe(),
        "exposure": {name: dict(tool.expose._asdict()) for name, tool in TOOLS.items()},
    }
    return told, where


def _identity_from(arguments: Arguments, config: Config) -> str:
    """Which rule says what the identity is."""
    if arguments.identity is not None:
        return "--identity"
    if config.identity is not None:
        return "the configuration"
    if config.memory.enabled and must_be_named(config):
        return "nothing; it must be named: set --identity, or identity in --config"
    return "the script or program that launches it, where that is certain; else it must be named"


def _disk(directory: str | None) -> dict[str, Any] | None:
    """What the disk under the notes can do; None where there is none yet, or where they are not in files."""
    if directory is None:
        return None
    try:
        found = disk.inspect(directory)
    except OSError:
        return None
    return {"kind": found.kind, "flushes": found.flushes, "locks": not found.no_locks, "network": found.is_shared}


def _rows(memory: dict[str, Any], where: Description) -> list[tuple[str, str]]:
    yes = {True: "yes", False: "no"}
    identity, rule = memory["identity"], memory["identity_from"]
    rows = [
        ("enabled", yes[memory["enabled"]] + ("" if memory["enabled"] else "; set harness.memory.enabled: true")),
        ("identity", f"{identity}, by {rule}" if identity else rule),
        ("backend", memory["backend"]),
    ]
    rows += [(one.label, one.shown) for one in where.facts if one.shown]
    if memory["disk"] is not None and not memory["disk"]["flushes"]:
        rows.append(("disk", disk.CANNOT_FLUSH))
    limits = memory["limits"]
    limits_shown = (
        f"key {limits['key_characters']} characters, description {limits['description_characters']} characters, "
        f"content {limits['content_bytes']} bytes, {limits['entries']} entries"
    )
    open_to = [f"{tool} on {surface}" for tool, spec in memory["exposure"].items() for surface in spec if spec[surface]]
    rows += [
        ("journal", memory["journal"]),
        ("read only", yes[memory["read_only"]]),
        ("index", "on" if memory["index"] else "off"),
        ("tools", ", ".join(memory["tools"]) or "none"),
        ("limits", limits_shown),
        ("lockdown", memory["lockdown"]),
        *(("note", warning) for warning in memory["to_be_known"]),
        ("exposure", ", ".join(open_to) or "the harness alone; no tool on MCP or A2A, and no setting changes that"),
    ]
    return rows
