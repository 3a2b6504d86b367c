"""One run while it is open: its scope, its journal, and the order in which the two are changed.

Serve the call, journal what it did to the scope, and only then let the reply go out.
"""

import os
import time
from collections.abc import Callable, Mapping

from ..hints import TYPE_CHECKING, Any, Final, Literal
from ..named_tuple import NamedTuple
from ..store.authority import Store
from ..store.errors import StoreError
from ..store.scope import Scope
from ..tools.catalog import Catalog
from ..tools.index import instructions
from ..tools.tool import Outcome
from .terms import Reason, RunRefusedError, journal_name

if TYPE_CHECKING:
    from ..observe.telemetry import Served
    from .columns import Record
    from .journal import Journal
    from .replay import Summary

__all__ = ["Answer", "HandedScope", "Resume", "Run", "Setting", "check_resumable"]

Resume = Literal["auto", "require", "never"]
RESUMES: Final[tuple[Resume, ...]] = ("auto", "require", "never")


class Setting(NamedTuple):
    """What all runs of a process share. The store is shared; no run's authority is another's."""

    store: Store
    fingerprint: str
    catalog: Catalog
    with_index: bool
    identity: str
    journal_dir: str
    lockdown: str | None = None
    holds: Callable[[str, str], bool] | None = None
    """Whether a key holds the very document of a revision that another store gave; None if that cannot be told."""


def check_resumable(directory: str, run: str) -> None:
    """Return if `directory` may hold a journal of `run`: before a memory is opened, and perhaps made, for nothing.

    Raises:
        RunRefusedError: it does not.
    """
    if not os.path.lexists(os.path.join(directory, journal_name(run))):
        raise _nothing_to_resume(run)


def _nothing_to_resume(run: str) -> RunRefusedError:
    return RunRefusedError(f"there is no run {run} to resume; use resume: auto to start it")


class HandedScope(NamedTuple):
    """A scope that a harness kept in a journal of its own and hands back at open."""

    store: str
    keys: Mapping[str, str]


class Answer(NamedTuple):
    """A call's outcome, and why the authority it earned is not saved, if it isn't."""

    outcome: Outcome
    unsaved: str | None


