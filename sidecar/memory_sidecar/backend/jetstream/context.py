"""The operator's `nats context` files, read as the `nats` command writes them. A connection is made in `connect`.

What a context asks for and this product cannot do is refused by name; nothing is quietly left out, for a connection
without the proxy or the certificate that somebody configured is not the one they meant. Secrets are kept out of
every text, representation and error here.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ...remedy import RemedyError
from ...system import files

__all__ = ["ContextError", "NatsContext", "chosen", "load", "parse", "path_of", "read_file"]

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
        text = read_file(path_of(name, environ))
    except FileNotFoundError as error:
        raise ContextError(
            f'the NATS context "{name}" does not exist', f"make it with: nats context add {name} --server=URL"
        ) from error
    except OSError as error:
        raise ContextError(
            f'the NATS context "{name}" cannot be read: {error.strerror}', "check the permissions of its file"
        ) from error
    return parse(text, name, environ)


def path_of(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """The file of the context `name`."""
    return os.path.join(_directory(environ), "context", f"{name}.json")


def chosen(name: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The name that `load(name)` uses, None if there is none. Does not look whether that context exists."""
    return name or environ.get("NATS_CONTEXT") or _selected(_directory(environ)) or None


def is_by_chance(name: str | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether nobody named the context, so that it is whichever the user's shell selected last."""
    return not name and not environ.get("NATS_CONTEXT")


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
        return read_file(os.path.join(directory, "context.txt")).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def read_file(path: str) -> bytes:
    """The content of a file that belongs to a context, up to 1 MiB. A FIFO or a device is an `OSError`."""
    return files.read_regular(path, MAX_FILE_BYTES)
