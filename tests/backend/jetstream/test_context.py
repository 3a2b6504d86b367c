"""Operator contexts: what is read from them, what is refused, and connections to real brokers made from them."""

import asyncio
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.async_store import AsyncStore
from tests.support.broker import Broker, add_bucket, api, connected, run_broker, until
from tests.support.certificates import Authority
from tests.support.nkeys import KeyPair, credentials, encode_jwt, operator_config
from tests.support.ports import free_port

from memory_sidecar.backend.jetstream import connect as nats_connect
from memory_sidecar.backend.jetstream import context as nats_context
from memory_sidecar.backend.jetstream.bucket import open_jetstream
from memory_sidecar.backend.jetstream.context import ContextError, load, parse
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.opened import BackendError
from memory_sidecar.store.contract import Entry
from memory_sidecar.store.errors import StoreError, UnavailableError

SECRET = "hunter2-S3CR3T"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration directory, in force."""
    directory = tmp_path / "config"
    (directory / "nats" / "context").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory))
    monkeypatch.delenv("NATS_CONTEXT", raising=False)
    return directory


# What `nats context add` of the current command writes: every field, mostly empty.
WRITTEN: dict[str, Any] = {
    "description": "production",
    "url": "nats://127.0.0.1:4222",
    "socks_proxy": "",
    "token": "",
    "user": "",
    "password": "",
    "creds": "",
    "nkey": "",
    "cert": "",
    "key": "",
    "ca": "",
    "nsc": "",
    "jetstream_domain": "",
    "jetstream_api_prefix": "",
    "jetstream_event_prefix": "",
    "inbox_prefix": "",
    "user_jwt": "",
    "user_seed": "",
    "color_scheme": "blue",
    "tls_first": False,
    "windows_cert_store": "",
    "windows_cert_match_by": "",
    "windows_cert_match": "",
    "windows_ca_certs_match": None,
}


def save(home: Path, name: str, **fields: Any) -> None:
    (home / "nats" / "context" / f"{name}.json").write_text(json.dumps(WRITTEN | fields))


def of(**fields: Any) -> nats_context.NatsContext:
    return parse(json.dumps(WRITTEN | fields).encode(), "c", {"HOME": "/home/me", "CERTS": "/certs", "TOKEN": SECRET})


# Finding a context


def test_named_context_wins_over_the_environment_and_that_over_the_selected_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        save(home, name)
    with pytest.raises(ContextError, match="no NATS context is chosen"):
        load()
    (home / "nats" / "context.txt").write_text("three\n")
    assert load().name == "three"
    monkeypatch.setenv("NATS_CONTEXT", "two")
    assert load().name == "two"
    assert load("one").name == "one"


def test_home_directory_stands_in_for_xdg(tmp_path: Path) -> None:
    directory = tmp_path / ".config" / "nats" / "context"
    directory.mkdir(parents=True)
    (directory / "c.json").write_text("{}")
    context = load("c", {"HOME": str(tmp_path)})
    assert context.servers == ("nats://127.0.0.1:4222",)


@pytest.mark.parametrize("name", ["../c", "a/b", "..", ".", ".c", "a..b", "c\n", "/etc/passwd", "a\0b", "é", "c" * 200])
def test_name_cannot_leave_the_directory(home: Path, name: str) -> None:
    (home / "nats" / "c.json").write_text("{}")
    with pytest.raises(ContextError, match="not a legal name"):
        load(name)


def test_missing_context_is_told_with_the_command_that_makes_it(home: Path) -> None:
    with pytest.raises(ContextError, match=r'"c" does not exist; make it with: nats context add c'):
        load("c")


@pytest.mark.parametrize(
    "text", [b"", b"not json " + SECRET.encode(), b"[]", b"\xff", b'{"password": "' + SECRET.encode(), b"[" * 9000]
)
def test_broken_file_is_told_without_quoting_it(text: bytes) -> None:
    with pytest.raises(ContextError, match="mend it") as refused:
        parse(text, "c")
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


# Reading one


def test_everything_supported_is_read() -> None:
    context = of(
        url="nats://a:4222, tls://b, c:99",
        token="t",
        creds="~/me.creds",
        cert="$CERTS/cert.pem",
        key="${CERTS}/key.pem",
        ca="/ca.pem",
        tls_first=True,
        jetstream_domain="hub",
        inbox_prefix="_INBOX.me",
    )
    assert context.servers == ("nats://a:4222", "tls://b:4222", "nats://c:99")
    assert (context.creds, context.cert, context.key) == ("/home/me/me.creds", "/certs/cert.pem", "/certs/key.pem")
    assert (context.token, context.tls_first, context.ca) == ("t", True, "/ca.pem")
    assert (context.jetstream_domain, context.inbox_prefix) == ("hub", "_INBOX.me")
    assert of(jetstream_api_prefix="acc.JS").jetstream_api_prefix == "acc.JS"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"socks_proxy": "socks5://x"}, "'socks_proxy', which is not supported"),
        ({"nsc": "nsc://o/a/u"}, "'nsc', which is not supported"),
        ({"windows_cert_store": "user"}, "'windows_cert_store', which is not supported"),
        ({"windows_ca_certs_match": ["x"]}, "'windows_ca_certs_match', which is not supported"),
        ({"invented_later": "x"}, "'invented_later', which is not supported"),
        ({"creds": "op://vault/item"}, "creds of the kind op:"),
        ({"creds": "nsc://o/a/u"}, "creds of the kind nsc:"),
        ({"creds": "data:;base64,c2VjcmV0"}, "creds of the kind data:"),
        ({"token": "data:,text"}, "token of the kind data:"),
        ({"token": "file:///token"}, "token of the kind file:"),
        ({"creds": "env://TOKEN"}, "content of its creds in the environment"),
        ({"nkey": "env://TOKEN"}, "content of its nkey in the environment"),
        ({"token": "env://UNSET"}, "environment variable that is not set"),
        ({"url": "ws://127.0.0.1"}, "unsupported kind"),
        ({"url": "wss://127.0.0.1"}, "unsupported kind"),
        ({"url": "nats://127.0.0.1/path"}, "not scheme://host:port"),
        ({"url": "nats://127.0.0.1:x"}, "a url that is not one"),
        ({"url": f"nats://a:{SECRET}@h,nats://b:{SECRET}@h"}, "different users"),
        ({"user": "u", "creds": "/c"}, "both user and creds"),
        ({"cert": "/c"}, "only one of cert and key"),
        ({"user_seed": SECRET}, "user_seed without user_jwt"),
        ({"jetstream_domain": "a", "jetstream_api_prefix": "b"}, "both jetstream_domain"),
        ({"jetstream_domain": "a.b"}, "jetstream_domain that cannot"),
        ({"inbox_prefix": "a.>"}, "inbox_prefix that cannot"),
        ({"inbox_prefix": "a b"}, "inbox_prefix that cannot"),
        ({"user": 5}, "user that is not text"),
        ({"tls_first": "yes"}, "tls_first that is not true or false"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ContextError) as refused:
        of(**fields)
    assert words in str(refused.value)
    assert SECRET not in str(refused.value)


def test_what_is_set_for_people_changes_nothing() -> None:
    said = {"name": "other", "description": "d", "color_scheme": "red", "jetstream_event_prefix": "e"}
    assert of(**said) == of()


@pytest.mark.parametrize(
    ("field", "with_it"),
    [("token", {}), ("password", {"user": "u"}), ("user_jwt", {}), ("user_seed", {"user_jwt": "j"})],
)
def test_a_secret_may_stand_in_the_environment(field: str, with_it: dict[str, str]) -> None:
    assert getattr(of(**{field: "env://TOKEN"}, **with_it), field) == SECRET


def test_secrets_stay_out_of_what_is_shown() -> None:
    context = of(url=f"nats://me:{SECRET}%40@h:1", user_jwt="", token="")
    assert (context.user, context.password) == ("me", f"{SECRET}@")
    assert context.servers == ("nats://h:1",)
    assert SECRET not in repr(context)
    assert of(url=f"nats://{SECRET}@h:1").token == SECRET
    assert of(token="env://TOKEN").token == SECRET
    for field in ("password", "token", "user_jwt"):
        assert SECRET not in repr(of(**{field: SECRET}))


# Connecting, with every way to log in


async def works(home: Path, broker: Broker, capfd: pytest.CaptureFixture[str], **fields: Any) -> None:
    """A note goes there and back through a context of these fields."""
    save(home, "c", **({"url": broker.url} | fields))
    bound, close, _ = await open_jetstream(JetStreamOptions("b"), identity="agent", context="c")
    store = AsyncStore(bound)
    try:
        await store.create("k", "d", "c")
        assert await store.read("k") == Entry("d", "c")
        assert len(await store.list()) == 1
        assert await store.delete("k")
    finally:
        await close()
    output = capfd.readouterr()
    assert output.out + output.err == ""


async def refused(home: Path, broker: Broker, words: str, capfd: pytest.CaptureFixture[str], **fields: Any) -> None:
    save(home, "c", **({"url": broker.url} | fields))
    with pytest.raises(BackendError, match=words) as told:
        async with asyncio.timeout(60):
            await open_jetstream(JetStreamOptions("b"), identity="agent", context="c")
    output = capfd.readouterr()
    assert SECRET not in output.out + output.err + str(told.value)
    # Nothing is printed but, in one line each, that the broker refused something.
    assert all("warning: the broker refuses" in line for line in output.err.splitlines())


@pytest.mark.anyio
async def test_user_and_password(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = f'authorization {{ user: me, password: "{SECRET}" }}'
    with run_broker(tmp_path / "b", config=config) as broker:
        async with connected(broker.url, user="me", password=SECRET) as nc:
            await add_bucket(nc, "b")
        await works(home, broker, capfd, user="me", password=SECRET)
        await works(home, broker, capfd, url=f"nats://me:{SECRET}@127.0.0.1:{broker.port}")
        await refused(home, broker, "refused the credentials", capfd, user="me", password=SECRET + "x")
        await refused(home, broker, "refused the credentials", capfd, url=f"nats://x:{SECRET}@127.0.0.1:{broker.port}")
        await refused(home, broker, "refused the credentials", capfd)


@pytest.mark.anyio
async def test_token(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with run_broker(tmp_path / "b", config=f'authorization {{ token: "{SECRET}" }}') as broker:
        async with connected(broker.url, token=SECRET) as nc:
            await add_bucket(nc, "b")
        await works(home, broker, capfd, token=SECRET)
        await works(home, broker, capfd, url=f"nats://{SECRET}@127.0.0.1:{broker.port}")
        await refused(home, broker, "refused the credentials", capfd, token=SECRET + "x")


@pytest.mark.anyio
async def test_nkey(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    user, stranger = KeyPair("user"), KeyPair("user")
    seed = tmp_path / "user.nk"
    seed.write_text(user.seed + "\n")
    with run_broker(tmp_path / "b", config=f"authorization {{ users: [{{ nkey: {user.public} }}] }}") as broker:
        async with connected(broker.url, nkey=str(seed)) as nc:
            await add_bucket(nc, "b")
        await works(home, broker, capfd, nkey=str(seed))
        for content, words in (
            (stranger.seed, "refused the credentials"),
            ("nothing", "holds no nkey seed"),
            (user.seed[:-1] + ("A" if user.seed[-1] != "A" else "E"), "damaged"),
        ):
            seed.write_text(content)
            await refused(home, broker, words, capfd, nkey=str(seed))
        await refused(home, broker, "nkey file .* cannot be read", capfd, nkey=str(tmp_path / "nowhere"))


@pytest.mark.anyio
async def test_credentials_file_in_operator_mode(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    operator, account, system = KeyPair("operator"), KeyPair("account"), KeyPair("account")
    user, bearer = KeyPair("user"), KeyPair("user")
    jwt = encode_jwt(account, user.public, "user", {"subs": -1, "data": -1, "payload": -1})
    bearer_jwt = encode_jwt(
        account, bearer.public, "user", {"subs": -1, "data": -1, "payload": -1, "bearer_token": True}
    )
    creds = tmp_path / "user.creds"
    creds.write_text(credentials(jwt, user))
    with run_broker(tmp_path / "b", config=operator_config(operator, account, system)) as broker:
        async with connected(broker.url, creds=str(creds)) as nc:
            await add_bucket(nc, "b")
        await works(home, broker, capfd, creds=str(creds))
        await works(home, broker, capfd, creds=f"file://{creds}")
        await works(home, broker, capfd, user_jwt=jwt, user_seed=user.seed)
        await works(home, broker, capfd, user_jwt=bearer_jwt)
        creds.write_text(credentials(jwt, bearer))
        await refused(home, broker, "refused the credentials", capfd, creds=str(creds))
        creds.write_text(user.seed)
        await refused(home, broker, "holds no user JWT", capfd, creds=str(creds))


@pytest.mark.anyio
async def test_expired_user_comes_back_with_renewed_credentials(home: Path, tmp_path: Path) -> None:
    operator, account, system, user = KeyPair("operator"), KeyPair("account"), KeyPair("account"), KeyPair("user")
    creds = tmp_path / "user.creds"

    def renew(seconds: float) -> None:
        claims = {"subs": -1, "data": -1, "payload": -1}
        jwt = encode_jwt(account, user.public, "user", claims, expires=seconds)
        creds.write_text(credentials(jwt, user))

    with run_broker(tmp_path / "b", config=operator_config(operator, account, system)) as broker:
        renew(60)
        async with connected(broker.url, creds=str(creds)) as nc:
            await add_bucket(nc, "b")
        save(home, "c", url=broker.url, creds=str(creds))
        for seconds in (2, 10, 30):  # on a busy machine the shortest may be over before the note is there
            renew(seconds)
            with suppress(BackendError, StoreError):
                bound, close, _ = await open_jetstream(JetStreamOptions("b"), identity="agent", context="c")
                store = AsyncStore(bound)
                await store.create("k", "d", "c")
                break
        else:
            pytest.fail("not even thirty seconds are enough")

        async def shut_out() -> bool:
            try:
                await store.list()
            except UnavailableError:
                return True
            return False

        await until(shut_out, "the user expires", 60)
        renew(60)

        async def back() -> bool:
            try:
                return (await store.read("k")).content == "c"
            except StoreError:
                return False

        await until(back, "the renewed user is let in")
        await close()


@pytest.mark.anyio
@pytest.mark.parametrize("first", [False, True])
async def test_tls_with_a_client_certificate(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], first: bool
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    mine, my_key = (str(path) for path in authority.issue("client"))
    tls = f'tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{authority.ca}", verify: true'
    tls += ", handshake_first: true }" if first else " }"
    ca = str(authority.ca)
    with run_broker(tmp_path / "b", config=tls, greets=not first) as broker:
        async with connected(broker.url, ca=ca, cert=mine, key=my_key, tls_first=first) as nc:
            await add_bucket(nc, "b")
        await works(home, broker, capfd, ca=ca, cert=mine, key=my_key, tls_first=first)
        tls_url = broker.url.replace("nats:", "tls:")
        await works(home, broker, capfd, url=tls_url, ca=ca, cert=mine, key=my_key, tls_first=first)
        await refused(home, broker, "not trusted", capfd, cert=mine, key=my_key, tls_first=first)
        await refused(home, broker, "check cert, key and ca", capfd, ca=ca, tls_first=first)
    locked, locked_key = (str(path) for path in authority.issue("locked", password=SECRET.encode()))
    await refused(home, broker, "is encrypted", capfd, ca=ca, cert=locked, key=locked_key)
    await refused(home, broker, "ca file .* cannot be used", capfd, ca=my_key)
    await refused(home, broker, "cert or key file .* cannot be used", capfd, ca=ca, cert=ca, key=mine)


@pytest.mark.anyio
async def test_credentials_never_travel_in_plain_text_when_tls_is_asked_for(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    heard = bytearray()

    async def plain_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.12.0","auth_required":true,"max_payload":1048576}\r\n')
        heard.extend(await reader.read(4096))
        writer.close()

    server = await asyncio.start_server(plain_server, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    save(home, "c", url=f"tls://127.0.0.1:{port}", user="me", password=SECRET)
    with pytest.raises(BackendError, match="offers no TLS"):
        await open_jetstream(JetStreamOptions("b"), identity="agent", context="c")
    server.close()
    await server.wait_closed()
    assert not heard


@pytest.mark.anyio
async def test_tls_is_used_where_the_broker_only_offers_it(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    config = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\nallow_non_tls: true'
    with run_broker(tmp_path / "b", config=config) as broker:
        async with connected(broker.url) as nc:
            await add_bucket(nc, "b")
        await works(home, broker, capfd, ca=str(authority.ca))


@pytest.mark.anyio
async def test_jetstream_domain_and_api_prefix(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The bucket is at a hub; the context leads to a leaf node without JetStream of its own."""
    port = free_port()
    hub_config = (
        f'jetstream {{ store_dir: "{tmp_path}/hub/store", domain: hub }}\nleafnodes {{ listen: "127.0.0.1:{port}" }}\n'
    )
    leaf_config = (
        f'jetstream {{ store_dir: "{tmp_path}/leaf/store", domain: leaf }}\n'
        f'leafnodes {{ remotes: [{{ url: "nats://127.0.0.1:{port}" }}] }}\n'
    )
    with (
        run_broker(tmp_path / "hub", config=hub_config) as hub,
        run_broker(tmp_path / "leaf", config=leaf_config) as leaf,
    ):
        async with connected(hub.url) as nc:
            await add_bucket(nc, "b")
        async with connected(leaf.url) as nc:

            async def reachable() -> bool:
                return bool(await api(nc, "STREAM.INFO.KV_b", prefix="$JS.hub.API"))

            await until(reachable, "the leaf reaches the hub")
        await works(home, leaf, capfd, jetstream_domain="hub")
        await works(home, leaf, capfd, jetstream_api_prefix="$JS.hub.API")
        await refused(home, leaf, 'bucket "b" does not exist', capfd)
        await refused(home, leaf, "check jetstream_domain", capfd, jetstream_domain="elsewhere")


