"""A backend that holds nothing and takes nothing: for memory that is disabled, or that nobody has made yet."""

from typing import NoReturn

from .contract import Expected, Info, Item, Stored
from .errors import UnavailableError

__all__ = ["Nowhere"]


class Nowhere:
    """An empty `Backend`. Each change is refused with `why`."""

    def __init__(self, why: str) -> None:
        self._why = why

    def info(self) -> Info:
        return Info("none", "")

    def list(self) -> list[Item]:
        return []

    def get(self, _key: str, *, after: str | None = None) -> Stored | None:  # noqa: ARG002
        return None

    def put(self, _key: str, _document: bytes, _expected: Expected) -> NoReturn:
        raise UnavailableError(self._why)

    def remove(self, _key: str, _expected: object) -> None:
        return None