class Run:
    """An open run. Not safe for concurrent use: its calls are served one after the other."""

    def __init__(self, run: str, setting: Setting) -> None:
        self.id = run
        self.resumed = False
        self._setting = setting
        self._scope = Scope()
        self._before: list[Record] | None = []
        """What there is to tell before the run has begun; None once it has."""
        self._found: Summary | None = None
        self._is_named = False
        """Whether a harness or an operator chose the id: then its journal must be usable."""
        self._shown: list[tuple[int, float]] = []
        """Of how many notes the index was shown before the run has begun, and when."""
        self._made: Journal | None = None

    @property
    def _journal(self) -> "Journal":
        """Made when first asked for: a launch that only shows the index has no use for it, nor for what it loads."""
        if self._made is None:
            from . import records
            from .journal import Journal

            setting = self._setting
            self._made = Journal(
                setting.journal_dir,
                self.id,
                meta=lambda: records.meta(
                    run=self.id,
                    identity=setting.identity,
                    tools=setting.catalog.names,
                    store=setting.fingerprint,
                    lockdown=setting.lockdown,
                ),
                snapshot=self._snapshot,
            )
        return self._made

    def open(self, resume: Resume = "auto", handed: HandedScope | None = None) -> None:
        """Find and lock the run's journal, if it exists, and take up its scope. Nothing is written before `begin`.

        A scope handed in is the newest and wins, unless it belongs to another store: revisions mean nothing
        there. For the same reason a journal of another store yields an empty scope. What this store proves to hold
        all the same, as a restored one may, stays.

        Raises:
            RunRefusedError: the journal's existence contradicts `resume`, or the run has completed.
            JournalError: the journal is damaged, busy or out of reach.
        """
        try:
            self._open(resume, handed)
        except BaseException:
            self._journal.close()  # and its lock: a run that could not be opened is nobody's
            raise

    def begin(self) -> None:
        """Write that the run goes on, or that it is there. `unsaved` then tells whether that is on disk.

        Without `open` before, the id was made up just now: there is nothing to resume, so nothing to refuse, and where
        no journal can be written memory works all the same.

        Raises:
            JournalError: `open` was called, and the journal cannot be made.
        """
        from . import records

        before, self._before = self._before or [], None
        before = [*(records.listed("index", notes, when) for notes, when in self._shown), *before]
        found, self._found = self._found, None
        if found is not None:
            here = self._setting.fingerprint
            again = records.resumed(tools=self._setting.catalog.names, store=here, lockdown=self._setting.lockdown)
            self._journal.append([again, self._snapshot()], durable=True)
        elif self._is_named:
            try:
                self._journal.start([self._snapshot()] if self._scope.snapshot() else [])
            except BaseException:
                self._journal.close()
                raise
        if before or (found is None and not self._is_named):
            self._journal.append(before)

    def close(self) -> None:
        """Let go of a run that was opened and has not begun: it stays as it was found."""
        if self._made is not None:
            self._made.close()

    def discard(self) -> None:
        """Take back a new run that has begun and that nobody knows of: it leaves no journal."""
        self._journal.remove()

    def _open(self, resume: Resume, handed: HandedScope | None) -> None:
        found = self._journal.open()
        if found is not None and resume == "never":
            raise RunRefusedError(f"run {self.id} exists already; use another run id or resume: auto")
        if handed is not None and resume == "never":
            raise RunRefusedError("a scope is something to resume; leave it out, or use resume: auto")
        if found is not None and found.state == "completed":
            raise RunRefusedError(f"run {self.id} has completed and cannot go on; use another run id")
        if found is None and handed is None and resume == "require":
            raise _nothing_to_resume(self.id)
        keys: Mapping[str, str] = {} if found is None else self._held(found.store, found.keys)
        if handed is not None and (found is None or handed.store in (self._setting.fingerprint, found.store)):
            keys = self._held(handed.store, handed.keys)
        self._scope = Scope(keys)
        self._found, self._is_named = found, True
        self.resumed = found is not None or handed is not None

    def _held(self, store: str, keys: Mapping[str, str]) -> Mapping[str, str]:
        """Of the authority that was earned in `store`, what counts here."""
        if store == self._setting.fingerprint:
            return keys
        holds = self._setting.holds
        if holds is None or not keys:
            return {}
        try:
            here = {item.key for item in self._setting.store.list()}
            return {key: revision for key, revision in keys.items() if key in here and holds(key, revision)}
        except StoreError as error:
            raise RunRefusedError(error.remedy or str(error)) from error

    def instructions(self, served: "Served | None" = None) -> str:
        """The system text: the note, and the index unless the operator turned it off. Grants no authority.

        That the index was shown is journaled, once the run has a journal.
        """
        catalog = self._setting.catalog
        if not catalog.enabled:
            return ""
        items = _watched(self._setting.store, served).list() if self._setting.with_index else None
        if items:
            if self._before is not None:
                self._shown.append((len(items), time.time()))
            else:
                from . import records

                self._record([records.listed("index", len(items))])
        return instructions(items, read_only=catalog.read_only)

    def call(
        self,
        tool: str,
        arguments: object,
        cancelled: Callable[[], bool] = lambda: False,
        served: "Served | None" = None,
    ) -> Answer:
        """Serve one tool call and journal what it did to the scope. `served` is told what it asks of the store.

        If the call was cancelled meanwhile, its reply will not be seen: what it read grants nothing.

        Raises:
            UnknownToolError: this process has no such tool.
        """
        from . import records

        listed: list[Record] = []
        try:
            outcome = self._setting.catalog.call(tool, arguments, _watched(self._setting.store, served), self._scope)
            if outcome.listed:
                listed = [records.listed("memory_list", outcome.listed)]
        finally:
            # Also when the call failed in a way nobody expected: what the store did is done.
            changes = self._scope.drain()
            if cancelled():
                for change in changes:
                    if change.why == "read":
                        self._scope.drop(change.key, "stale")
                changes += self._scope.drain()
            self._record([*listed, *(records.scope_change(change) for change in changes)])
        return Answer(outcome, self._journal.unsaved)

    def end(self, reason: Reason, message: str | None = None) -> None:
        """Record why the run stops, then its scope, and let go of the journal. `unsaved` tells how that went.

        `suspended` and every other ending but `completed` can be resumed.
        """
        from . import records

        # The snapshot follows the ending, in one write: replay takes the newest.
        self._journal.append([records.terminal(reason, message), self._snapshot()], durable=True)
        self._journal.close()

    @property
    def unsaved(self) -> str | None:
        """Why the run's authority is not on disk, in words for the harness; None while it is."""
        return None if self._made is None else self._made.unsaved

    def scope(self) -> dict[str, Any]:
        """The scope in its wire form: the store it belongs to, and revisions by key."""
        return {"store": self._setting.fingerprint, "keys": self._scope.snapshot()}

    def _record(self, changes: "list[Record]") -> None:
        if self._before is not None:
            self._before += changes
        elif changes or self._journal.unsaved or self._journal.is_lost:
            self._journal.append(changes)

    def _snapshot(self) -> "Record":
        from . import records

        return records.snapshot(self._scope.snapshot())


def _watched(store: Store, served: "Served | None") -> Store:
    if served is None:
        return store
    from ..store.traced import watch  # only where telemetry is on

    return store.watched(watch(served))
