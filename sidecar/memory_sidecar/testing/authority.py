"""What a store lets a run change: creating, replacing, deleting, and the authority that this takes and gives."""

import pytest

from ..store.authority import Store
from ..store.contract import Backend, Entry, Expected
from ..store.errors import (
    KeyExistsError,
    KeyNotFoundError,
    OutcomeUnknownError,
    StoreFullError,
    UnavailableError,
)
from ..store.rules import MAX_ENTRIES
from ..store.scope import Scope
from .keeping import KeepingContract, every_call, no_path_in, overwrite, read_again
from .subject import Call, Subject, together

__all__ = ["StoreContract"]


class _Losing:
    """A backend whose confirmations get lost: what it was asked to do is done, and nobody hears of it."""

    def __init__(self, backend: Backend) -> None:
        self.info, self.list, self.get = backend.info, backend.list, backend.get
        self._backend = backend

    def put(self, key: str, document: bytes, expected: Expected) -> str:
        raise OutcomeUnknownError(self._backend.put(key, document, expected))

    def remove(self, key: str, expected: Expected) -> str | None:
        self._backend.remove(key, expected)  # type: ignore[arg-type]
        raise OutcomeUnknownError


class _Broken(_Losing):
    """A backend with a fault in its changes."""

    def put(self, key: str, document: bytes, expected: Expected) -> str:
        raise ValueError("secret")

    def remove(self, key: str, expected: Expected) -> str | None:
        raise ValueError("secret")


