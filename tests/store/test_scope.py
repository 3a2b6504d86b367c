"""A run's authority, and the changes that a journal must keep."""

from hypothesis import given
from hypothesis import strategies as st

from memory_sidecar.store.scope import Change, Scope

KEYS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), KEYS, st.sampled_from(["1", "2"]), st.sampled_from(["read", "created", "updated"])),
        st.tuples(st.just("drop"), KEYS, st.none(), st.sampled_from(["deleted", "stale"])),
    )
)


def test_a_new_scope_authorises_nothing() -> None:
    scope = Scope()
    assert scope.revision("key") is None
    assert scope.snapshot() == {}
    assert scope.drain() == []


def test_a_seeded_scope_holds_what_it_was_given_and_reports_no_change() -> None:
    seed = {"b": "2", "a": "1"}
    scope = Scope(seed)
    assert scope.snapshot() == {"a": "1", "b": "2"}
    assert list(scope.snapshot()) == ["a", "b"]
    assert scope.drain() == []
    scope.grant("c", "3", "read")
    assert seed == {"b": "2", "a": "1"}, "the caller's mapping is its own"


def test_a_snapshot_is_a_copy() -> None:
    scope = Scope({"a": "1"})
    scope.snapshot()["a"] = "2"
    assert scope.revision("a") == "1"


def test_changes_come_once_in_order() -> None:
    scope = Scope()
    scope.grant("a", "1", "created")
    scope.drop("a", "deleted")
    assert scope.drain() == [Change("a", "1", "created"), Change("a", None, "deleted")]
    assert scope.drain() == []


def test_reading_the_same_again_is_no_change_but_writing_it_is() -> None:
    scope = Scope({"a": "1"})
    scope.grant("a", "1", "read")
    assert scope.drain() == []
    scope.grant("a", "1", "updated")
    scope.grant("a", "2", "read")
    assert scope.drain() == [Change("a", "1", "updated"), Change("a", "2", "read")]


def test_a_refusal_is_recorded_even_without_authority() -> None:
    scope = Scope()
    scope.drop("a", "stale")
    assert scope.drain() == [Change("a", None, "stale")]


@given(STEPS)
def test_applying_the_changes_in_order_gives_the_scope(steps: list[tuple[str, str, str | None, str]]) -> None:
    scope = Scope({"a": "0"})
    replayed = {"a": "0"}
    for what, key, revision, why in steps:
        if what == "grant":
            assert revision is not None
            scope.grant(key, revision, why)  # type: ignore[arg-type]
        else:
            scope.drop(key, why)  # type: ignore[arg-type]
    for change in scope.drain():
        if change.revision is None:
            replayed.pop(change.key, None)
        else:
            replayed[change.key] = change.revision
    assert replayed == scope.snapshot()
