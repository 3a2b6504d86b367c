"""What is left out of the client library is there when somebody asks for it, and what stands in says the same."""

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import Header
from tests.support.broker import Broker, connected, run_broker
from tests.support.certificates import Authority

from memory_sidecar.backend.jetstream import api
from memory_sidecar.backend.jetstream import client as nats_client
from memory_sidecar.backend.jetstream.api import RefusedError
from memory_sidecar.backend.jetstream.context import ContextError
from memory_sidecar.system import allocator

_START = "import sys\nfrom memory_sidecar.backend.jetstream import client as nats_client\n"


def run(code: str, **variables: str) -> str:
    """What a fresh interpreter prints."""
    words = [
        sys.executable,
        "-W",
        "error",
        "-c",
        _START + code,
    ]
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": "/usr/bin", **variables}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_that_is_left_out_is_loaded_before_it_is_asked_for() -> None:
    told = run(
        "nats_client.load()\n"
        "import memory_sidecar.backend.jetstream.bucket, memory_sidecar.backend.jetstream.thread, nats.errors\n"
        "left = ['nats.js', 'nats.js.api', 'ssl', '_ssl', 'asyncio.sslproto', 'importlib.metadata', 'uuid']\n"
        "left += ['_hashlib', 'hmac', 'ipaddress', 'locale', 'subprocess', 'inspect', 'dis', 'traceback']\n"
        "print([name for name in left if name in sys.modules])\n"
        "from nats.aio import client\n"
        "print(client.__version__)\n"
    )
    assert told == f"[]\n{version('nats-py')}\n"


def test_an_http_stack_that_happens_to_be_installed_is_not_loaded(tmp_path: Path) -> None:
    for name in ("aiohttp", "fast_mail_parser"):
        (tmp_path / f"{name}.py").write_text("print('loaded', __name__)\nparse_email = None\n")
    told = run(
        "nats_client.load()\nprint('ready')\nimport aiohttp, fast_mail_parser\n",
        PYTHONPATH=str(tmp_path),
    )
    assert told == "ready\nloaded aiohttp\nloaded fast_mail_parser\n"


def test_everything_that_is_left_out_is_there_when_asked_for() -> None:
    told = run(
        "nats_client.load()\n"
        "import asyncio, nats\n"
        "nc = nats.NATS()\n"
        "print(type(nc.jetstream()).__module__, nats.js.api.KeyValueConfig.__module__)\n"
        "from nats.js.errors import KeyNotFoundError\n"
        "import nats.js.api, importlib.metadata, ssl\n"
        "print(nats.js.api.Header.STATUS.value, importlib.metadata.version('nats-py') != '')\n"
        "print(asyncio.base_events.ssl.SSLSocket is ssl.SSLSocket)\n"
        "from nats.aio import client, subscription\n"
        "async def echo(word):\n"
        "    process = await asyncio.create_subprocess_exec('echo', word, stdout=subprocess.PIPE)\n"
        "    return (await process.communicate())[0]\n"
        "import uuid\n"
        "assert type(subscription.uuid4()) is uuid.UUID\n"
        "import ipaddress, subprocess\n"
        "assert client.ipaddress.ip_address is ipaddress.ip_address\n"
        "assert asyncio.base_subprocess.subprocess.Popen is subprocess.Popen\n"
        "assert asyncio.run(echo('word')) == b'word\\n'\n"
        "import inspect, traceback\n"
        "assert asyncio.coroutines.inspect.signature is inspect.signature\n"
        "assert asyncio.format_helpers.traceback.StackSummary is traceback.StackSummary\n"
        "print(asyncio.base_events.sslproto.SSLProtocol.__module__)\n"
        "print(asyncio.base_events.sslproto.SSLAgainErrors[0] is ssl.SSLWantReadError)\n"
    )
    assert told == "nats.js.client nats.js.api\nStatus True\nTrue\nasyncio.sslproto\nTrue\n"


def test_what_a_callback_is_is_told_as_by_the_standard_library() -> None:
    told = run(
        "nats_client.load()\n"
        "import asyncio, functools\n"
        "asked = asyncio.coroutines.inspect.iscoroutinefunction\n"
        "async def a(): pass\n"
        "def b(): pass\n"
        "async def c(): yield\n"
        "class D:\n"
        "    async def e(self): pass\n"
        "    def f(self): pass\n"
        "    async def __call__(self): pass\n"
        "print([asked(it) for it in (a, b, c, D().e, D().f, D.e)], 'inspect' in sys.modules)\n"
        "many = a, b, c, D, D(), D().e, D().f, D.e, print, None, functools.partial(a), functools.partial(D().e)\n"
        "told = [asked(it) for it in many]\n"
        "import inspect\n"
        "assert inspect.iscoroutinefunction is not asked\n"
        "print(told == [inspect.iscoroutinefunction(it) for it in many])\n"
    )
    assert told == "[True, False, False, True, False, True] False\nTrue\n"


def test_a_program_that_loaded_them_before_keeps_its_own() -> None:
    told = run(
        "import asyncio, ssl, importlib.metadata\n"
        "before = sys.modules['asyncio.sslproto'], sys.modules['importlib.metadata']\n"
        "nats_client.load()\n"
        "nats_client.load()\n"
        "print(before == (sys.modules['asyncio.sslproto'], sys.modules['importlib.metadata']))\n"
        "print(asyncio.base_events.ssl is ssl)\n"
    )
    assert told == "True\nTrue\n"


