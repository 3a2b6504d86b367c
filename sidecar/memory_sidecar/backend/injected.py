"""A store that a program brings itself, in place of a configured backend.

    sys.exit(serve_harness({"identity": "me"}, Injected(MyStore(), ports=(6379,))))

The store keeps the contract of `store.contract` (the suite in tests/contract checks it). It is called from several
threads, once the process has given up all rights but those named here.
"""

import json
from typing import NamedTuple

from ..config import Config
from ..store.store import Store
from ..system.digest import digest
from .choose import Running
from .opened import BackendError, Opened

__all__ = ["Injected", "open_injected"]


class Injected(NamedTuple):
    """The store, and the rights it needs: directories it writes in, TCP ports it connects to (None for none).

    Whatever needs another right (a connection by name, an import that writes) has to happen before.
    """

    store: Store
    directories: tuple[str, ...] = ()
    ports: tuple[int, ...] | None = None


def open_injected(injected: Injected, config: Config) -> Running:
    """Use the store, whatever the configuration leaves open.

    Raises:
        BackendError: the configuration names another backend than the store says it is.
    """
    info = injected.store.info()
    named = config.memory.backend
    if named is not None and named != info.backend:
        raise BackendError(
            f"harness.memory.backend names {named!r}, but the store brought along is {info.backend!r}; "
            "name that one, or leave backend out"
        )
    opened = Opened(injected.store, "injected:" + digest(json.dumps(info).encode()))
    return Running(opened, _nothing, _nothing, injected.directories, ports=injected.ports)


def _nothing() -> None:
    """The store's owner opens and closes what it needs."""
