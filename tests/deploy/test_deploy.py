"""The material in examples/deploy: each command runs, each name exists, what is backed up comes back."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.sidecar import ROOT, environment

from memory_sidecar.cli import COMMANDS
from memory_sidecar.harness.sync import MemorySidecar
from memory_sidecar.observe.gauges import GAUGES
from memory_sidecar.run import records
from memory_sidecar.store.errors import UnavailableError

DEPLOY = ROOT / "examples" / "deploy"
UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])


class Machine:
    """Where the paths that the files name are, in a directory of the test's own."""

    def __init__(self, root: Path) -> None:
        self.bin, self.state, self.backups = (root / name for name in ("opt/agent/bin", "state", "backups"))
        for directory in (self.bin, self.backups):
            directory.mkdir(parents=True)
        self.state.mkdir(mode=0o700)
        for name in ("memory-backup", "memory-prune", "memory-restore"):
            shutil.copy(DEPLOY / name, self.bin)
        for name, module in (("memory-sidecar", " -m memory_sidecar"), ("python", "")):
            program = self.bin / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P{module} "$@"\n')
            program.chmod(0o755)
        self._paths = {
            "/opt/agent/bin": self.bin,
            "/opt/agent/agent.py": DEPLOY / "agent.py",
            "/var/lib/agent": self.state,
            "/var/backups/agent": self.backups,
            "/etc/agent": DEPLOY,
        }

    def here(self, text: str) -> str:
        for path, real in self._paths.items():
            text = text.replace(path, str(real))
        return text

    def run(self, *words: str | Path, status: int = 0) -> str:
        done = subprocess.run(
            [*map(str, words)], env=environment(), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def start(self, unit: Path) -> int:
        """What systemd does for a unit of the type oneshot: the first command that fails is the last that is run."""
        for command in settings(unit, "ExecStart"):
            done = subprocess.run(shlex.split(self.here(command)), env=environment(), capture_output=True, check=False)
            if done.returncode != 0:
                return done.returncode
        return 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def settings(path: Path, name: str) -> list[str]:
    return re.findall(rf"(?m)^{name}=(.*)$", path.read_text())


def test_each_unit_is_one_that_systemd_takes(machine: Machine, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for unit in UNITS:
        (tmp_path / unit.name).write_text(machine.here(unit.read_text()))
    said = machine.run("systemd-analyze", "verify", *(tmp_path / unit.name for unit in UNITS))
    assert [line for line in said.splitlines() if any(unit.name in line for unit in UNITS)] == []


def test_each_timer_has_its_service() -> None:
    for timer in DEPLOY.glob("*.timer"):
        assert timer.with_suffix(".service").exists()
        assert settings(timer, "OnCalendar")


@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("memory-*.service")), ids=lambda path: path.stem)
def test_each_command_of_a_timer_runs(machine: Machine, unit: Path) -> None:
    with MemorySidecar.launch(config=DEPLOY / "agent.yaml", store_dir=machine.state) as memory, memory.run("r") as run:
        run.call("memory_write", {"key": "a", "description": "A note", "content": "x"})
        for _ in range(2):  # while an agent works there, and again
            assert machine.start(unit) == 0
    if "export" in unit.name:
        assert '"key": "a"' in (machine.backups / "notes.jsonl").read_text()
    elif "backup" in unit.name:
        assert (machine.backups / "state.tar").stat().st_size > 0
        assert not list(machine.backups.glob("*.part*"))
    else:
        assert not list(machine.state.glob("*.part*"))
        ledger = (machine.state / "ledger.jsonl").read_text().splitlines()
        assert {json.loads(line)["run"] for line in ledger} == {"r"}


def long_ago(line: bytes) -> bytes:
    record = json.loads(line)
    del record["sum"]
    record["created" if record["type"] == "meta" else "time"] = "2001-02-03T04:05:06.789Z"
    return records.encode(record, record.pop("seq"))


@pytest.fixture
def spoilt(machine: Machine) -> Machine:
    """A state directory with an old run, and what an accident leaves: a damaged journal, a foreign one, a bad note."""
    with MemorySidecar.launch(config=DEPLOY / "agent.yaml", store_dir=machine.state) as memory:
        for name in ("old", "damaged"):
            with memory.run(name) as run:
                run.call("memory_write", {"key": name, "description": "A note", "content": "x"})
    runs = machine.state / "runs" / "agent"
    for journal in runs.glob("*.jsonl"):
        journal.write_bytes(b"".join(map(long_ago, journal.read_bytes().splitlines())))
    with (runs / "damaged.jsonl").open("r+b") as file:
        file.write(b"!!!!")
    (runs / "foreign.jsonl").write_text("{}\n")
    (machine.state / "memory" / "agent" / "bad.md").write_bytes(b"\xff\xfe")
    return machine


