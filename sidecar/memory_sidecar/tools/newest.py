"""What is made of a listing is kept for as long as listings say the same: a thousand notes take time to write out."""

from collections.abc import Callable, Sequence

from ..hints import TypeVar
from ..store.contract import Item

__all__ = ["newest"]

T = TypeVar("T")


def newest(make: Callable[[Sequence[Item]], T]) -> Callable[[Sequence[Item]], T]:
    """`make`, which is asked again only for other items than the last time.

    One result is kept, whoever's it is: who holds equal items could make the same of them. Any thread may call it.
    """
    last: tuple[list[Item], T] | None = None

    def made(items: Sequence[Item]) -> T:
        nonlocal last
        kept = last
        # Compared by what they say: a store may give the same list with other items in it. Of items that are the very
        # same ones, this asks no more than that.
        if kept is None or kept[0] != items:
            kept = last = list(items), make(items)
        return kept[1]

    return made
