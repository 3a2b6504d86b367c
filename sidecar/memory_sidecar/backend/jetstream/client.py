"""The client library: imported without what this product never uses, and with six of its habits mended.

Importing it as it is takes longer than the rest of a launch. It loads its JetStream classes, whose place
`api` takes here; the reader of installed packages' metadata, only to learn its own version; `uuid`,
for a way to subscribe that is not used here; `ipaddress`, for TLS; OpenSSL's hashes, through `secrets`, of which it
takes random numbers; and, through asyncio, the TLS library, which a connection in plain text never calls,
`subprocess`, and what shows source code and tracebacks. While it is imported, stand-ins take their places. Nothing is
lost: a stand-in that is asked for anything loads the real module and hands that on.
"""

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from importlib import import_module
from types import FunctionType, GeneratorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from ...system.digest import compare_digest

if TYPE_CHECKING:
    from nats.aio.client import Client, Srv

__all__ = ["MISSING", "connection", "load"]


class _Header(StrEnum):
    """The only thing that the client itself takes from `nats.js`: how the library names these headers."""

    STATUS = "Status"
    DESCRIPTION = "Description"
    CONSUMER_STALLED = "Nats-Consumer-Stalled"


class _NoSocket:
    """What no socket is: while the TLS library isn't loaded, none can be one of its own."""


class _StandIn(ModuleType):
    """Stands for a module until something is asked for that it hasn't."""

    def __getattr__(self, name: str) -> Any:
        if self.__name__ == "ssl" and name == "SSLSocket" and not _is_loaded("ssl"):
            return _NoSocket  # asyncio asks it of every socket that it connects
        if name == "__path__":  # asked by every import of a name from it
            raise AttributeError(name)
        if isinstance(sys.modules.get(self.__name__), _StandIn):
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _is_coroutine_function(given: object) -> bool:
    """As `inspect` says it, which the library asks of each callback; functions and methods don't need it loaded."""
    function = given.__func__ if isinstance(given, MethodType) else given
    if isinstance(function, FunctionType):
        return bool(function.__code__.co_flags & _CO_COROUTINE)
    return bool(import_module("inspect").iscoroutinefunction(given))


_CO_COROUTINE: Final = 0x80  # of a code object whose function is an `async def`

_LEFT_OUT: Final = (
    *("nats.js", "nats.js.api", "uuid", "hmac", "ipaddress"),
    *("ssl", "asyncio.sslproto", "subprocess", "inspect", "traceback"),
)

_TAKEN: Final[Mapping[str, Mapping[str, object]]] = {
    "inspect": {"isgenerator": lambda it: isinstance(it, GeneratorType), "iscoroutinefunction": _is_coroutine_function},
    "traceback": {"extract_stack": lambda *given, **named: import_module("traceback").extract_stack(*given, **named)},
    "hmac": {"compare_digest": compare_digest},
    "subprocess": {"PIPE": -1, "STDOUT": -2, "DEVNULL": -3},
    "uuid": {"uuid4": lambda: import_module("uuid").uuid4()},
}
"""What is taken of them at once, while the library is imported."""

_UNWANTED: Final = ("importlib.metadata", "aiohttp", "fast_mail_parser")
"""What the library can do without, and then does: an HTTP stack for web sockets, where somebody installed one, would
take longer than all the rest."""


MISSING: Final = ("the jetstream backend needs nats-py", 'install it with: pip install "memory-sidecar[jetstream]"')
"""What is wrong where `load` finds no library, and what mends it."""


def _is_loaded(name: str) -> bool:
    return not isinstance(sys.modules.get(name), _StandIn | None)


