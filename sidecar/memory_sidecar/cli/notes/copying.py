"""Copy a memory from one configuration's store to another's, between any two backends.

A note arrives byte for byte as it was, with whatever header its author gave it, or is refused by name.

Nothing is removed from the source, and no note at the target is replaced unless --overwrite is given. Notes that are
there already, the same, are skipped: after an interruption the same command goes on.

Exit statuses: 0 every note is at the target; 1 some collided or were refused, or a store went out of reach; 64 wrong
usage; 78 a configuration or a memory cannot be used.
"""

import argparse
import os
from contextlib import ExitStack

from ...assemble import Arguments
from ...backend.opened import BackendError
from ...exits import EX_CONFIG, EX_USAGE, StartError
from ..shared.failure import Failure, complain
from ..shared.memory import Memory, opened
from ..shared.places import place
from ..shared.report import add_json, progress
from ..shared.transfer import print_report, reader, transfer

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    for end in ("from", "to"):
        parser.add_argument(
            f"--{end}", dest=f"{end}_config", metavar="FILE", required=True, help=f"configuration to copy {end}"
        )
        parser.add_argument(f"--{end}-identity", metavar="NAME", help="overrides the identity of that configuration")
        parser.add_argument(f"--{end}-store-dir", metavar="DIR", help="store base for that configuration")
    parser.add_argument("--overwrite", action="store_true", help="replace notes at the target that differ")
    parser.add_argument("--dry-run", action="store_true", help="tell what would happen; change nothing")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    source_places, target_places = _places(arguments, "from"), _places(arguments, "to")
    change = not arguments.dry_run
    with ExitStack() as stack:
        source = _open(stack, source_places)
        target = _open(stack, target_places, write=change, make=change, empty=not change)
        if _is_same(source, target):
            raise Failure("--from and --to mean the same memory", "name two", status=EX_USAGE)
        keys = [item.key for item in source.list()]
        with progress("copy", len(keys)) as bar:
            report = transfer(
                (reader(source, key) for key in keys),
                len(keys),
                target,
                overwrite=arguments.overwrite,
                dry_run=arguments.dry_run,
                advance=bar.advance,
            )
    if target.unused:
        complain(f"--to: {target.unused}")
    return print_report(report, dry_run=arguments.dry_run, as_json=arguments.json)


def _is_same(source: Memory, target: Memory) -> bool:
    """Whether the two are one memory. A directory and a copy of it have one fingerprint, and are two."""
    ours, theirs = (None if one.directory is None else one.directory.path for one in (source, target))
    if ours is None or theirs is None:
        return source.fingerprint == target.fingerprint
    return os.path.realpath(ours) == os.path.realpath(theirs)


def _open(stack: ExitStack, given: Arguments, **how: bool) -> Memory:
    try:
        return stack.enter_context(opened(given, **how))
    except (StartError, BackendError) as error:
        # Whatever names no option of the command line leaves open which of the two memories it means.
        raise Failure(f"--{given.end}: {error.problem}", error.remedy, status=EX_CONFIG) from error


def _places(arguments: argparse.Namespace, end: str) -> Arguments:
    unnamed = Arguments(end=end)
    config, identity, store_dir = (getattr(arguments, f"{end}_{name}") for name in ("config", "identity", "store_dir"))
    return unnamed._replace(
        config=place(unnamed.option("config"), config),
        identity=identity or place(unnamed.option("identity"), identity),
        store_dir=place(unnamed.option("store-dir"), store_dir),
    )