@pytest.mark.anyio
async def test_inbox_prefix(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = (
        "authorization { users: [{user: admin, password: a}, "
        '{user: me, password: a, permissions: {subscribe: "_INBOX_me.>"}}] }'
    )
    with run_broker(tmp_path / "b", config=config) as broker:
        async with connected(broker.url, user="admin", password="a") as nc:
            await add_bucket(nc, "b")
        await works(home, broker, capfd, user="me", password="a", inbox_prefix="_INBOX_me")
        await refused(
            home,
            broker,
            r"does not permit .* subscribe to _INBOX\.>; allow that, or set inbox_prefix",
            capfd,
            user="me",
            password="a",
        )


@pytest.mark.parametrize(
    "text",
    [b"{", b"[]", b'{"url": 4222}', b'{"tls_first": "yes"}', b'{"url": "nats://[::1"}', b'{"url": "nats://a/b"}'],
)
def test_what_the_command_can_mend_names_the_context_to_edit(text: bytes) -> None:
    with pytest.raises(ContextError, match=r"; mend it with: nats context edit production$"):
        parse(text, "production", {})


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.anyio
async def test_names_are_looked_up_over_tcp_only_for_a_process_that_will_be_locked(
    home: Path, monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    monkeypatch.setenv("RES_OPTIONS", "")  # and so restored afterwards
    monkeypatch.setattr(socket, "getaddrinfo", _no_such_name)
    with pytest.raises(ContextError, match=r"host name of the broker .* cannot be looked up; check its url") as told:
        await nats_connect.connect(of(url="nats://broker.invalid:4222"), locked=locked)
    assert ("use-vc" in os.environ.get("RES_OPTIONS", "")) is locked
    assert ("--lockdown off" in str(told.value)) is locked


def _no_such_name(*_: object, **__: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.mark.anyio
async def test_full_broker_is_told(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with run_broker(tmp_path / "b", config="max_connections: 1") as broker:
        holder = connected(broker.url)

        async def held() -> bool:  # the connection that saw the broker start may still count
            await holder.__aenter__()
            return True

        await until(held, "the one connection is taken")
        await refused(home, broker, "closes the connection; look into its log", capfd)
        await holder.__aexit__(None, None, None)
