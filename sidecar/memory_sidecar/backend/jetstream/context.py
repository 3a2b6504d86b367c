"""The operator's `nats context` files: read as the `nats` command writes them, and a connection made from one.

What a context asks for and this product cannot do is refused by name; nothing is quietly left out, for a connection
without the proxy or the certificate that somebody configured is not the one they meant. Secrets are kept out of
every text, representation and error here.
"""

import asyncio
import base64
import binascii
import dataclasses
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from ...remedy import RemedyError
from ...system import files
from ...system.lockdown import DNS_PORT, look_up_names_over_tcp
from . import client as nats_client

if TYPE_CHECKING:
    import ssl

    from nats.aio.client import Client

__all__ = ["ContextError", "NatsContext", "chosen", "close", "connect", "load", "parse", "ports"]

CONNECT_SECONDS: Final = 9.0
"""The whole of `connect`: with binding it stays near the ten seconds in which a run must start or be refused."""

REFUSED_SECONDS: Final = 2.0
"""How long servers that refuse the connection are tried: enough for a broker that is being started beside us."""

CLOSE_SECONDS: Final = 1.5
"""How long `close` waits for a broker that does not answer."""

PING_SECONDS: Final = 3
"""Three unanswered pings and another server is tried: about ten seconds for a broker that froze."""

MAX_FILE_BYTES: Final = 1024 * 1024

# The first of these that is set names the user to the broker, in the order in which the `nats` command looks.
_IDENTITIES: Final = ("user", "creds", "nkey", "user_jwt")
_PATHS: Final = ("creds", "nkey", "cert", "key", "ca")
_SUPPORTED: Final = frozenset(
    {
        *("url", "user", "password", "token", "creds", "nkey", "user_jwt", "user_seed", "cert", "key", "ca"),
        *("tls_first", "jetstream_domain", "jetstream_api_prefix", "inbox_prefix"),
    }
)
_IRRELEVANT: Final = frozenset({"name", "description", "color_scheme", "jetstream_event_prefix"})
"""Set for people or for other commands; they change nothing about a connection."""

_NAME: Final = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=@ -]{0,127}")
_SUBJECT: Final = re.compile(r"[A-Za-z0-9_$-]+(?:\.[A-Za-z0-9_$-]+)*")
_SEED: Final = re.compile(rb"(?<![A-Z2-7])SU[A-Z2-7]{56}(?![A-Z2-7])")
_JWT: Final = re.compile(rb"-----BEGIN NATS USER JWT-----\s+(\S+)\s+-+END NATS USER JWT-+")
_DEFAULT_URL: Final = "nats://127.0.0.1:4222"


class ContextError(RemedyError):
    """A context cannot be used. Neither problem nor remedy holds a secret."""


@dataclasses.dataclass(frozen=True)
class NatsContext:
    """One context. What may be secret is left out of its representation."""

    name: str
    servers: tuple[str, ...] = (_DEFAULT_URL,)
    """`scheme://host:port` each; what a URL said about the user went to the fields below."""
    user: str = dataclasses.field(default="", repr=False)
    password: str = dataclasses.field(default="", repr=False)
    token: str = dataclasses.field(default="", repr=False)
    creds: str = dataclasses.field(default="", repr=False)
    nkey: str = dataclasses.field(default="", repr=False)
    user_jwt: str = dataclasses.field(default="", repr=False)
    user_seed: str = dataclasses.field(default="", repr=False)
    cert: str = ""
    key: str = ""
    ca: str = ""
    tls_first: bool = False
    jetstream_domain: str = ""
    jetstream_api_prefix: str = ""
    inbox_prefix: str = ""


