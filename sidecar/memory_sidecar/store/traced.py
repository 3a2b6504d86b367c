"""Tells OpenTelemetry what is asked of a store. Loaded only while someone listens."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..observe.telemetry import Operation, Served
from .authority import Watch
from .errors import InvalidError, KeyExistsError, KeyNotFoundError, StaleError, StoreError, StoreFullError

__all__ = ["watch"]

_ANSWERS: Final = (InvalidError, KeyExistsError, KeyNotFoundError, StaleError, StoreFullError)
"""A store that works says these. Any other error means that it doesn't."""


def watch(served: Served) -> Watch:
    """For `Store.watched`: each operation is a span below that of the request."""

    @contextmanager
    def told(name: str) -> Iterator[Operation]:
        with served.operation(name) as operation:
            try:
                yield operation
            except _ANSWERS as error:
                operation.refused(error.reason if isinstance(error, StaleError) else error.code)
                raise
            except BaseException as error:
                operation.failed(error.code if isinstance(error, StoreError) else type(error).__name__)
                raise

    return told
