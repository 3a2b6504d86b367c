"""What is not in the process: no HTTP stack, no TLS, no event loop, no socket. Looked up in the living process."""

import os
import re
from pathlib import Path

import pytest
from tests.support.sidecar import Sidecar, environment

FORBIDDEN = {
    "_socket",
    "_ssl",
    "anyio",
    "asyncio",
    "http",
    "httpx",
    "mcp",
    "nats",
    "socket",
    "socketserver",
    "ssl",
    "starlette",
    "trio",
    "urllib.request",
    "uvicorn",
}

AT_EXIT = """
import atexit, sys
atexit.register(lambda: print("loaded:", *sorted(sys.modules), file=sys.stderr, flush=True))
"""


def use_everything(sidecar: Sidecar) -> None:
    sidecar.initialize()
    sidecar.request("tools/list")
    assert sidecar.write("plan", "one")["written"]
    assert not sidecar.write("plan", "two")["written"]
    assert sidecar.read("plan")["found"]
    assert sidecar.write("plan", "two", overwrite=True)["written"]
    assert sidecar.call("memory_list")["structuredContent"]["memories"]
    assert sidecar.call("memory_delete", {"key": "plan"})["structuredContent"]["deleted"]
    sidecar.open("monday")
    sidecar.suspend("monday")
    sidecar.states()


def test_serving_files_loads_no_network_code(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(AT_EXIT)
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path / 'site'}:{env['PYTHONPATH']}"
    with Sidecar(tmp_path / "state", env=env) as sidecar:
        use_everything(sidecar)
        assert sidecar.leave() == 0
        loaded = re.search(r"^loaded: (.*)$", sidecar.stderr, re.MULTILINE)
        assert loaded is not None, sidecar.stderr
        modules = set(loaded[1].split())
    assert "memory_sidecar.wire.serve" in modules  # the list is the sidecar's
    packages = {name.split(".")[0] for name in modules} | modules
    assert not packages & FORBIDDEN


@pytest.mark.parametrize("lockdown", ["auto", "off"])
def test_serving_files_holds_no_socket(tmp_path: Path, lockdown: str) -> None:
    with Sidecar(tmp_path / "state", "--lockdown", lockdown) as sidecar:
        use_everything(sidecar)
        try:
            kinds = [os.readlink(entry) for entry in Path(f"/proc/{sidecar.pid}/fd").iterdir()]
        except PermissionError:
            pytest.skip("a locked process lets nobody but root look at its descriptors")
        assert any(kind.startswith("pipe:") for kind in kinds)
        assert not [kind for kind in kinds if kind.startswith("socket:")]