class StoreContract(KeepingContract):
    """What holds in both modes. Not run itself: plug in through one of its subclasses."""

    # What the ledger is told

    def test_a_delete_tells_which_revision_it_removed_though_nobody_had_read_it(self, store: Store) -> None:
        store.create("key", "words", "text")
        revision = (read_again(store, "key")).revision("key")
        scope = Scope()
        assert store.delete("key", scope=scope) is True
        (change,) = scope.drain()
        assert (change.key, change.revision, change.why, change.met) == ("key", None, "deleted", revision)

    def test_a_delete_that_removed_nothing_is_not_told_as_one(self, store: Store) -> None:
        store.create("key", "words", "text")
        scope = read_again(store, "key")
        scope.drain()
        assert store.delete("key") is True
        assert store.delete("key", scope=scope) is False
        assert [change.why for change in scope.drain()] == ["stale"]
        assert scope.revision("key") is None

    # Creating

    def test_create_stores_and_another_store_sees_it(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text")
        assert (self.open(subject)).read("key") == Entry("words", "text")

    def test_create_refuses_a_taken_key_and_changes_nothing(self, subject: Subject, store: Store) -> None:
        store.create("key", "first", "first")
        before = subject.stored()
        for each in (store, self.open(subject)):
            with pytest.raises(KeyExistsError):
                each.create("key", "second", "second")
        assert subject.stored() == before

    def test_a_key_can_be_created_again_after_a_delete(self, store: Store) -> None:
        store.create("key", "first", "first")
        store.delete("key")
        store.create("key", "second", "second")
        assert store.read("key") == Entry("second", "second")

    def test_of_concurrent_creates_one_wins(self, subject: Subject) -> None:
        stores = [self.open(subject) for _ in range(4)]
        for round_number in range(5):
            key = f"race-{round_number}"

            def racing(number: int, store: Store, key: str = key) -> Call:
                return lambda: store.create(key, f"by {number}", f"text of {number}")

            results = together(*(racing(number, store) for number, store in enumerate(stores * 2)))
            winners = [number for number, result in enumerate(results) if result is None]
            assert len(winners) == 1, results
            assert all(isinstance(result, KeyExistsError) for result in results if result is not None)
            assert stores[0].read(key) == Entry(f"by {winners[0]}", f"text of {winners[0]}")

    # The cap

    def test_1024_entries_fit_and_one_more_does_not(self, subject: Subject, store: Store) -> None:
        subject.fill(MAX_ENTRIES - 1)
        store.create("last", "words", "text")
        assert len(store.list()) == MAX_ENTRIES
        before = subject.stored()
        with pytest.raises(StoreFullError, match="1024"):
            store.create("one-more", "words", "text", scope=(scope := Scope()))
        assert scope.drain() == []
        with pytest.raises(KeyExistsError):
            store.create("last", "words", "text")
        assert subject.stored() == before
        # An overwrite replaces an entry that already counted.
        overwrite(store, "last", "other words", "other text")
        assert store.read("last") == Entry("other words", "other text")
        store.delete("fill-0000")
        store.create("one-more", "words", "text")
        assert len(store.list()) == MAX_ENTRIES

    # Deleting

    def test_delete_says_whether_this_call_removed_something(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text")
        store.create("kept", "words", "text")
        assert (self.open(subject)).delete("key") is True
        assert store.delete("key") is False
        assert [item.key for item in store.list()] == ["kept"]
        with pytest.raises(KeyNotFoundError):
            store.read("key")

    def test_of_concurrent_deletes_one_removes(self, subject: Subject) -> None:
        stores = [self.open(subject) for _ in range(3)]
        for _ in range(5):
            stores[0].create("key", "words", "text")
            results = together(*(lambda store=store: store.delete("key") for store in stores * 2))
            assert sorted(results) == [False] * 5 + [True]

    # Authority

    def test_a_read_records_a_revision_and_a_second_read_nothing_new(self, store: Store) -> None:
        store.create("key", "words", "text")
        scope = Scope()
        store.read("key", scope=scope)
        store.read("key", scope=scope)
        (change,) = scope.drain()
        assert (change.key, change.why) == ("key", "read")
        assert change.revision
        assert scope.snapshot() == {"key": change.revision}

    def test_a_revision_means_the_same_to_every_store_on_the_backing_store(
        self, subject: Subject, store: Store
    ) -> None:
        store.create("key", "words", "text", scope=(mine := Scope()))
        theirs = read_again(self.open(subject), "key")
        assert mine.snapshot() == theirs.snapshot()

    def test_a_revision_changes_with_the_value(self, store: Store) -> None:
        store.create("key", "words", "text")
        revisions = [(read_again(store, "key")).revision("key")]
        for description, content in (("other words", "text"), ("other words", "other text")):
            overwrite(store, "key", description, content)
            revisions.append((read_again(store, "key")).revision("key"))
        assert len(set(revisions)) == 3

    def test_reading_nothing_grants_nothing_and_forgets(self, store: Store) -> None:
        scope = Scope({"key": "1", "other": "2"})
        with pytest.raises(KeyNotFoundError):
            store.read("key", scope=scope)
        assert scope.snapshot() == {"other": "2"}

    def test_create_grants_exactly_what_a_read_would(self, store: Store) -> None:
        store.create("key", "words", "text", scope=(scope := Scope()))
        (change,) = scope.drain()
        assert (change.key, change.why) == ("key", "created")
        assert scope.snapshot() == (read_again(store, "key")).snapshot()
        store.update("key", "words", "new text", scope=scope)

    def test_update_grants_over_the_new_value(self, store: Store) -> None:
        store.create("key", "words", "one")
        scope = read_again(store, "key")
        scope.drain()
        store.update("key", "words", "two", scope=scope)
        (change,) = scope.drain()
        assert (change.key, change.why) == ("key", "updated")
        assert scope.snapshot() == (read_again(store, "key")).snapshot()
        store.update("key", "words", "three", scope=scope)
        assert (store.read("key")).content == "three"

    def test_a_refused_create_grants_nothing(self, store: Store) -> None:
        store.create("key", "words", "text")
        with pytest.raises(KeyExistsError):
            store.create("key", "other words", "other text", scope=(scope := Scope()))
        assert scope.snapshot() == {}

    def test_delete_forgets_even_when_it_removes_nothing(self, store: Store) -> None:
        store.create("key", "words", "text", scope=(scope := Scope()))
        other_scope = read_again(store, "key")
        store.delete("key", scope=scope)
        assert scope.snapshot() == {}
        assert store.delete("key", scope=other_scope) is False
        assert other_scope.snapshot() == {}

    def test_no_scope_is_fine_everywhere(self, store: Store) -> None:
        store.create("key", "words", "text", scope=None)
        store.read("key", scope=None)
        store.delete("key", scope=None)

    # Trouble

    def test_a_backing_store_out_of_reach_is_said_plainly_and_without_a_path(self, subject: Subject) -> None:
        store = self.unreachable(subject)
        scope = Scope({"key": f"1@{'x' * 22}"})
        for call in (store.list, lambda: store.read("key", scope=scope)):
            with pytest.raises(UnavailableError) as failed:
                call()
            assert no_path_in(str(failed.value))
        for method in ("create", "update", "delete"):
            with pytest.raises((UnavailableError, OutcomeUnknownError)) as changed:
                every_call(store, "key", scope)[method]()
            assert no_path_in(str(changed.value))

    def test_an_unknown_outcome_takes_the_authority(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text")
        for method in ("create", "update", "delete"):
            key = "new" if method == "create" else "key"
            scope = Scope() if method == "create" else read_again(store, key)
            losing = self.over(_Losing(subject.open()))
            with pytest.raises(OutcomeUnknownError):
                every_call(losing, key, scope)[method]()
            assert scope.revision(key) is None, f"{method} may have changed what the scope has seen"
            assert [change.why for change in scope.drain()][-1:] == ["unknown"]

    def test_what_the_backend_did_not_expect_is_told_plainly_and_leaves_no_authority(
        self, subject: Subject, store: Store
    ) -> None:
        store.create("key", "words", "text")
        broken = self.over(_Broken(subject.open()))
        for method in ("create", "update", "delete"):
            scope = read_again(store, "key")
            with pytest.raises(OutcomeUnknownError, match="The memory store failed") as failed:
                every_call(broken, "key", scope)[method]()
            assert "secret" not in str(failed.value)
            assert scope.revision("key") is None, f"nobody knows what {method} has done"
