"""The store that tools use: six methods over a backend. What a run may overwrite is decided here and nowhere else.

A backend compares and swaps documents. Everything that is about runs stands in this file: authority (which revisions a
scope is granted, and when it loses them), `not_read` and `changed`, validation, the stored form, and that a note's
other header lines stay when it is overwritten.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from ..hints import Final, Literal, Protocol, TypeVar
from .contract import ABSENT, Backend, Entry, Info, Item, Stored
from .document import check_text, parse, serialize
from .errors import (
    ConflictError,
    KeyExistsError,
    KeyNotFoundError,
    OutcomeUnknownError,
    StaleError,
    StoreError,
    UnavailableError,
)
from .rules import validate_key, validate_write
from .scope import Granted, Scope

__all__ = ["Counter", "Store", "Watch"]

T = TypeVar("T")

CONTENTION_SECONDS: Final = 5.0
"""How long a change that needs no authority goes on while other writers get in between. A model waits for it."""

_FAILED: Final = "The memory store failed. "


class Counter(Protocol):
    """Who watches one operation: is told how many notes it is about."""

    def count(self, notes: int) -> None: ...


Watch = Callable[[str], AbstractContextManager[Counter]]
"""Called with an operation's name (`list`, `read`, ...); the operation happens within."""


class _Unwatched:
    def count(self, notes: int) -> None: ...


_NOBODY: Final = nullcontext(_Unwatched())


def _nobody(_name: str) -> AbstractContextManager[Counter]:
    return _NOBODY


