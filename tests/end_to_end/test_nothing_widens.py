"""No flag, environment variable, configuration key or method opens the memory to anybody but its harness.

Each is taken from where the product declares it, or from what the living process asks for, so that one which is added
later is swept too. With no ticket, or one that is used up, all of them change nothing; with a good one, the model gets
the same tools by the same texts, or the start is refused.
"""

import inspect
import re
import typing
from pathlib import Path
from typing import Final

import mcp.types
import pytest
from tests.support.sidecar import Frame, RefusedError, Sidecar, configured, environment

from memory_sidecar.cli.serve import _OPTIONS
from memory_sidecar.config import Config, MemoryConfig
from memory_sidecar.wire.states import METHODS

INVITING: Final = (
    "expose",
    "mcp",
    "a2a",
    "surface",
    "public",
    "listen",
    "port",
    "http",
    "allow",
    "no_ticket",
    "policy",
)
"""What a setting that opens it could be called. None of them exists."""

RECORD_READS: Final = """
import atexit, os, sys

read = set()


class Recorded(type(os.environ)):
    def __getitem__(self, name):
        read.add(name)
        return super().__getitem__(name)


os.environ.__class__ = Recorded
atexit.register(lambda: print("read:", *sorted(read), file=sys.stderr, flush=True))
"""

INTERPRETERS_OWN: Final = ("PYTHON", "LC_", "LANG")


def assert_closed(tmp_path: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
    """A host that starts it with these gets nothing: without a ticket, and with one that is used up."""
    with Sidecar(None, *arguments, ticket="", identity="", env=dict(env) if env else None, cwd=tmp_path) as sidecar:
        assert sidecar.wait() == 64, arguments
        assert sidecar.rest() == []
    used_up = tmp_path / "used-up"
    with Sidecar(None, *arguments, ticket=used_up, token="x" * 43, identity="", env=env, cwd=tmp_path) as sidecar:
        hello = sidecar.hello()
        try:
            sidecar.send(hello, sidecar.message("tools/list"))
        except BrokenPipeError:  # the arguments were refused before anything was read
            assert sidecar.wait() == 64
            return
        frames = sidecar.rest()
        assert sidecar.wait() in (64, 77), arguments
        assert [frame["error"]["code"] for frame in frames] in ([-32021], []), arguments


def served(tmp_path: Path, *arguments: str, env: dict[str, str] | None = None) -> Frame:
    """What the holder of the ticket is given for the model."""
    with Sidecar(tmp_path / "state", *arguments, env=env, cwd=tmp_path) as sidecar:
        instructions = sidecar.initialize()["instructions"]
        tools = sidecar.request("tools/list")["tools"]
        assert sidecar.leave() == 0
        return {"instructions": instructions, "tools": tools}


def read_variables(tmp_path: Path) -> set[str]:
    """The environment variables that a served session asks for."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(RECORD_READS)
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path / 'site'}:{env['PYTHONPATH']}"
    with Sidecar(tmp_path / "state", env=env, cwd=tmp_path) as sidecar:
        sidecar.initialize()
        assert sidecar.write("plan", "one")["written"]
        assert sidecar.leave() == 0
        found = re.search(r"^read:(.*)$", sidecar.stderr, re.MULTILINE)
        assert found is not None
        return {name for name in found[1].split() if not name.startswith(INTERPRETERS_OWN)}


def test_no_flag_opens_it(tmp_path: Path) -> None:
    harmless = {
        "run": "swept",
        "lockdown": "off",
        "log-level": "debug",
        "log-format": "json",
        "default-identity": "x",
        "keep-runs": "90d",
    }
    places = {"config", "identity", "store-dir", "journal-dir"}
    # Whoever adds an option decides here which of the two it is.
    assert set(_OPTIONS) == {*harmless, *places}
    words = [word for name, value in harmless.items() for word in (f"--{name}", value)]
    assert_closed(tmp_path, *words)
    for name in places:
        assert_closed(tmp_path, f"--{name}", "mcp")
    for name in INVITING:  # refused to the harness itself
        with Sidecar(tmp_path / "state", f"--{name}", "true", cwd=tmp_path) as sidecar:
            hello = sidecar.hello()
            sidecar.send(hello)
            assert f"--{name}" in sidecar.answer(hello)["error"]["message"]
            assert sidecar.wait() == 78
    assert served(tmp_path, *words) == served(tmp_path)


def test_no_environment_variable_opens_it(tmp_path: Path) -> None:
    asked = read_variables(tmp_path)
    assert "MEMORY_SIDECAR_TICKET" in asked  # the record is the sidecar's
    hostile = dict.fromkeys(asked - {"MEMORY_SIDECAR_TICKET", "PATH"}, "mcp")
    hostile |= {f"MEMORY_SIDECAR_{name.upper()}": "true" for name in INVITING}
    env = environment(**hostile)
    assert_closed(tmp_path, env=env)
    assert served(tmp_path, env=env) == served(tmp_path)


def test_no_configuration_key_opens_it(tmp_path: Path) -> None:
    # Whoever adds a key decides here that it only narrows, or only names a place.
    assert MemoryConfig._fields == ("enabled", "backend", "read_only", "no_index", "options", "keep_runs")
    assert Config._fields == ("identity", "nats_context", "memory")
    for name in INVITING:
        for block in (f"{name}: true", f"options: {{{name}: true}}"):
            arguments = configured(tmp_path, block)
            with Sidecar(tmp_path / "state", *arguments, cwd=tmp_path) as sidecar:
                with pytest.raises(RefusedError, match="is not an option"):
                    sidecar.initialize()
                assert sidecar.wait() == 78
    (tmp_path / "theirs.yaml").write_text(
        "harness: {memory: {enabled: true}, mcp: {expose: [memory]}}\n" + "\n".join(f"{n}: [memory]" for n in INVITING)
    )
    theirs = ("--config", str(tmp_path / "theirs.yaml"))
    assert served(tmp_path, *theirs) == served(tmp_path)
    assert_closed(tmp_path, *theirs)


def test_no_method_of_the_protocol_opens_it(tmp_path: Path) -> None:
    known = {
        method
        for member in vars(mcp.types).values()
        if inspect.isclass(member) and "method" in getattr(member, "model_fields", {})
        for method in typing.get_args(member.model_fields["method"].annotation)
    }
    assert {"resources/list", "server/discover"} <= known
    of_a2a = {"message/send", "message/stream", "tasks/get", "agent/getAuthenticatedExtendedCard", "SendMessage"}
    invented = {f"memory-sidecar/{name}" for name in INVITING} | {"tools/register", "policy/set", "shutdown"}
    with Sidecar(tmp_path / "state", cwd=tmp_path) as sidecar:
        sidecar.initialize()
        before = sidecar.request("tools/list")
        for method in sorted((known | of_a2a | invented) - set(METHODS)):
            assert sidecar.ask(method, {"name": "memory_read", "uri": "memory://notes"})["error"]["code"] == -32601
            sidecar.notify(method, {"expose": True})
        assert sidecar.request("tools/list") == before
