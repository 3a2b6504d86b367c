"""What `store.contract.Backend` says, sentence by sentence: the part of the suite that a backend alone can break."""

import pytest

from ..store.contract import ABSENT, ANYTHING, Backend, Item
from ..store.document import UNREADABLE, serialize
from ..store.errors import ConflictError, OutcomeUnknownError, StoreFullError, UnavailableError
from ..store.rules import MAX_ENTRIES
from .subject import Subject, together

__all__ = ["BackendContract"]


def document(text: str) -> bytes:
    return serialize("words", text)


class BackendContract:
    """Compare and swap: each change is one step, is seen at once by everybody, and is made once."""

    @pytest.fixture
    def subject(self) -> Subject:
        raise NotImplementedError("the backend's test class provides its subject")

    @pytest.fixture
    def backend(self, subject: Subject) -> Backend:
        return subject.open()

    def test_info_tells_the_name_and_no_place_and_needs_no_store(self, subject: Subject, backend: Backend) -> None:
        for info in (backend.info(), subject.unreachable().info()):
            assert info.backend == subject.name
            assert "/" not in info.location
            assert "@" not in info.location

    def test_what_is_acknowledged_is_visible_to_everybody(self, subject: Subject, backend: Backend) -> None:
        other = subject.open()
        for text in ("first", "second", "third"):
            revision = backend.put("key", document(text), ANYTHING)
            assert other.get("key") == (revision, document(text))
            assert other.list() == [Item("key", "words")]
            assert subject.stored() == {"key": document(text)}
        assert backend.remove("key", revision) == revision
        assert other.get("key") is None
        assert other.list() == []
        assert subject.stored() == {}

    def test_a_revision_names_one_state_for_everybody(self, subject: Subject, backend: Backend) -> None:
        revisions = [backend.put("key", document(text), ANYTHING) for text in ("first", "second")]
        assert len(set(revisions)) == 2
        for revision in revisions:
            assert revision.isascii()
            assert revision.isprintable()
            assert 0 < len(revision) <= 200
        found = subject.open().get("key", after=revisions[-1])
        assert found is not None
        assert found.revision == revisions[-1]

    def test_each_expectation_is_held_to(self, subject: Subject, backend: Backend) -> None:
        first = backend.put("key", document("first"), ABSENT)
        with pytest.raises(ConflictError) as conflict:
            backend.put("key", document("again"), ABSENT)
        assert not conflict.value.absent
        second = backend.put("key", document("second"), first)
        for stale in (first, "made up", "0", ""):
            with pytest.raises(ConflictError) as conflict:
                backend.put("key", document("stale"), stale)
            assert not conflict.value.absent
            with pytest.raises(ConflictError):
                backend.remove("key", stale)
        assert subject.stored() == {"key": document("second")}
        assert backend.put("key", document("third"), ANYTHING) != second
        with pytest.raises(ConflictError) as conflict:
            backend.put("none", document("x"), second)
        assert conflict.value.absent
        assert subject.stored() == {"key": document("third")}

    def test_removing(self, subject: Subject, backend: Backend) -> None:
        first = backend.put("key", document("first"), ABSENT)
        second = subject.open().put("key", document("second"), first)
        with pytest.raises(ConflictError):
            backend.remove("key", first)
        assert backend.remove("key", second) == second
        assert backend.remove("key", second) is None
        assert backend.remove("key", ANYTHING) is None
        third = backend.put("key", document("third"), ABSENT)
        assert backend.remove("key", ANYTHING) == third

    def test_of_changes_at_once_that_expect_the_same_one_is_made(self, subject: Subject) -> None:
        backends = [subject.open() for _ in range(4)]
        revision: str | None = None
        for turn in range(5):
            expected = ABSENT if revision is None else revision
            results = together(
                *(
                    lambda number=number, one=one, expected=expected, turn=turn: one.put(
                        "key", document(f"{number} in {turn}"), expected
                    )
                    for number, one in enumerate(backends * 2)
                )
            )
            made = [(number, result) for number, result in enumerate(results) if isinstance(result, str)]
            assert len(made) == 1, results
            assert all(isinstance(result, ConflictError) for result in results if not isinstance(result, str)), results
            number, revision = made[0]
            assert backends[0].get("key") == (revision, document(f"{number} in {turn}"))

    def test_of_removals_at_once_one_gets_the_revision(self, subject: Subject) -> None:
        backends = [subject.open() for _ in range(4)]
        for _ in range(5):
            revision = backends[0].put("key", document("text"), ABSENT)
            results = together(*(lambda one=one: one.remove("key", ANYTHING) for one in backends))
            assert [result for result in results if result is not None] == [revision], results

    def test_capacity_is_part_of_the_change(self, subject: Subject) -> None:
        backends = [subject.open() for _ in range(4)]
        subject.fill(MAX_ENTRIES - 2)
        results = together(
            *(
                lambda number=number, one=one: one.put(f"new-{number}", document("x"), ABSENT)
                for number, one in enumerate(backends * 2)
            )
        )
        assert sum(isinstance(result, str) for result in results) == 2, results
        assert all(isinstance(result, StoreFullError) for result in results if not isinstance(result, str)), results
        assert len(backends[0].list()) == MAX_ENTRIES
        with pytest.raises(StoreFullError):
            backends[1].put("by-anything", document("x"), ANYTHING)
        with pytest.raises(ConflictError):
            backends[1].put("fill-0000", document("x"), ABSENT)
        backends[1].put("fill-0000", document("replaced"), ANYTHING)
        assert backends[2].remove("fill-0001", ANYTHING) is not None
        backends[3].put("there-is-room", document("x"), ABSENT)

    def test_a_listing_is_sorted_complete_and_follows(self, subject: Subject, backend: Backend) -> None:
        keys = ["b", "a", "C", "_", "-", "=", "a.b", "a-b", "10", "9", "z"]
        for key in keys:
            backend.put(key, serialize(f"about {key}", "text"), ABSENT)
        subject.plant("unreadable", b"\xff\xfe")
        for one in (backend, subject.open()):
            assert one.list() == sorted([Item(key, f"about {key}") for key in keys] + [Item("unreadable", UNREADABLE)])
        backend.put("a", serialize("another", "text"), ANYTHING)
        backend.remove("b", ANYTHING)
        found = dict(subject.open().list())
        assert found["a"] == "another"
        assert "b" not in found

    def test_no_document_is_missing_from_a_listing_while_others_come_and_go(self, subject: Subject) -> None:
        backends = [subject.open() for _ in range(2)]
        subject.fill(40)
        standing = {f"fill-{number:04}" for number in range(40)}

        def churn() -> None:
            for turn in range(20):
                backends[0].put(f"mid-{turn % 3}", document(str(turn)), ANYTHING)
                backends[0].remove(f"mid-{turn % 3}", ANYTHING)

        def look() -> None:
            for _ in range(10):
                assert standing <= {item.key for item in backends[1].list()}

        assert together(churn, look) == [None, None]

    def test_what_others_wrote_is_read_as_it_is(self, subject: Subject, backend: Backend) -> None:
        for text in (b"no header", b"\xff\xfe binary", b"", b"x" * 70_000):
            subject.plant("key", text)
            found = backend.get("key")
            assert found is not None
            assert found.document[:69_600] == text[:69_600]
            assert (len(found.document) > 69_600) == (len(text) > 69_600)

    def test_out_of_reach_is_said_plainly(self, subject: Subject) -> None:
        backend = subject.unreachable()
        for look in (backend.list, lambda: backend.get("key")):
            with pytest.raises(UnavailableError) as failed:
                look()
            assert "/" not in str(failed.value)
        with pytest.raises((UnavailableError, OutcomeUnknownError)) as put:
            backend.put("key", document("x"), ABSENT)
        with pytest.raises((UnavailableError, OutcomeUnknownError)) as removed:
            backend.remove("key", ANYTHING)
        assert "/" not in f"{put.value}{removed.value}"
