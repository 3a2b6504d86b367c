"""Show the memory a configuration means: enabled or not, where, with which tools, limits and exposure.

Works offline: no run is started, no directory is made and no broker is asked. With --check the place is looked at too:
a broker is asked for the state of its bucket, and what a run would be refused for is named. Nothing is changed.

Exit statuses: 0 all is well; 1 --check found that a run would be refused; 78 the configuration cannot be used.
"""

import argparse
import json
from typing import Any, Final

from exposure_policy import TOOLS

from ...assemble import Arguments, default_journal_dir, settle
from ...backend.choose import backend_of, check, describe, must_be_named, row_of
from ...backend.opened import BackendError
from ...config import Config
from ...exits import EX_CONFIG
from ...plain import visible
from ...remedy import RemedyError
from ...store import rules
from ...system import disk, files
from ...system.lockdown import available
from ...tools.catalog import Catalog
from ..shared.failure import Failure, complain
from ..shared.places import PLACES, add_options, places
from ..shared.whose import check_named

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, PLACES)
    parser.add_argument("--check", action="store_true", help="look at the store too, and say what would be refused")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(arguments: argparse.Namespace) -> int:
    try:
        memory = _memory(places(vars(arguments)))
        if arguments.check:
            memory["check"] = _check(places(vars(arguments)))
    except RemedyError as error:
        complain(f"memory-sidecar info: {error}")
        return EX_CONFIG
    if arguments.json:
        print(json.dumps({"memory": memory}, indent=2))
    else:
        print("Memory")
        for label, value in _rows(memory):
            print(f"  {label:<12} {visible(value, lines=False)}")
        if arguments.check:
            _show_check(memory["check"])
    return 1 if arguments.check and memory["check"]["refused"] else 0


def _check(arguments: Arguments) -> dict[str, Any]:
    """The state of the store, and why a run would be refused there."""
    config, identity = settle(arguments)
    if not config.memory.enabled:
        return {"state": {}, "refused": []}
    try:
        check_named(describe(config, identity, arguments.store_dir), arguments)
        state, refused = check(config, identity or "", arguments.store_dir)
    except (BackendError, Failure) as error:
        state, refused = {}, [str(error)]
    return {"state": state, "refused": refused}


def _show_check(found: dict[str, Any]) -> None:
    print("Check")
    for name, value in found["state"].items():
        shown = ", ".join(value) or "none seen" if isinstance(value, list) else "none" if value is None else value
        print(f"  {name.replace('_', ' '):<24} {visible(str(shown), lines=False)}")
    for refusal in found["refused"]:
        print(f"  {'refused':<24} {visible(refusal, lines=False)}")
    if not found["refused"]:
        print("  a run would start here")


def _memory(arguments: Arguments) -> dict[str, Any]:
    config, identity = settle(arguments)
    memory = config.memory
    where = describe(config, identity, arguments.store_dir)
    return {
        "enabled": memory.enabled,
        "identity": identity,
        "identity_from": _identity_from(arguments, config),
        "backend": backend_of(config),
        "where": where,
        "disk": _disk(where.get("directory")),
        "journal": files.absolute(arguments.journal_dir or default_journal_dir(arguments.store_dir)),
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
        "lockdown": available(connect=row_of(config).is_shared).describe(),
        "exposure": {name: dict(row.expose._asdict()) for name, row in TOOLS.items()},
    }


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


_WHERE_LABELS: Final = {"require_read_before_update": "guard", "shared": "shared with"}
_WHERE_UNKNOWN: Final = {
    "directory": "memory/<identity>",
    "prefix": "the identity",
    "context": "none; set nats_context, or choose one with: nats context select",
}
_WHERE_EMPTY: Final = {
    "prefix": "none; the bucket is flat",
    "shared": "agents of the same, a flat or a nesting prefix; --check looks",
}


def _rows(memory: dict[str, Any]) -> list[tuple[str, str]]:
    yes = {True: "yes", False: "no"}
    identity, rule = memory["identity"], memory["identity_from"]
    rows = [
        ("enabled", yes[memory["enabled"]] + ("" if memory["enabled"] else "; set harness.memory.enabled: true")),
        ("identity", f"{identity}, by {rule}" if identity else rule),
        ("backend", memory["backend"]),
    ]
    for name, value in memory["where"].items():
        if name == "single_machine":
            if value:
                rows.append(("vouched for", "this machine alone writes there"))
            continue
        shown = "; ".join(value) if isinstance(value, list) else value
        if name == "require_read_before_update":
            shown = "an overwrite needs a read of the current value" if value else "off; the last writer wins"
        elif value is None:
            shown = _WHERE_UNKNOWN[name]
        elif not shown:
            shown = _WHERE_EMPTY[name]
        rows.append((_WHERE_LABELS.get(name, name), shown))
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
        ("exposure", ", ".join(open_to) or "the harness alone; no tool on MCP or A2A, and no setting changes that"),
    ]
    return rows
