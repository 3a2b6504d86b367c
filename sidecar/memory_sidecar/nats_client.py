"""The client library: imported without what this product never uses, and with four of its habits mended.

Importing it as it is takes longer than the rest of a launch: it loads its JetStream classes, whose place
`backend.jetstream_api` takes here, and the reader of installed packages' metadata, only to learn its own version. Both
are left out while it is imported. Nothing is lost: whoever asks for the JetStream classes later gets the real ones.
"""

import os
import re
import sys
from enum import StrEnum
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["connection", "load"]


class _Header(StrEnum):
    """The only thing that the client itself takes from `nats.js`: how the library names these headers."""

    STATUS = "Status"
    DESCRIPTION = "Description"
    CONSUMER_STALLED = "Nats-Consumer-Stalled"


class _Api:
    Header = _Header

    def __getattr__(self, name: str) -> Any:
        return getattr(_real().api, name)


class _LeftOut(ModuleType):
    """Stands for `nats.js` until something else of it is asked for."""

    api = _Api()

    def __getattr__(self, name: str) -> Any:
        return getattr(_real(), name)


def _real() -> Any:
    if isinstance(sys.modules.get("nats.js"), _LeftOut):
        del sys.modules["nats.js"]
    return import_module("nats.js")  # which also takes its place in the package


def load() -> None:
    """Import the library. Before anything else does, or nothing is left out.

    Raises:
        ImportError: it is not installed.
    """
    if "nats.aio.client" in sys.modules:
        return
    left_out = _LeftOut("nats.js")
    sys.modules.setdefault("nats.js", left_out)
    metadata = "importlib.metadata" not in sys.modules
    if metadata:
        sys.modules["importlib.metadata"] = None  # type: ignore[assignment] # as if there were none
    try:
        import nats.aio.client as library
    finally:
        if metadata:
            del sys.modules["importlib.metadata"]
        if sys.modules.get("nats.js") is left_out:
            del sys.modules["nats.js"]
    package = sys.modules["nats"]
    if not hasattr(package, "js"):
        package.js = left_out  # type: ignore[attr-defined]
    if metadata:
        library.__version__ = _version(package.__path__[0]) or library.__version__


def _version(directory: str) -> str | None:
    """The version of the package in `directory`, by what the installer wrote beside it; the broker shows it."""
    names = "\n".join(os.listdir(os.path.dirname(directory)))
    found = re.search(r"^nats_py-(\d[\w.]*)\.dist-info$", names, re.MULTILINE)
    return found[1] if found else None


def connection(tls: bool, nkey: str | None) -> "Client":
    """A client that is not connected yet. `tls`: plain text is out of the question. `nkey`: the public key to log in
    with; the library takes only files of a format of its own."""
    import nats.errors
    from nats.aio.client import Client, Srv

    class Connection(Client):
        def __init__(self) -> None:
            super().__init__()
            self._public_nkey = nkey

        async def _process_err(self, err_msg: str) -> None:
            # The library closes for good on any error from the server: an expired user, a full server, a reload.
            # Only what concerns a single subject, or is a reason to reconnect already, goes its way.
            text = str(err_msg).lower()
            if "permissions violation" in text or "stale connection" in text:
                await super()._process_err(err_msg)
            else:
                await self._process_op_err(nats.errors.Error(f"nats: {err_msg}"))

        async def _connect_to_server(self, s: Srv) -> None:
            # A connection that failed halfway would stay open beside the next one.
            if self._transport:
                self._transport.close()  # type: ignore[no-untyped-call]
            await super()._connect_to_server(s)

        async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
            # The library uses TLS only where the server insists on it.
            if self._wants_tls() and info.get("tls_available"):
                info["tls_required"] = True
            await super()._process_info(info, initial_connection)

        def _connect_command(self) -> bytes:
            # The next line carries the credentials.
            if self._wants_tls() and not self._server_info.get("tls_required"):
                raise nats.errors.SecureConnWantedError
            return super()._connect_command()

        def _wants_tls(self) -> bool:
            return tls or (self._current_server is not None and self._current_server.uri.scheme == "tls")

    return Connection()