class Store:
    """Notes by key, over one backend. Any thread may call it; `scope` is the calling run's record.

    No scope is valid and authorises no overwrite. It is passed on each call and never kept, so that one store serves
    many runs. Every method validates before it touches the backend and raises only `StoreError` and its kinds; a
    backend's unexpected exception becomes one whose text a model may read, with the cause chained.

    `guard`: an update replaces only the very revision that the scope holds (compare and swap). Without it, it replaces
    whatever is there, and also writes a key that holds nothing.
    """

    def __init__(self, backend: Backend, *, guard: bool = False, watch: Watch = _nobody) -> None:
        self.backend = backend
        self.guard = guard
        self._watch = watch

    def watched(self, watch: Watch) -> "Store":
        """The same store, with each operation told to `watch`."""
        return Store(self.backend, guard=self.guard, watch=watch)

    def info(self) -> Info:
        """The backend's name and location. Never fails, never does I/O."""
        return self.backend.info()

    def list(self) -> list[Item]:
        """Every entry, sorted by key; complete, or an error. Grants no authority.

        An entry that exists but cannot be read is listed with the description `(unreadable)` and hides
        no other. Bodies are not read.

        Raises:
            UnavailableError: the store cannot be reached or read now.
        """
        with self._watch("list") as told:
            items = _looked(self.backend.list)
            told.count(len(items))
            return items

    def read(self, key: str, *, scope: Scope | None = None) -> Entry:
        """The entry under `key`. Records its revision in `scope`: the only way to earn authority by looking.

        Raises:
            InvalidError: the key is not legal.
            KeyNotFoundError: nothing is stored under it; `scope` forgets the key.
            UnreadableError: something is, but it is not a readable note.
            UnavailableError: the store cannot be reached or read now.
        """
        with self._watch("read") as told:
            validate_key(key)
            stored = self._get(key, scope)
            if stored is None:
                _forget_absent(key, scope)
                raise KeyNotFoundError
            entry = parse(stored.document)
            if scope is not None:
                scope.grant(key, stored.revision, "read")
            told.count(1)
            return entry

    def create(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        """Store a new entry. Of any number of concurrent creates of one key, one succeeds.

        Grants authority over the key: the caller just wrote that value.

        Raises:
            InvalidError: a part is not legal.
            KeyExistsError: the key already holds an entry; it is unchanged.
            StoreFullError: `rules.MAX_ENTRIES` are stored.
            UnavailableError: nothing was stored.
            OutcomeUnknownError: the entry may or may not be stored; `scope` forgets the key, for that reason.
        """
        with self._watch("create") as told:
            document = serialize(validate_write(key, description, content), content)
            try:
                revision = _changed(key, scope, lambda: self.backend.put(key, document, ABSENT))
            except ConflictError as conflict:
                raise KeyExistsError(
                    "This key held a memory a moment ago. Try again."
                    if conflict.absent
                    else "This key already holds a memory."
                ) from None
            if scope is not None:
                scope.grant(key, revision, "created")
            told.count(1)

    def update(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        """Replace what `key` holds. Grants authority over the new value. Header lines of another program stay.

        Raises:
            InvalidError: a part is not legal.
            StaleError: read before update is required and `scope` has no revision of the key (`not_read`)
                or an old one (`changed`); nothing was written and `scope` forgets the key.
            StoreFullError: the key holds nothing and the store is full.
            UnreadableError: what is stored is not a readable note; it is left as it is.
            UnavailableError: nothing was stored.
            OutcomeUnknownError: the new value may or may not be stored; `scope` forgets the key.
        """
        with self._watch("update") as told:
            line = validate_write(key, description, content)
            replace = self._replace_seen if self.guard else self._replace_any
            revision, what = replace(key, lambda stored: _rewritten(stored, line, content), scope)
            if scope is not None:
                scope.grant(key, revision, what)
            told.count(1)

    def delete(self, key: str, *, scope: Scope | None = None, expected: str | None = None) -> bool:
        """Remove the entry. True exactly when this call removed one, whose revision `scope` then records; it
        forgets the key either way.

        With `expected` it removes only that revision, as `read` recorded it. Whoever keeps a copy before removing needs
        this: a plain `delete` would also remove what was written since.

        Raises:
            InvalidError: the key is not legal.
            UnreadableError: what is stored is not a readable note; it is left as it is.
            UnavailableError: nothing was removed.
            OutcomeUnknownError: the entry may or may not be gone; `scope` forgets the key.
        """
        with self._watch("delete") as told:
            validate_key(key)
            removed = self._remove(key, scope, expected)
            if removed is None:
                _forget_absent(key, scope)
            elif scope is not None:
                scope.drop(key, "deleted", removed)
            told.count(0 if removed is None else 1)
            return removed is not None

    def _replace_seen(self, key: str, rewrite: "_Rewrite", scope: Scope | None) -> "_Replaced":
        seen = scope.revision(key) if scope is not None else None
        if seen is None:
            raise _stale(key, scope, "not_read")
        stored = self._get(key, scope)
        if stored is None or stored.revision != seen:
            raise _stale(key, scope, "changed")
        document = rewrite(stored)
        try:
            return _changed(key, scope, lambda: self.backend.put(key, document, seen)), _UPDATED
        except ConflictError:
            raise _stale(key, scope, "changed") from None

    def _replace_any(self, key: str, rewrite: "_Rewrite", scope: Scope | None) -> "_Replaced":
        # Nobody here has seen what is overwritten, so a conflict is no answer: look again, and replace that.
        for _ in _while_contended():
            stored = self._get(key, scope)
            document = rewrite(stored)
            expected, what = (ABSENT, _CREATED) if stored is None else (stored.revision, _UPDATED)
            try:
                return _changed(key, scope, lambda: self.backend.put(key, document, expected)), what  # noqa: B023 - called at once
            except ConflictError:
                continue
        raise _contended()

    def _remove(self, key: str, scope: Scope | None, expected: str | None) -> str | None:
        """The revision that was removed, if one was."""
        known = expected or (scope.revision(key) if scope is not None else None)
        if known is not None:
            # The run has read this very document, or written it: it is a note, and one step looks and removes.
            try:
                return self._remove_revision(key, scope, known)
            except ConflictError:
                if expected is not None:
                    return None
        for _ in _while_contended():
            stored = self._get(key, scope)
            if stored is None:
                return None
            # What isn't a note is its owner's, and no call destroys it.
            check_text(stored.document)
            try:
                return self._remove_revision(key, scope, stored.revision)
            except ConflictError:
                continue
        raise _contended()

    def _remove_revision(self, key: str, scope: Scope | None, revision: str) -> str | None:
        return _changed(key, scope, lambda: self.backend.remove(key, revision), revision)

    def _get(self, key: str, scope: Scope | None) -> Stored | None:
        known = scope.revision(key) if scope is not None else None
        return _looked(lambda: self.backend.get(key, after=known))


_Rewrite = Callable[[Stored | None], bytes]
_Replaced = tuple[str, Granted]
"""The new revision, and whether there was something to replace."""
_CREATED: Final[Granted] = "created"
_UPDATED: Final[Granted] = "updated"


def _rewritten(stored: Stored | None, description: str, content: str) -> bytes:
    """The document that replaces `stored`, whose other header lines it keeps: they are their author's.

    Raises:
        UnreadableError: that is no readable note. It is left as it is.
        InvalidError: the header lines cannot be kept with this description and content.
    """
    kept = "" if stored is None else parse(stored.document).header
    return serialize(description, content, kept)


def _looked(ask: Callable[[], T]) -> T:
    """What the backend answers to a question that changes nothing."""
    try:
        return ask()
    except StoreError:
        raise
    except Exception as error:
        raise UnavailableError(
            f"{_FAILED}Nothing was changed; try again, and go on without memory if it persists."
        ) from error


def _changed(key: str, scope: Scope | None, change: Callable[[], T], revision: str | None = None) -> T:
    """What the backend answers to a change. Whatever leaves its outcome open takes the authority over the key.

    `revision` is what the change is about, where that is known before.
    """
    try:
        return change()
    except OutcomeUnknownError as error:
        _drop_unknown(key, scope, error.revision or revision)
        raise
    except StoreError:
        raise
    except Exception as error:
        _drop_unknown(key, scope, revision)
        raise OutcomeUnknownError(why=_FAILED) from error
    except BaseException:  # interrupted, after which nobody knows how far it came
        _drop_unknown(key, scope, revision)
        raise


def _drop_unknown(key: str, scope: Scope | None, revision: str | None) -> None:
    if scope is not None:
        scope.drop(key, "unknown", revision)


def _forget_absent(key: str, scope: Scope | None) -> None:
    if scope is not None and scope.revision(key) is not None:
        scope.drop(key, "stale")


def _stale(key: str, scope: Scope | None, reason: Literal["not_read", "changed"]) -> StaleError:
    if scope is not None:
        scope.drop(key, "stale")
    return StaleError(reason)


def _while_contended() -> Iterator[None]:
    """Turns, until `CONTENTION_SECONDS` have passed. Writers that met must not meet again at once."""
    yield
    import random  # only a change that met another one gets here

    deadline = time.monotonic() + CONTENTION_SECONDS
    longest = 0.001
    while True:
        time.sleep(random.uniform(0, longest))  # noqa: S311 - spreads load, guards nothing
        yield
        if time.monotonic() >= deadline:
            return
        longest = min(2 * longest, 0.05)


def _contended() -> UnavailableError:
    return UnavailableError("Other writers kept changing this memory. Nothing was changed. Try again.")
