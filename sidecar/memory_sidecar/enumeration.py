"""Enumerations, made quickly: what the product uses of `enum.Enum`, without loading that module.

Loading `enum` took a fifteenth of a launch, for five enumerations of two or three members. Type checkers see the
standard one. A member is one object that nothing else equals, has a name and a value, and cannot be made anew.
"""

from .hints import TYPE_CHECKING, Any

__all__ = ["Enum"]

if TYPE_CHECKING:
    from enum import Enum
else:

    class _Members(type):
        """Makes the assigned names of a class its members, in their order."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            values = {member: value for member, value in namespace.items() if not member.startswith("_")}
            made = type.__new__(cls, name, bases, {each: namespace[each] for each in namespace if each not in values})
            made._members_ = []
            for member, value in values.items():
                one = object.__new__(made)
                one.name, one.value = member, value
                made._members_.append(one)
                setattr(made, member, one)
            return made

        def __iter__(cls) -> Any:
            return iter(cls._members_)

        def __call__(cls, *_: Any) -> Any:
            raise TypeError(f"{cls.__name__} has the members that are written there, and no other is made")

    class Enum(metaclass=_Members):
        """The base of a class whose assigned names are its members."""

        def __repr__(self) -> str:
            return f"{type(self).__name__}.{self.name}"

        def __copy__(self) -> Any:
            return self

        def __deepcopy__(self, _: Any) -> Any:
            return self
