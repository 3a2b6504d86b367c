"""The options that say which memory is meant, shared by all commands that need one."""

import argparse

from ..assemble import Arguments

__all__ = ["add_places", "places"]


def add_places(parser: argparse.ArgumentParser) -> None:
    """Add `--config`, `--identity`, `--store-dir` and `--journal-dir`."""
    parser.add_argument("--config", metavar="FILE", help="YAML with identity, nats_context and harness.memory")
    parser.add_argument(
        "--identity",
        metavar="NAME",
        help="the agent's name; memories are kept under it (overrides the configuration)",
    )
    parser.add_argument(
        "--store-dir", metavar="DIR", help="store base: relative memory directories and journals resolve under it"
    )
    parser.add_argument(
        "--journal-dir",
        metavar="DIR",
        help="where runs are journaled; default: runs under --store-dir, else the user's state directory",
    )


def places(arguments: argparse.Namespace) -> Arguments:
    """The parsed options. An empty text counts as not given."""
    return Arguments(
        config=arguments.config or None,
        identity=arguments.identity or None,
        store_dir=arguments.store_dir or None,
        journal_dir=arguments.journal_dir or None,
    )
