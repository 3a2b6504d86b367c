"""A memory as an operator's command uses it: the configured store, opened, whoever's it is.

Unlike a harness, an operator who names a memory that does not exist has made a mistake: reading commands make no
directory. Whether memory is enabled does not matter here: a memory that was switched off can still be looked at.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple, TypeVar

from ...assemble import Arguments, settle
from ...backend.choose import backend_of, describe, open_backend
from ...backend.description import Directory
from ...backend.opened import Opened
from ...exits import EX_CONFIG
from ...run.saw import Where
from ...store.authority import Store
from ...store.contract import Entry, Item
from ...store.errors import UnavailableError, UnreadableError
from ...store.nowhere import Nowhere
from ...store.scope import Scope
from .failure import Failure, complain
from .remedy import command, quoted
from .whose import check_named

__all__ = ["Memory", "opened", "unreadable", "why_unreadable"]

T = TypeVar("T")


class Memory(NamedTuple):
    """An open memory, for use on one thread."""

    store: Store
    opened: Opened
    identity: str | None
    backend: str
    directory: Directory | None
    """Where the notes' files are, if they are in files."""
    unused: str = ""
    """Why models cannot use, or not change, what is written into it; "" if they can."""
    doctor: str = ""
    """The command that looks for the cause when the store cannot be used."""

    @property
    def fingerprint(self) -> str:
        return self.opened.fingerprint

    def where(self, key: str) -> Where:
        """This memory, as the ledger is asked about a note in it."""
        names = {self.fingerprint: key} if self.opened.names is None else self.opened.names(key)
        return Where(names, cache(self.opened.of), self.identity)

    def ask(self, call: Callable[[], T]) -> T:
        """The answer of `call`, which uses the store. An error names the command that looks for its cause."""
        try:
            return call()
        except UnavailableError as error:
            # Of what a model is told, the first sentence: how to go on is for the model.
            error.remedy = error.remedy or f"{str(error).partition('. ')[0]}\n{self.doctor} looks for the cause"
            raise

    def list(self) -> list[Item]:
        return self.ask(self.store.list)

    def read(self, key: str, scope: Scope | None = None) -> Entry:
        return self.ask(lambda: self.store.read(key, scope=scope))


@contextmanager
def opened(arguments: Arguments, *, write: bool = False, make: bool = False, empty: bool = False) -> Iterator[Memory]:
    """Open the memory that `arguments` mean, and close it after the block.

    Args:
        arguments: as given on the command line.
        write: for changes too; otherwise a directory that may only be read will do, and so will a bucket that a run
            is refused: what is wrong with it is told on stderr. What the configuration says of `read_only` binds
            models, not the operator.
        make: make the directory if there is none.
        empty: let a missing directory stand for an empty memory, and make none; as changes would be refused where a
            run is, so is this.

    Raises:
        Failure: no memory is named, or it does not exist.
        StartError: the configuration cannot be used.
        BackendError: the store cannot be opened.
    """
    config, identity = settle(arguments)
    backend = backend_of(config)
    where = describe(config, identity, arguments.store_dir)
    check_named(where, arguments)
    directory = where.directory
    path = directory.path if directory is not None else None
    unused = ""
    if not config.memory.enabled:
        unused = "note: its configuration has memory disabled, so no run sees it; set harness.memory.enabled: true"
    elif config.memory.read_only:
        unused = "note: its configuration has it read_only, so runs read it and cannot change it"
    if path is not None and not make and _is_missing(path):
        if empty:
            nothing = Store(Nowhere("There is no such memory yet."))
            yield Memory(nothing, Opened(nothing, "none"), identity, backend, directory, unused)
            return
        raise Failure(
            f"there is no memory at {path}",
            f"check {arguments.option('identity')}, {arguments.option('store-dir')} and {arguments.option('config')}, "
            "or start its harness once",
            status=EX_CONFIG,
        )
    running = open_backend(
        config, identity or "", arguments.store_dir, read_only=not write, make=make, anyway=not (write or empty)
    )
    for problem in running.problems:
        complain(f"note: runs are refused here, and this only reads: {problem}")
    running.begin()
    doctor = command(arguments._asdict(), "doctor")

    try:
        made = running.opened
        yield Memory(made.store, made, identity, backend, directory, unused, doctor)
    finally:
        running.close()


def _is_missing(path: str) -> bool:
    """Whether there is surely nothing at `path`. Where nobody may look, or a file is in the way of a directory, to open
    it says what is wrong."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def unreadable(memory: Memory, key: str, error: UnreadableError) -> tuple[str, str]:
    """Why a note cannot be read, and what an operator can do about it."""
    return why_unreadable(memory.directory, key, error)


def why_unreadable(directory: Directory | None, key: str, error: UnreadableError) -> tuple[str, str]:
    """As `unreadable`, of a note in `directory`, or in a store that keeps none in files."""
    if error.remedy:
        return f"{key}: {error.remedy}", ""
    what = str(error).partition(". ")[0]
    if directory is None:
        return f"{key}: {what}", "replace or remove it in the store"
    return f"{key}: {what}", f"look at {quoted(directory.file(key))}, and mend it or move it away"
