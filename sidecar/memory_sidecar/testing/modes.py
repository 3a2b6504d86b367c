"""What an overwrite needs: with the guard the revision that the run has seen, without it nothing."""

import pytest

from ..store.authority import Store
from ..store.contract import Entry
from ..store.document import serialize
from ..store.errors import (
    StaleError,
    StoreFullError,
)
from ..store.rules import MAX_ENTRIES
from ..store.scope import Scope
from .authority import StoreContract
from .keeping import overwrite, read_again
from .subject import Call, Subject, together

__all__ = ["BlindContract", "GuardedContract"]


class GuardedContract(StoreContract):
    """A store that requires read before update."""

    guard = True

    def _is_stale(self, store: Store, key: str, scope: Scope | None, reason: str) -> None:
        with pytest.raises(StaleError) as refused:
            store.update(key, "mine", "mine", scope=scope)
        assert refused.value.reason == reason
        if scope is not None:
            assert scope.revision(key) is None
            assert [(change.key, change.revision, change.why) for change in scope.drain()][-1:] == [
                (key, None, "stale")
            ]

    def test_update_of_what_was_never_read_is_refused(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text")
        before = subject.stored()
        self._is_stale(store, "key", None, "not_read")
        self._is_stale(store, "key", Scope(), "not_read")
        self._is_stale(store, "key", Scope({"other": "1"}), "not_read")
        assert subject.stored() == before

    def test_update_of_a_key_that_holds_nothing_is_refused(self, subject: Subject, store: Store) -> None:
        self._is_stale(store, "key", None, "not_read")
        self._is_stale(store, "key", Scope(), "not_read")
        assert subject.stored() == {}

    def test_a_listing_grants_nothing(self, store: Store) -> None:
        store.create("key", "words", "text")
        assert len(store.list()) == 1
        self._is_stale(store, "key", Scope(), "not_read")

    def test_reading_one_key_grants_nothing_over_another(self, store: Store) -> None:
        store.create("one", "words", "text")
        store.create("two", "words", "text")
        self._is_stale(store, "two", read_again(store, "one"), "not_read")

    def test_reads_of_one_scope_never_authorise_another(self, store: Store) -> None:
        store.create("key", "words", "text", scope=Scope())
        read_again(store, "key")
        self._is_stale(store, "key", Scope(), "not_read")
        self._is_stale(store, "key", None, "not_read")

    def test_update_of_what_another_store_changed_is_refused(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text", scope=(scope := Scope()))
        overwrite(self.open(subject), "key", "theirs", "theirs")
        self._is_stale(store, "key", scope, "changed")
        assert store.read("key") == Entry("theirs", "theirs")
        # Refused once, the scope has forgotten it: insisting does not help, reading does.
        self._is_stale(store, "key", scope, "not_read")
        store.read("key", scope=scope)
        store.update("key", "mine", "mine", scope=scope)

    def test_a_change_behind_the_products_back_is_noticed(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text", scope=(scope := Scope()))
        subject.plant("key", serialize("words", "text, edited"))
        self._is_stale(store, "key", scope, "changed")

    def test_update_of_what_was_deleted_is_refused(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text", scope=(scope := Scope()))
        (self.open(subject)).delete("key")
        self._is_stale(store, "key", scope, "changed")
        assert subject.stored() == {}

    def test_own_delete_takes_the_authority(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text", scope=(scope := Scope()))
        store.delete("key", scope=scope)
        (self.open(subject)).create("key", "theirs", "theirs")
        self._is_stale(store, "key", scope, "not_read")
        assert store.read("key") == Entry("theirs", "theirs")

    def test_a_made_up_revision_authorises_nothing(self, store: Store) -> None:
        store.create("key", "words", "text")
        for revision in ("", "*", "0", "-1", "999999999", "x" * 1000, "é"):
            self._is_stale(store, "key", Scope({"key": revision}), "changed")

    def test_a_snapshot_carries_the_authority_to_a_later_process(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text")
        monday = read_again(store, "key")
        friday = Scope(monday.snapshot())
        (self.open(subject)).update("key", "words", "new text", scope=friday)
        self._is_stale(store, "key", monday, "changed")

    def test_of_concurrent_updates_of_one_revision_one_wins(self, subject: Subject) -> None:
        stores = [self.open(subject) for _ in range(3)]
        stores[0].create("key", "words", "0")
        for turn in range(5):
            scopes = [read_again(store, "key") for store in stores]

            def updating(number: int, store: Store, turn: int = turn, scopes: list[Scope] = scopes) -> Call:
                return lambda: store.update("key", "words", f"{number} in turn {turn}", scope=scopes[number])

            results = together(*(updating(number, store) for number, store in enumerate(stores)))
            winners = [number for number, result in enumerate(results) if result is None]
            assert len(winners) == 1, results
            lost = [result for result in results if result is not None]
            assert all(isinstance(result, StaleError) and result.reason == "changed" for result in lost), lost
            assert (stores[0].read("key")).content == f"{winners[0]} in turn {turn}"

    def test_read_then_overwrite_loses_no_increment(self, subject: Subject) -> None:
        stores = [self.open(subject) for _ in range(3)]
        stores[0].create("count", "a number", "0")

        def counting(store: Store) -> Call:
            def count() -> None:
                scope = Scope()
                done = 0
                while done < 5:
                    number = int((store.read("count", scope=scope)).content)
                    try:
                        store.update("count", "a number", str(number + 1), scope=scope)
                    except StaleError:
                        continue
                    done += 1

            return count

        assert together(*(counting(store) for store in stores)) == [None] * 3
        assert (stores[0].read("count")).content == "15"

    def test_a_stale_update_of_a_full_store_is_stale(self, subject: Subject, store: Store) -> None:
        subject.fill(MAX_ENTRIES)
        self._is_stale(store, "new", Scope(), "not_read")


class BlindContract(StoreContract):
    """A store that does not require read before update."""

    guard = False

    def test_update_without_a_read_replaces(self, store: Store) -> None:
        store.create("key", "words", "text")
        store.update("key", "mine", "mine")
        assert store.read("key") == Entry("mine", "mine")

    def test_update_writes_a_key_that_holds_nothing(self, subject: Subject, store: Store) -> None:
        store.update("key", "words", "text", scope=(scope := Scope()))
        assert (self.open(subject)).read("key") == Entry("words", "text")
        assert scope.snapshot() == (read_again(store, "key")).snapshot()

    def test_update_with_an_old_revision_replaces(self, subject: Subject, store: Store) -> None:
        store.create("key", "words", "text", scope=(scope := Scope()))
        (self.open(subject)).update("key", "theirs", "theirs")
        store.update("key", "mine", "mine", scope=scope)
        assert store.read("key") == Entry("mine", "mine")
        assert scope.snapshot() == (read_again(store, "key")).snapshot()

    def test_a_new_key_by_update_counts(self, subject: Subject, store: Store) -> None:
        subject.fill(MAX_ENTRIES)
        before = subject.stored()
        with pytest.raises(StoreFullError):
            store.update("one-more", "words", "text")
        assert subject.stored() == before
        store.update("fill-0000", "mine", "mine")
        assert len(store.list()) == MAX_ENTRIES
