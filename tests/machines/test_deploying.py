"""The recipes of docs/deploying.md are tried ones: its script is run, and each option of its unit is a row."""

import re
from pathlib import Path
from typing import Final

import pytest
from tests.support.sidecar import ROOT, SERVE, Sidecar, environment, is_gone, make_ticket, patched, until

from .machines import CONFINED, MACHINES, within
from .session import NotPlayedError, played_on

TEXT: Final = (ROOT / "docs" / "deploying.md").read_text()

OPTIONS: Final = {
    "ProtectSystem=strict": "ProtectSystem=strict",
    "ProtectHome=yes": "ProtectHome",
    "ProtectProc=invisible": "ProtectProc=invisible",
    "NoNewPrivileges=yes": "NoNewPrivileges",
    "PrivateTmp=yes": "PrivateTmp",
    "MemoryDenyWriteExecute=yes": "MemoryDenyWriteExecute",
    "CapabilityBoundingSet=": "no capabilities",
    "StateDirectory=agent": "a root directory for reading only",
}


def block(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def test_each_option_of_the_unit_is_played() -> None:
    lines = block("ini").splitlines()[1:]
    filters = [line.partition("=")[2] for line in lines if line.startswith("SystemCallFilter=")]
    assert f"SystemCallFilter={' '.join(filters)}" in MACHINES
    others = {line for line in lines if not line.startswith("SystemCallFilter=")}
    assert others == set(OPTIONS)
    assert set(OPTIONS.values()) <= set(MACHINES)


def test_the_unit_and_the_container_of_the_examples_are_those_that_were_tried() -> None:
    deploy = ROOT / "examples" / "deploy"
    unit = (deploy / "agent.service").read_text().splitlines()
    assert [line for line in block("ini").splitlines() if line not in unit] == []
    hardening = re.compile("(Protect|Private|NoNew|Memory|Capability|SystemCall|Restrict|Lock|Read|Inaccessible)")
    assert [line for line in unit if hardening.match(line) and line not in block("ini")] == []
    build, run = (line.removeprefix("$ ") for line in block("console").splitlines())
    assert build in (deploy / "README.md").read_text()
    assert run.endswith(f" {build.split()[5]}")
    container = (deploy / "Containerfile").read_text()
    volume = re.findall(r"--volume \S+:(\S+)", run)
    assert volume == re.findall(r"(?m)^VOLUME (.*)$", container)
    assert f"--owner agent --mode 0700 {volume[0]}\n" in container


def test_the_script_with_namespaces_runs(tmp_path: Path) -> None:
    script = block("sh").replace("your-harness", '"$@"')
    ticket = tmp_path / "ticket"
    token = make_ticket(ticket)
    env = environment(PLACE=str(tmp_path))
    try:
        played_on(MACHINES["a root directory for reading only"], tmp_path / "tried")
    except NotPlayedError as error:
        pytest.skip(str(error))
    with Sidecar(
        tmp_path / "state", command=("sh", "-c", script, "sh", *SERVE), ticket=ticket, token=token, env=env
    ) as sidecar:
        sidecar.greet()
        assert sidecar.write("plan", "text")["written"]
        assert sidecar.leave() == 0


# What Python has and doesn't have on macOS, in place of this system's; each flush is noted on stderr.
MACOS: Final = """
import fcntl, os, sys
sys.platform = "darwin"
del os.pidfd_open
real = fcntl.fcntl
fcntl.F_FULLFSYNC = 51

def controlled(descriptor, command, argument=0):
    if command != fcntl.F_FULLFSYNC:
        return real(descriptor, command, argument)
    os.write(2, b"flushed to the drive\\n")
    if REFUSED:
        raise OSError(45, "Operation not supported")
    os.fsync(descriptor)
    return 0

fcntl.fcntl = controlled
"""


@pytest.mark.parametrize("refused", [False, True], ids=["flushing", "not flushing"])
def test_a_session_as_on_macos(refused: bool, tmp_path: Path) -> None:
    """No /proc, no pidfd, no call that Linux alone has, and F_FULLFSYNC."""
    missing = MACHINES["no call that Linux alone has"].prefix
    try:
        played_on(MACHINES["no call that Linux alone has"], tmp_path / "tried")
    except NotPlayedError as error:
        pytest.skip(str(error))
    assert missing[:6] == within("mount -t tmpfs -o ro none /proc")
    assert CONFINED[1] in missing
    env = patched(tmp_path, f"REFUSED = {refused}{MACOS}")
    with Sidecar(tmp_path / "state", "--run", "monday", command=[*missing, *SERVE], env=env) as sidecar:
        sidecar.greet()
        assert sidecar.write("plan", "text")["written"]
        assert sidecar.write("plan", "newer", overwrite=True)["written"]
        assert sidecar.read("plan")["content"] == "newer"
        assert sidecar.leave() == 0
        assert "flushed to the drive" in sidecar.stderr
        assert "Traceback" not in sidecar.stderr
    with Sidecar(tmp_path / "state", "--lockdown", "require", command=[*missing, *SERVE], env=env) as sidecar:
        hello = sidecar.hello()
        sidecar.send(hello)
        assert "--lockdown require, but" in sidecar.answer(hello)["error"]["message"]


def test_without_a_pidfd_the_parent_s_death_is_noticed(tmp_path: Path) -> None:
    """The pipe is held open by this test, so that nothing else tells of it."""
    env = patched(tmp_path, f"REFUSED = False{MACOS}")
    script = 'exec 3<&0; "$@" <&3 3<&- & echo $! > "$0"; wait'
    words = ("sh", "-c", script, str(tmp_path / "pid"), *SERVE)
    with Sidecar(tmp_path / "state", command=words, env=env) as sidecar:
        sidecar.greet()
        assert sidecar.write("plan", "text")["written"]
        pid = int(
            until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), "its pid is told")
        )
        sidecar.process.kill()
        until(lambda: is_gone(pid), "it has ended")