def load(name: str | None = None, environ: Mapping[str, str] = os.environ) -> NatsContext:
    """The context `name`, else the one in NATS_CONTEXT, else the one that `nats context select` chose.

    Raises:
        ContextError: there is none, or it cannot be read or used.
    """
    directory = _directory(environ)
    name = chosen(name, environ)
    if not name:
        raise ContextError(
            "no NATS context is chosen",
            "set nats_context to one that `nats context ls` shows, or make one with: "
            "nats context add NAME --server=URL --select",
        )
    if _NAME.fullmatch(name) is None or ".." in name:
        raise ContextError(f"nats_context {name!r:.60} is not a legal name", "use one that `nats context ls` shows")
    try:
        text = _read(os.path.join(directory, "context", f"{name}.json"))
    except FileNotFoundError as error:
        raise ContextError(
            f'the NATS context "{name}" does not exist', f"make it with: nats context add {name} --server=URL"
        ) from error
    except OSError as error:
        raise ContextError(
            f'the NATS context "{name}" cannot be read: {error.strerror}', "check the permissions of its file"
        ) from error
    return parse(text, name, environ)


def chosen(name: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The name that `load(name)` uses, None if there is none. Does not look whether that context exists."""
    return name or environ.get("NATS_CONTEXT") or _selected(_directory(environ)) or None


def parse(text: bytes, name: str, environ: Mapping[str, str] = os.environ) -> NatsContext:
    """Decode a context file. Reads no other file.

    Raises:
        ContextError: it is not what the `nats` command writes, or asks for something unsupported.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        # The cause would quote the file, secrets included.
        raise ContextError(f'the NATS context "{name}" is not valid JSON', _mend(name)) from None
    if not isinstance(found, dict):
        raise ContextError(f'the NATS context "{name}" is not a JSON object', _mend(name))

    def refuse(what: str, remedy: str) -> ContextError:
        return ContextError(f'the NATS context "{name}" {what}', remedy)

    values: dict[str, Any] = {}
    for field, value in found.items():
        if field in _IRRELEVANT or value in ("", None, False, []):
            continue
        if field not in _SUPPORTED:
            raise refuse(f"sets {str(field)!r:.60}, which is not supported here", "use a context without it")
        if not isinstance(value, bool if field == "tls_first" else str):
            kind = "true or false" if field == "tls_first" else "text"
            raise refuse(f"has a {field} that is not {kind}", _mend(name))
        values[field] = value
    for field in values.keys() & {"user", "password", "token", "creds", "nkey", "user_jwt", "user_seed"}:
        values[field] = _resolved(values[field], field, environ, refuse)
    for field in values.keys() & set(_PATHS):
        values[field] = _expanded(values[field], environ)
    _take_servers(values, name, refuse)
    _check_consistent(values, refuse)
    return NatsContext(name=name, **values)


def _resolved(value: str, field: str, environ: Mapping[str, str], refuse: Callable[[str, str], ContextError]) -> str:
    """A value that newer versions of the command may keep elsewhere: env://NAME and file://PATH."""
    scheme = value.partition(":")[0].lower()
    if scheme == "env":
        content = environ.get(value[len("env://") :])
        if not content:
            raise refuse(f"takes its {field} from an environment variable that is not set", "set it")
        if field in _PATHS:
            raise refuse(f"has the content of its {field} in the environment", "name a file instead")
        return content
    if scheme == "file" and field in _PATHS:
        return value[len("file://") :]
    if scheme in ("op", "nsc", "data", "file") and value[len(scheme) + 1 :].startswith(("//", ",", ";")):
        raise refuse(f"has a {field} of the kind {scheme}:, which is not supported here", "name a file instead")
    return value


def _expanded(path: str, environ: Mapping[str, str]) -> str:
    path = re.sub(r"\$(?:(\w+)|\{(\w+)\})", lambda match: environ.get(match[1] or match[2], ""), path)
    if path == "~" or path.startswith("~/"):
        path = (environ.get("HOME") or os.path.expanduser("~")) + path[1:]
    return path


def _mend(name: str) -> str:
    return f"mend it with: nats context edit {name}"


def _take_servers(values: dict[str, Any], name: str, refuse: Callable[[str, str], ContextError]) -> None:
    """Split `url` into servers, and move what it says about the user to where it is not shown."""
    servers = []
    users = set()
    for url in str(values.pop("url", _DEFAULT_URL)).split(","):
        url = url.strip()
        if "://" not in url:
            url = f"nats://{url}"
        try:
            parts = urlsplit(url)
            port, host = parts.port or 4222, parts.hostname
        except ValueError:
            raise refuse("has a url that is not one", _mend(name)) from None
        if parts.scheme not in ("nats", "tls"):
            raise refuse(
                "has a url of an unsupported kind (only nats:// and tls:// are)", "use one of the broker's others"
            )
        if not host or parts.path.strip("/") or parts.query or parts.fragment:
            raise refuse("has a url that is not scheme://host:port", _mend(name))
        if parts.username is not None:
            users.add((unquote(parts.username), None if parts.password is None else unquote(parts.password)))
        servers.append(f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    values["servers"] = tuple(servers)
    if len(users) > 1:
        raise refuse("names different users in its urls", "use one user for all of them")
    for user, password in users:
        if password is None:
            values["token"] = user
        else:
            values |= {"user": user, "password": password}


def _check_consistent(values: Mapping[str, Any], refuse: Callable[[str, str], ContextError]) -> None:
    identities = [field for field in _IDENTITIES if values.get(field)]
    if len(identities) > 1:
        raise refuse(f"sets both {identities[0]} and {identities[1]}", "keep one of them")
    if bool(values.get("cert")) != bool(values.get("key")):
        raise refuse("sets only one of cert and key", "set both")
    if values.get("user_seed") and not values.get("user_jwt"):
        raise refuse("sets user_seed without user_jwt", "set both")
    if values.get("jetstream_domain") and values.get("jetstream_api_prefix"):
        raise refuse("sets both jetstream_domain and jetstream_api_prefix", "keep one of them")
    for field in ("jetstream_domain", "jetstream_api_prefix", "inbox_prefix"):
        value = str(values.get(field, ""))
        if value and (_SUBJECT.fullmatch(value) is None or (field == "jetstream_domain" and "." in value)):
            raise refuse(f"has a {field} that cannot be part of a subject", "use letters, digits, _ and -")


def _directory(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "nats")


def _selected(directory: str) -> str:
    try:
        return _read(os.path.join(directory, "context.txt")).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _read(path: str) -> bytes:
    return files.read_regular(path, MAX_FILE_BYTES)


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

    async def noticed(error: Exception) -> None:
        seen[:] = [error]
        late = asyncio.get_running_loop().time() - begun > REFUSED_SECONDS
        if not hopeless.done() and (_is_final(error) or (late and isinstance(error, OSError))):
            hopeless.set_result(error)

    options = _options(context)
    over_tcp = locked and _is_named(context)
    if over_tcp:
        look_up_names_over_tcp()
    try:
        nats_client.load()
    except ImportError as error:
        raise ContextError(
            "the jetstream backend needs nats-py", 'install it with: pip install "memory-sidecar[jetstream]"'
        ) from error
    client = nats_client.connection(bool(context.ca or context.cert or context.tls_first), options.pop("nkey", None))
    task: asyncio.Future[None] = asyncio.ensure_future(
        client.connect(
            servers=list(context.servers),
            name="memory-sidecar",
            error_cb=noticed,
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


def _options(context: NatsContext) -> dict[str, Any]:
    """The library's arguments for a context. Reads the files that it names.

    Raises:
        ContextError: a file cannot be read or does not hold what it should.
    """
    options: dict[str, Any] = {}
    if context.user:
        options |= {"user": context.user, "password": context.password}
    elif context.creds:
        options |= _signing(_Kept(context, "creds", context.creds), with_jwt=True)
    elif context.nkey:
        seed = _Kept(context, "nkey", context.nkey)
        options |= _signing(seed, with_jwt=False)
    elif context.user_jwt:
        options |= {
            "user_jwt_cb": lambda: bytearray(context.user_jwt.encode()),
            # Without a seed it is a bearer's token, and the broker asks for no signature.
            "signature_cb": _signer(context.user_seed.encode) if context.user_seed else lambda _: b"",
        }
    if context.token:
        options["token"] = context.token
    if context.inbox_prefix:
        options["inbox_prefix"] = context.inbox_prefix
    if context.tls_first:
        options["tls_handshake_first"] = True
    if context.ca or context.cert:
        options["tls"] = _tls(context)
    return options


class _Kept:
    """The content of a file, read anew on each use so that rotated credentials are taken up; what was read before
    serves when it cannot be read any more."""

    def __init__(self, context: NatsContext, field: str, path: str) -> None:
        self._path = path
        try:
            self._content = _read(path)
        except OSError as error:
            raise ContextError(
                f'the {field} file of the NATS context "{context.name}" cannot be read: {error.strerror}',
                "check its path and permissions",
            ) from error
        self.problem = f'the {field} file of the NATS context "{context.name}" holds no'

    def __call__(self) -> bytes:
        try:
            content = _read(self._path)
        except OSError:
            return self._content
        try:
            _private_key(content)
        except ContextError:
            return self._content  # Caught while it is being replaced.
        self._content = content
        return content


def _signing(kept: _Kept, *, with_jwt: bool) -> dict[str, Any]:
    if _SEED.search(kept()) is None:
        raise ContextError(f"{kept.problem} nkey seed", "name the file that holds it")
    options: dict[str, Any] = {"signature_cb": _signer(kept)}
    if not with_jwt:
        options["nkey"] = _public_key(kept())
    else:
        if _JWT.search(kept()) is None:
            raise ContextError(f"{kept.problem} user JWT", "name a credentials file")

        def jwt() -> bytearray:
            found = _JWT.search(kept())
            return bytearray(found[1] if found else b"")

        options["user_jwt_cb"] = jwt
    return options


def _private_key(content: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise ContextError(
            "signing with an nkey needs the package cryptography",
            'install it with: pip install "memory-sidecar[jetstream]"',
        ) from error
    found = _SEED.search(content)
    if found is None:
        raise ContextError("an nkey seed is missing", "restore the file that holds it")
    # Two bytes of kind, the seed, two bytes of checksum.
    raw = base64.b32decode(found[0] + b"======")
    if binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        raise ContextError("an nkey seed is damaged (its checksum does not match)", "restore the file")
    return Ed25519PrivateKey.from_private_bytes(raw[2:34])


def _public_key(content: bytes) -> str:
    raw = bytes([20 << 3]) + _private_key(content).public_key().public_bytes_raw()
    raw += binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw).decode().rstrip("=")


def _signer(seed: Callable[[], bytes]) -> Callable[[str], bytes]:
    def sign(nonce: str) -> bytes:
        signature: bytes = _private_key(seed()).sign(nonce.encode())
        return base64.b64encode(signature)

    return sign


def _tls(context: NatsContext) -> "ssl.SSLContext":
    import ssl

    def encrypted() -> str:
        raise ContextError(f'the key of the NATS context "{context.name}" is encrypted', "name one that is not")

    field = "ca"
    try:
        tls = ssl.create_default_context(cafile=context.ca or None)
        if context.cert:
            field = "cert or key"
            # Without a callback OpenSSL would ask the terminal for a password.
            tls.load_cert_chain(context.cert, context.key, password=encrypted)
    except (OSError, ssl.SSLError) as error:
        raise ContextError(
            f'the {field} file of the NATS context "{context.name}" cannot be used: '
            f"{error.strerror or 'it is not PEM'}",
            "check its path and content",
        ) from error
    return tls


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
