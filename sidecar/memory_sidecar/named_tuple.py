"""Named tuples, made quickly: what `typing.NamedTuple` makes, at a tenth of the time to define one.

The standard one writes a function as text and compiles it for each class. A launch defines some forty of them, which
took a twelfth of it. Type checkers see the standard one. Nothing but the words of hints is imported here.
"""

from .hints import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from _collections import _tuplegetter  # reads a field in a third of a property's time, as in the standard one

    class _Fields(type):
        """Makes the annotated names of a class its fields, in their order."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            fields = tuple(namespace.get("__annotations__", ()))
            namespace["_fields"] = namespace["__match_args__"] = fields
            namespace["_field_defaults"] = {field: namespace[field] for field in fields if field in namespace}
            namespace["__slots__"] = ()
            for place, field in enumerate(fields):
                namespace[field] = _tuplegetter(place, None)
            return type.__new__(cls, name, bases, namespace)

    class NamedTuple(tuple, metaclass=_Fields):
        """The base of a class whose annotated names are the fields of a tuple."""

        def __new__(cls, *values: Any, **named: Any) -> Any:
            if named or len(values) != len(cls._fields):
                values = _complete(cls, values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _make(cls, values: Any) -> Any:
            return cls(*values)

        def _replace(self, **named: Any) -> Any:
            return type(self)(**{**self._asdict(), **named})

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({fields})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    def _complete(cls: Any, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All values in the order of the fields.

        Raises:
            TypeError: one is missing, given twice or unknown, as of any call.
        """
        complete = list(values)
        for field in cls._fields[len(values) :]:
            if field in named:
                complete.append(named.pop(field))
            elif field in cls._field_defaults:
                complete.append(cls._field_defaults[field])
        if named or len(complete) != len(cls._fields):
            raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
        return tuple(complete)