def test_the_library_that_is_not_installed_is_told() -> None:
    told = run(
        "sys.modules['nats'] = None\n"
        "try:\n    nats_client.load()\n"
        "except ImportError:\n    print('none')\n"
        "import ssl, importlib.metadata, asyncio\n"
        "print(type(ssl).__name__, type(importlib.metadata).__name__)\n"
    )
    assert told == "none\nmodule module\n"


@pytest.mark.parametrize("part", ["_parse_header_lines", "_process_msg", "_flush_pending"])
def test_a_version_whose_inner_parts_are_others_is_refused(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    monkeypatch.delattr(Client, part)
    with pytest.raises(ContextError, match=r"does not work with nats-py \d.*memory-sidecar\[jetstream\]"):
        nats_client.connection(tls=False, nkey=None)


def test_headers_have_the_librarys_names() -> None:
    assert {name: member.value for name, member in nats_client._Header.__members__.items()} == {
        name: Header[name].value for name in nats_client._Header.__members__
    }


@given(st.lists(st.tuples(st.binary(max_size=6), st.sampled_from([b":", b": ", b"", b"::"]), st.binary(max_size=6))))
def test_headers_are_parsed_as_the_library_does(lines: list[tuple[bytes, bytes, bytes]]) -> None:
    raw = b"\r\n".join(b"".join(line) for line in lines)
    library: Any = Client
    assert nats_client._parsed(raw) == library._parse_header_lines(raw)


@pytest.mark.parametrize(
    "error", ["text", 7, True, [1], {"code": "x"}, {"code": [1], "err_code": {}, "description": {"a": 1}}, {"x": None}]
)
def test_an_answer_that_is_oddly_refused_is_refused(error: Any) -> None:
    answer = Msg(Client(), data=json.dumps({"error": error}).encode())
    with pytest.raises(RefusedError) as refused:
        api._answer(answer)
    assert (refused.value.code, refused.value.error) == (0, 0)


@pytest.mark.anyio
@pytest.mark.parametrize("ours", [True, False])
async def test_requests_are_answered_as_the_library_does(broker: Broker, ours: bool) -> None:
    async with connected(broker.url) as other, AsyncExitStack() as stack:
        nc: Client = await stack.enter_async_context(connected(broker.url)) if ours else await nats.connect(broker.url)

        async def answer(message: Msg) -> None:
            if message.data != b"silence":
                await other.publish(message.reply, message.data[::-1], headers=message.headers)

        await other.subscribe("echo.*", cb=answer)
        await other.flush()
        many = [nc.request(f"echo.{number}", b"%d" % number, headers={"N": f" {number}"}) for number in range(100)]
        answers = await asyncio.gather(*many)
        assert [(found.data, found.headers) for found in answers] == [
            (str(number)[::-1].encode(), {"N": str(number)}) for number in range(100)
        ]
        assert (await nc.request("echo.x", b"")).headers is None

        raised = []
        for subject, data, timeout in (("nobody", b"", 5), ("echo.x", b"silence", 0.01), ("two words", b"", 5)):
            with pytest.raises(nats.errors.Error) as caught:
                await nc.request(subject, data, timeout=timeout)
            raised.append(type(caught.value).__name__)
        assert raised == ["NoRespondersError", "TimeoutError", "BadSubjectError"]

        waiting = asyncio.create_task(nc.request("echo.x", b"silence", timeout=60))
        await nc.flush()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await nc.request("echo.x", b"ab" * 100_000)).data == b"ba" * 100_000
        await nc.close()
        with pytest.raises(nats.errors.ConnectionClosedError):
            await nc.request("echo.x", b"")


CONNECT = """
nats_client.load()
import asyncio
assert "ssl" not in sys.modules
from memory_sidecar.backend.jetstream.connect import close, connect
from memory_sidecar.backend.jetstream.context import ContextError, NatsContext
async def main():
    try:
        nc = await connect(NatsContext("c", ({url!r},), ca={ca!r}))
    except ContextError as error:
        print(error)
        return
    print(type(nc._transport._io_writer.transport.get_extra_info("ssl_object")).__name__)
    await close(nc)
asyncio.run(main())
"""


@pytest.mark.parametrize("required", [True, False])
def test_tls_is_loaded_when_the_context_or_the_broker_asks_for_it(tmp_path: Path, required: bool) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    config = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}' + ("" if required else "\nallow_non_tls: true")
    with run_broker(tmp_path / "b", config=config) as broker:
        assert run(CONNECT.format(url=broker.url, ca=str(authority.ca))) == "SSLObject\n"
        plain = run(CONNECT.format(url=broker.url, ca=""), SSL_CERT_FILE=str(authority.ca))
        assert plain == ("SSLObject\n" if required else "NoneType\n")
        if required:
            assert "is not trusted" in run(CONNECT.format(url=broker.url, ca=""))


@pytest.mark.anyio
async def test_what_a_read_reserves_is_less_than_what_the_system_maps_for_each(broker: Broker) -> None:
    async with connected(broker.url) as client:
        reading: Any = client._transport._io_writer.transport  # type: ignore[attr-defined]
        assert reading.max_size < allocator._MAPPED
        await client.flush()


@pytest.mark.anyio
async def test_an_attempt_to_connect_again_that_is_told_as_over_twice_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the library tells it where an attempt is given up for the next one: rarely, so it is made here."""

    async def tells_twice(self: Client) -> None:
        over = asyncio.get_running_loop().create_future()
        over.set_result(True)
        over.set_result(True)

    monkeypatch.setattr(Client, "_attempt_reconnect", tells_twice)
    client = nats_client.connection(tls=False, nkey=None)
    client._status = Client.CONNECTED
    client.options["allow_reconnect"] = True
    await client._process_op_err(nats.errors.Error("lost"))
    assert client._reconnection_task is not None
    await client._reconnection_task
