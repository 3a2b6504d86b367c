"""A backend that holds nothing and takes nothing: for memory that is disabled, or that nobody has made yet."""

from typing import NoReturn

from .contract import Expected, Info, Item, Stored
from .errors import UnavailableError

__all__ = ["Nowhere"]


class Nowhere:
    """An empty `Backend`. Each change is refused with `why`."""

    def __init__(self, why: str, info: Info | None = None) -> None:
        self._why = why
        self._info = Info("none", "") if info is None else info

    def info(self) -> Info:
        return self._info

    def list(self) -> list[Item]:
        return []

    def get(self, _key: str, *, after: str | None = None) -> Stored | None:  # noqa: ARG002
        return None

    def put(self, _key: str, _document: bytes, _expected: Expected) -> NoReturn:
        raise UnavailableError(self._why)

    def remove(self, _key: str, _expected: object) -> None:
        return None
