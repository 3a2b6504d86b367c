"""A connection to the broker of a NATS context: made, made again after a loss, and closed within bounds.

Each failure is a `ContextError` that says what is wrong and what to do. Secrets stay in `credentials`.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ...system.lockdown import DNS_PORT, look_up_names_over_tcp
from . import client as nats_client
from .context import ContextError, NatsContext
from .credentials import options_of
from .events import Events

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["close", "connect", "ports"]

CONNECT_SECONDS: Final = 9.0
"""The whole of `connect`: with binding it stays near the ten seconds in which a run must start or be refused."""

REFUSED_SECONDS: Final = 2.0
"""How long servers that refuse the connection are tried: enough for a broker that is being started beside us."""

CLOSE_SECONDS: Final = 1.5
"""How long `close` waits for a broker that does not answer."""

PING_SECONDS: Final = 3
"""Three unanswered pings and another server is tried: about ten seconds for a broker that froze."""


async def connect(context: NatsContext, *, locked: bool = False) -> "Client":
    """A connection to the context's broker that, once made, is made again for as long as it takes.

    `locked`: have names looked up over TCP, which is all that remains once the process has given up its rights.

    Publishing while disconnected fails instead of being buffered: a write that arrives after its caller was told
    of a failure would be a lie. The library's own log is silenced. Takes at most nine seconds; `close` closes it.

    Raises:
        ContextError: there is no such connection to be had; the text says why and what to do.
    """
    _silence()
    begun = asyncio.get_running_loop().time()
    hopeless: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
    seen: list[Exception] = []

    events = Events(context.name)

    async def noticed(error: Exception) -> None:
        events.refused(error)
        seen[:] = [error]
        late = asyncio.get_running_loop().time() - begun > REFUSED_SECONDS
        if not hopeless.done() and (_is_final(error) or (late and isinstance(error, OSError))):
            hopeless.set_result(error)

    options = options_of(context)
    over_tcp = locked and _is_named(context)
    if over_tcp:
        look_up_names_over_tcp()
    try:
        nats_client.load()
    except ImportError as error:
        raise ContextError(*nats_client.MISSING) from error
    client = nats_client.connection(bool(context.ca or context.cert or context.tls_first), options.pop("nkey", None))
    task: asyncio.Future[None] = asyncio.ensure_future(
        client.connect(
            servers=list(context.servers),
            name="memory-sidecar",
            error_cb=noticed,
            disconnected_cb=events.lost,
            reconnected_cb=events.back,
            connect_timeout=3,
            reconnect_time_wait=0.5,  # type: ignore[arg-type] # it is only slept
            max_reconnect_attempts=-1,
            ping_interval=PING_SECONDS,
            pending_size=0,
            **options,
        )
    )
    try:
        both: set[asyncio.Future[Any]] = {task, hopeless}
        await asyncio.wait(both, timeout=CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if task.done() and not task.cancelled() and task.exception() is None:
            hopeless.cancel()
            events.watch(client)
            return client
        cause = hopeless.result() if hopeless.done() else task.exception() if task.done() else None
        raise ContextError(*_why(context, cause or (seen[0] if seen else None), over_tcp)) from cause
    except BaseException:
        task.cancel()
        await asyncio.wait({task}, timeout=CLOSE_SECONDS)
        await close(client)
        raise


def ports(context: NatsContext, client: "Client") -> tuple[int, ...]:
    """The TCP ports that reconnecting needs: of all members of the cluster that are known, and of name servers."""
    found = {server.port for server in client.servers if server.port}
    if _is_named(context):
        found.add(DNS_PORT)
    return tuple(sorted(found))


def _is_named(context: NatsContext) -> bool:
    """Whether a server's address has to be looked up outside this machine."""
    return not all(_is_address(urlsplit(server).hostname or "") for server in context.servers)


def _is_address(host: str) -> bool:
    from ipaddress import ip_address

    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def _silence() -> None:
    library = logging.getLogger("nats")
    if library.propagate:
        library.addHandler(logging.NullHandler())
        library.propagate = False
        # What the library's way to start TLS makes asyncio say at the end of every such connection.
        logging.getLogger("asyncio").addFilter(lambda record: "eof_received() has no effect" not in record.msg)


async def close(client: "Client") -> None:
    """Close the connection; returns within two seconds, whatever the broker does."""
    closing = asyncio.create_task(client.close())
    await asyncio.wait({closing}, timeout=CLOSE_SECONDS)
    if not closing.done():
        closing.cancel()
        await asyncio.wait({closing}, timeout=0.2)
    if closing.done() and not closing.cancelled():
        closing.exception()  # A connection that fails to close is closed all the same.


def _is_final(error: Exception) -> bool:
    import ssl

    text = str(error).lower()
    return (
        isinstance(error, ssl.SSLError | ContextError)
        or "authorization" in text
        or "authentication" in text
        or "secure connection" in text
    )


def _why(context: NatsContext, cause: BaseException | None, over_tcp: bool) -> tuple[str, str]:
    """What is wrong with the connection, and what to do."""
    import socket
    import ssl

    text = str(cause).lower()
    name = f'the NATS context "{context.name}"'
    if isinstance(cause, ContextError):
        return cause.problem, cause.remedy
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"the certificate of the broker of {name} is not trusted: {cause.verify_message}",
            "set ca in the context",
        )
    if isinstance(cause, ssl.SSLError):
        return f"no TLS connection to the broker of {name} ({cause.reason})", "check cert, key and ca in the context"
    if "secure connection" in text:
        return f"the broker of {name} offers no TLS, which the context asks for", "check its url"
    if "authorization" in text or "authentication" in text:
        return f"the broker of {name} refused the credentials", f"check them with: nats --context {context.name} rtt"
    if isinstance(cause, socket.gaierror):
        how = (
            ", that the name server answers over TCP as the lockdown needs, or give an address, or use --lockdown off"
            if over_tcp
            else ""
        )
        return f"the host name of the broker of {name} cannot be looked up", f"check its url{how}"
    if isinstance(cause, ConnectionResetError):
        return f"the broker of {name} closes the connection", "look into its log for the reason, often max_connections"
    return (
        f"the broker of {name} cannot be reached",
        f"check that it runs, and its url with: nats --context {context.name} rtt",
    )