@pytest.mark.parametrize("name", ["memory-backup", "memory-prune", "memory-restore"])
@pytest.mark.parametrize("words", [(), ("one",), ("one", "two", "three")])
def test_a_script_without_its_arguments_says_which_they_are(name: str, words: tuple[str, ...]) -> None:
    done = subprocess.run(["sh", DEPLOY / name, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith(f"usage: {name} ")


def test_one_bad_file_stops_no_step_of_a_unit_and_fails_it(spoilt: Machine) -> None:
    """A note that is no text, journals that cannot be read: all else is backed up and pruned, and an alert sees it."""
    runs = spoilt.state / "runs" / "agent"
    assert spoilt.start(DEPLOY / "memory-prune.service") == 1
    assert {json.loads(line)["run"] for line in (spoilt.state / "ledger.jsonl").read_text().splitlines()} == {"old"}
    assert sorted(path.name for path in runs.glob("*.jsonl")) == ["damaged.jsonl", "foreign.jsonl"]
    assert spoilt.start(DEPLOY / "memory-export.service") == 1
    assert '"key": "old"' in (spoilt.backups / "notes.jsonl").read_text()
    assert spoilt.start(DEPLOY / "memory-backup.service") == 0
    assert (spoilt.backups / "state.tar").stat().st_size > 0


def test_no_journal_goes_whose_ledger_could_not_be_written(spoilt: Machine) -> None:
    runs = spoilt.state / "runs" / "agent"
    spoilt.run(spoilt.bin / "memory-prune", spoilt.state, spoilt.state / "no" / "ledger.jsonl", status=1)
    # A disk on which nothing more fits: what cat is given is not written.
    (spoilt.bin / "cat").write_text("#!/bin/sh\nexec /bin/cat > /dev/full\n")
    (spoilt.bin / "cat").chmod(0o755)
    path = f"{spoilt.bin}:{os.environ['PATH']}"
    done = subprocess.run(
        [spoilt.bin / "memory-prune", spoilt.state, spoilt.state / "ledger.jsonl"],
        env=environment(PATH=path),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert (runs / "old.jsonl").exists()
    assert not list(spoilt.state.glob("ledger.jsonl*"))


def test_the_readme_says_where_the_units_look_for_each_file() -> None:
    text = re.sub(r"\s+", " ", (DEPLOY / "README.md").read_text())
    beside = re.findall(r"`([\w.-]+)` beside its `bin`", text)
    within = re.findall(r"`([\w-]+)`", re.findall(r"beside its `bin`, (.*?) in its `bin`", text)[0])
    for unit in DEPLOY.glob("*.service"):
        for place, name in re.findall(r"/opt/agent/(bin/)?([\w.-]+)", "\n".join(settings(unit, "ExecStart"))):
            if name in ("python", "memory-sidecar"):
                continue  # the virtual environment's
            assert name in (within if place else beside), (unit.name, name)
            assert (DEPLOY / name).exists()
    named = set(re.findall(r"`([\w.-]+)`", " ".join(re.findall(r"\| (`.*?) \|", text))))
    for path in DEPLOY.iterdir():
        assert path.name in named | {f"{path.stem}.service, .timer", "README.md"} or path.suffix == ".timer", path.name


def test_the_harness_of_the_unit_resumes_its_run(machine: Machine) -> None:
    command = shlex.split(machine.here(settings(DEPLOY / "agent.service", "ExecStart")[0]))
    for _ in range(2):
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == '{"memories":[]}\n'
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    told = machine.run(machine.bin / "memory-sidecar", "runs", "show", "service", "--store-dir", machine.state)
    assert [line.split()[2] for line in told.splitlines() if "resumed" in line or "started" in line] == [
        "started",
        "resumed",
    ]


def test_each_alert_is_over_a_number_that_is_told() -> None:
    told = {f"memory_sidecar_{name.replace('.', '_')}" for name, gauge in GAUGES.items() if gauge.unit != "By"}
    told |= {f"memory_sidecar_{name.replace('.', '_')}_bytes" for name, gauge in GAUGES.items() if gauge.unit == "By"}
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    for rule in rules:
        names = set(re.findall(r"memory_sidecar_[a-z_]+", rule["expr"])) - {"memory_sidecar_outcome"}
        assert names <= {*told, "memory_sidecar_calls_total"}, rule["alert"]
        assert rule["annotations"].keys() == {"summary", "mend"}
        assert set(re.findall(r"memory-sidecar (\w+)", rule["annotations"]["mend"])) <= COMMANDS.keys()
        assert not re.search(r"\bdelete\b", rule["annotations"]["mend"])  # no command is called so
        assert set(re.findall(r'outcome="(\w+)"', rule["expr"])) <= {UnavailableError.code}


def test_the_rules_and_the_rotation_are_ones_that_their_programs_take(machine: Machine, tmp_path: Path) -> None:
    if shutil.which("promtool") is not None:
        assert "8 rules found" in machine.run("promtool", "check", "rules", DEPLOY / "alerts.yaml")
    text = (DEPLOY / "logrotate.conf").read_text()
    assert not re.search(r"(?m)^/.*runs", text)
    if shutil.which("logrotate") is not None and os.geteuid() == 0:
        (tmp_path / "rotation").write_text(text.replace("su agent agent", "su root root"))
        said = machine.run("logrotate", "--debug", "--state", tmp_path / "state.rotated", tmp_path / "rotation")
        assert "error" not in said


def test_the_container_copies_what_is_there_and_its_commands_run(machine: Machine) -> None:
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert {line.split()[0] for line in lines} <= {
        *("FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "CMD")
    }
    for line in lines:
        if line.startswith("COPY"):
            assert (DEPLOY / line.split()[1]).exists()
    health = json.loads(next(line.partition("CMD ")[2] for line in lines if line.startswith("HEALTHCHECK")))
    assert health[0] == "memory-sidecar"
    with MemorySidecar.launch(config=DEPLOY / "agent.yaml", store_dir=machine.state):
        machine.run(machine.bin / health[0], *map(machine.here, health[1:]))
    extras = re.search(r"memory-sidecar\[(.*?)\]", text)
    assert extras is not None
    project = (ROOT / "pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in project for extra in extras[1].split(","))


NOTE = {"key": "shared", "description": "A note", "content": "first"}


def test_what_is_backed_up_while_agents_work_is_whole_on_another_machine(machine: Machine, tmp_path: Path) -> None:
    """Another directory, user and host name: a restored run may overwrite what it had read, and reads all the rest."""
    config, backup = DEPLOY / "agent.yaml", machine.backups / "state.tar"
    acknowledged: list[str] = []
    with MemorySidecar.launch(config=config, store_dir=machine.state) as memory:
        with memory.run("earned") as run:
            run.call("memory_write", NOTE)
        with memory.run("working") as run:
            for number in range(40):
                note = {"key": f"n{number}", "description": "A note", "content": "x" * 5000}
                assert json.loads(run.call("memory_write", note).text)["written"]
                if number == 20:
                    writing = subprocess.Popen(
                        [machine.bin / "memory-backup", machine.state, backup], env=environment()
                    )
                if number < 20:
                    acknowledged.append(f"n{number}")
            assert writing.wait(60) == 0
    there = tmp_path / "another" / "place"
    machine.run(machine.bin / "memory-restore", backup, there)
    assert "is not empty" in machine.run(machine.bin / "memory-restore", backup, there, status=1)
    user = 12345 if os.geteuid() == 0 and os.access("/", os.X_OK) else os.geteuid()
    for path in (there.parent, there, *there.rglob("*")):
        os.chown(path, user, -1, follow_symlinks=False)
    program = tmp_path / "resume.py"
    program.write_text(RESUME)
    done = subprocess.run(
        [sys.executable, "-P", program, config, there, *acknowledged],
        env=environment(HOSTNAME="another", HOME=str(there)),
        capture_output=True,
        text=True,
        check=False,
        **({"user": user, "extra_groups": []} if user != os.geteuid() and readable(program, user) else {}),  # type: ignore[call-overload]
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "overwritten without reading it again\nall there\n"


def readable(path: Path, user: int) -> bool:
    """Whether another user can get at the test's files: pytest's directories may be closed to all but their owner."""
    found = subprocess.run(["cat", path], user=user, extra_groups=[], capture_output=True, check=False)
    return found.returncode == 0


RESUME = """\
import json, sys
from memory_sidecar.cli import COMMANDS
from memory_sidecar.harness.sync import MemorySidecar

config, state, *keys = sys.argv[1:]
with MemorySidecar.launch(config=config, store_dir=state) as memory, memory.run("earned", resume="require") as run:
    note = {"key": "shared", "description": "A note", "content": "second"}
    assert json.loads(run.call("memory_write", {**note, "overwrite": True}).text)["written"]
    print("overwritten without reading it again")
    for key in keys:
        assert json.loads(run.call("memory_read", {"key": key}).text)["found"], key
    print("all there")
"""
