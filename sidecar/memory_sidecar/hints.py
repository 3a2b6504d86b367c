"""The words of type hints, without `typing`: loading that takes longer than any module of the product.

Type checkers see the standard ones, and while the program runs nobody asks what a hint means, but for two things: the
words that a `Literal` allows are `words(of)`, and `options` reads what the fields of a configuration are. Nothing else
of the product is imported here. What is launched imports these words from here and not from `typing`; where another
module needs that, as the broker's client does, both may be loaded.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, TypeGuard, TypeVar
else:
    from types import GenericAlias

    class _Word:
        """Stands alone as a hint, and takes anything in brackets."""

        __class_getitem__ = classmethod(GenericAlias)

    class Annotated(_Word): ...

    class Any(_Word): ...

    class ClassVar(_Word): ...

    class Final(_Word): ...

    class Literal(_Word): ...

    class Protocol(_Word): ...

    class TypeGuard(_Word): ...

    class TypeVar(_Word):
        def __init__(self, name: str, **_: object) -> None:
            self.__name__ = name

        def __or__(self, other: object) -> object:
            return self

        __ror__ = __or__


__all__ = [
    "TYPE_CHECKING",
    "Annotated",
    "Any",
    "ClassVar",
    "Final",
    "Literal",
    "Protocol",
    "TypeGuard",
    "TypeVar",
    "words",
]


def words(of: Any) -> tuple[Any, ...]:
    """What a `Literal` allows, in its order."""
    allowed: tuple[Any, ...] = of.__args__
    return allowed
