"""What one launch of the fake memory serves: its options, read by the code that reads them for the real one."""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from ..assemble import Arguments, Plan, prepare, settle
from ..backend.choose import check_many, decoded, describe
from ..backend.opened import BackendError
from ..cli.serve import log_refusal
from ..cli.shared.places import places
from ..config import Config
from ..exits import StartError
from ..harness.command import LaunchOptions, StrPath
from ..tools.catalog import Catalog

__all__ = ["IDENTITY", "Planned", "Told", "planned"]

IDENTITY: Final = "test"
"""Whose memory a launch means that names no identity."""


class Told(NamedTuple):
    """What the constructor was told."""

    guard: bool | None
    read_only: bool
    with_index: bool
    many: bool


class Planned(NamedTuple):
    """What a launch decides."""

    plan: Plan
    catalog: Catalog
    with_index: bool


def planned(told: Told, command: Sequence[StrPath] | None, options: LaunchOptions, journals: str) -> Planned:
    """Decide what a launch with these options serves; its journals lie in `journals`.

    Raises:
        StartError, BackendError: the real launch refuses them, or they contradict what the constructor was told.
    """
    arguments = _arguments(told, options)._replace(journal_dir=journals)
    config, named = settle(arguments)
    if told.many and options.get("many_identities") is None and named is not None:
        raise StartError(
            "FakeMemory was made with many_identities=True, and the launch names one identity",
            "leave out one of the two",
        )
    guard, known = _guard(told, config, foreign=command is not None)
    # `prepare` refuses a backend that only the program of `command` has.
    plan = prepare(arguments if known else arguments._replace(config=None, identity=named))
    if known and config.memory.enabled:
        # All of the place that can be wrong without a disk or a broker.
        describe(config, plan.identity, arguments.store_dir)
        if plan.identity is None:
            check_many(config)
    memory = config.memory
    catalog = Catalog(enabled=memory.enabled, read_only=told.read_only or memory.read_only, guarded=guard)
    return Planned(plan._replace(config=config), catalog, told.with_index and not memory.no_index)


def _arguments(told: Told, options: LaunchOptions) -> Arguments:
    values = {
        name: os.fspath(value)
        for name, value in options.items()
        if isinstance(value, str | os.PathLike)  # `command_line` has checked them; many_identities is left out
    }
    if refused := log_refusal(values):
        raise refused
    many = options.get("many_identities")
    many = told.many if many is None else many
    return places({**values, "default_identity": IDENTITY, "many_identities": "yes" if many else None})


def _guard(told: Told, config: Config, *, foreign: bool) -> tuple[bool, bool]:
    """Whether an overwrite needs a read first, and whether this process knows the configured backend.

    `foreign`: another program is launched, which may have a store of its own.
    """
    if not config.memory.enabled:
        return bool(told.guard), True
    try:
        options = decoded(config)[1]._asdict()
    except BackendError as error:
        if not foreign:
            raise
        if told.guard is None:
            raise StartError(
                error.problem,
                "if the program of command= has such a store, say guard=True or guard=False to FakeMemory",
            ) from error
        return told.guard, False
    configured = options.get("require_read_before_update") or not options.get("no_require_read_before_update", True)
    return (bool(configured) if told.guard is None else told.guard), True
