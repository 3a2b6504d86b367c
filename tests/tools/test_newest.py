"""What is kept of a listing: never told once the listing is another one, whoever asks."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory_sidecar.store.contract import Item
from memory_sidecar.store.scope import Scope
from memory_sidecar.tools.index import instructions
from memory_sidecar.tools.list import TOOL
from memory_sidecar.tools.newest import newest

ITEMS = st.lists(st.builds(Item, st.sampled_from("abc"), st.sampled_from(["one", "two"])), max_size=3)


@given(st.lists(ITEMS, min_size=1, max_size=6), st.booleans())
def test_every_answer_is_that_of_the_listing_at_hand(listings: list[list[Item]], same_list: bool) -> None:
    """Also where a store gives the same list each time, with other items in it."""
    given_out: list[Item] = []
    store: Any = SimpleNamespace(list=lambda: given_out)
    for items in listings:
        if same_list:
            given_out[:] = items
        else:
            given_out = list(items)
        told = TOOL.handle({}, store, Scope())
        assert told.structured == {"memories": [item._asdict() for item in items]}
        assert told.listed == len(items)
        shown = instructions(given_out, read_only=False).split("<memory-index>\n")[1].splitlines()[:-1]
        assert shown == ([f"- {item.key}: {item.description}" for item in items] or ["(no notes yet)"])


def test_it_is_made_once_for_listings_that_say_the_same_and_the_newest_alone_is_kept() -> None:
    made = []

    @newest
    def make(items: Sequence[Item]) -> list[str]:
        made.append([item.key for item in items])
        return made[-1]

    one, two = [Item("one", "words")], [Item("two", "words")]
    assert make(one) is make(list(one)) is make([Item("one", "words")])
    assert make(two) == ["two"]
    assert make(one) == ["one"]
    assert made == [["one"], ["two"], ["one"]]


def test_threads_that_ask_at_once_each_get_their_own() -> None:
    make = newest(lambda items: [item.key for item in items])
    wrong = []

    def ask(key: str) -> None:
        wrong.extend(key for _ in range(2000) if make([Item(key, "words")]) != [key])

    threads = [threading.Thread(target=ask, args=(key,)) for key in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