def load() -> None:
    """Import the library, and asyncio. Before anything else does, or less is left out.

    Raises:
        ImportError: it is not installed.
    """
    if "nats.aio.client" in sys.modules:
        return
    stand_ins = {name: _StandIn(name) for name in _LEFT_OUT if name not in sys.modules}
    if "asyncio" in sys.modules:
        stand_ins.pop("ssl", None)
        stand_ins.pop("asyncio.sslproto", None)
    if "nats.js" in stand_ins:
        stand_ins["nats.js.api"].Header = _Header  # type: ignore[attr-defined]
        stand_ins["nats.js"].api = stand_ins["nats.js.api"]  # type: ignore[attr-defined]
    for name, taken in _TAKEN.items():
        if name in stand_ins:
            vars(stand_ins[name]).update(taken)
    unwanted = [name for name in _UNWANTED if name not in sys.modules]
    sys.modules.update(stand_ins)
    sys.modules.update(dict.fromkeys(unwanted))  # type: ignore[arg-type] # as if there were none
    try:
        import nats.aio.client as library
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
        for name in unwanted:
            del sys.modules[name]
    package = sys.modules["nats"]
    if not hasattr(package, "js"):
        package.js = stand_ins["nats.js"]  # type: ignore[attr-defined]
    if "importlib.metadata" in unwanted:
        library.__version__ = _version(package.__path__[0]) or library.__version__


def _version(directory: str) -> str | None:
    """The version of the package in `directory`, by what the installer wrote beside it; the broker shows it."""
    names = "\n".join(os.listdir(os.path.dirname(directory)))
    found = re.search(r"^nats_py-(\d[\w.]*)\.dist-info$", names, re.MULTILINE)
    return found[1] if found else None


def _parsed(raw: bytes) -> dict[str, str]:
    """The library looks at each character of each name by itself, which is a third of the time of a listing."""
    found = {}
    for line in raw.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        key = name.strip().decode("ascii", "replace")
        # A name with white space in it, or with anything that is not ASCII, is none.
        if colon and key.isascii() and key.split() == ([key] if key else []):
            found[key] = value.strip().decode("utf-8", "replace")
    return found


_INNER_PARTS: Final = (
    *("_process_err", "_process_op_err", "_connect_to_server", "_attempt_reconnect", "_process_info"),
    *("_connect_command", "_parse_header_lines", "_process_headers", "_process_msg", "_build_message"),
    *("_flush_pending", "_init_request_sub", "_pending", "_pending_data_size", "_resp_sub_prefix", "_sid"),
    *("_transport", "_server_info", "_current_server", "_public_nkey"),
)
"""What the library doesn't promise to keep, and what is mended rests on: looked for before each connection, since a
habit that is mended in vain would show only when it costs something."""


_PIECE: Final = 64 * 1024
"""Bytes; half of what the allocator maps by itself."""


def _read_in_pieces(transport: Any) -> None:
    """asyncio reserves 256 KiB for each read, which the allocator asks of the system anew each time and gives back
    (see `system.allocator`): two system calls and new pages for every answer. A smaller piece comes from the heap."""
    reading = getattr(getattr(transport, "_io_writer", None), "transport", None)
    if reading is not None and hasattr(reading, "max_size"):
        reading.max_size = _PIECE


def _refuse_other_versions() -> None:
    from nats.aio import client as library

    from .context import ContextError  # loads what the library is first loaded without

    if not all(hasattr(library.Client(), name) for name in _INNER_PARTS):
        raise ContextError(
            f"the jetstream backend does not work with nats-py {library.__version__}",
            'install a version that it works with: pip install "memory-sidecar[jetstream]"',
        )


def connection(tls: bool, nkey: str | None) -> "Client":
    """A client that is not connected yet. `tls`: plain text is out of the question. `nkey`: the public key to log in
    with; the library takes only files of a format of its own.

    Raises:
        ContextError: the library is of a version whose inner parts are others than those that are mended here.
    """
    import asyncio

    import nats.errors

    from .requests import Requests

    _refuse_other_versions()

    class Connection(Requests):
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

        async def _connect_to_server(self, s: "Srv") -> None:
            # A connection that failed halfway would stay open beside the next one.
            if self._transport:
                self._transport.close()  # type: ignore[no-untyped-call]
            await super()._connect_to_server(s)
            _read_in_pieces(self._transport)

        async def _attempt_reconnect(self) -> None:
            # Where a connection is lost again while it is made anew, the library tells twice that its attempt ended.
            with suppress(asyncio.InvalidStateError):
                await super()._attempt_reconnect()

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

        _parse_header_lines = staticmethod(_parsed)

        def _wants_tls(self) -> bool:
            return tls or (self._current_server is not None and self._current_server.uri.scheme == "tls")

    return Connection()
