"""Whose command line it is: certain, or not told. Two agents never share a memory by an accident of names."""

import pytest

from memory_sidecar.launched_by import application


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("python agent.py", "agent"),
        ("/usr/bin/python3.12 /srv/agents/agent.py --port 80", "agent"),
        ("python -u agent.py", "agent"),
        ("python3 -OO -B agent.py", "agent"),
        ("pypy3.10 agent.py", "agent"),
        ("python /srv/venv/bin/my-agent serve", "my-agent"),
        ("node /srv/app.js", "app"),
        ("node app.mjs --x", "app"),
        ("ruby bot.rb", "bot"),
        ("/opt/agent-1.2", "agent-1.2"),
        ("/opt/agent-1.3", "agent-1.3"),
        ("python agent-1.2.py", "agent-1.2"),
        ("/opt/agent/bin/agent --python x.py", "agent"),
        ("agent.exe", "agent"),
    ],
)
def test_a_name_that_is_certain(line: str, name: str) -> None:
    assert application(line.split()) == (name, "")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "python",
        "python -X dev agent.py",
        "python -W error agent.py",
        "python -m agent",
        "python -um agent",
        "python -c print()",
        "python -",
        "python -u",
        "node -r dotenv/config app.js",
        "node --enable-source-maps app.js",
        "node -e 1",
        "node",
        "uvicorn app:app",
        "/venv/bin/python3 /venv/bin/uvicorn app:app",
        "/venv/bin/python3 /venv/bin/gunicorn app:app",
        "/venv/bin/python3 /venv/bin/hypercorn app:app",
        "/venv/bin/python3 /venv/bin/pytest -q",
        "/venv/bin/python3 /venv/bin/jupyter-lab",
        "/venv/bin/python3 -m ipykernel_launcher -f x.json",
        "/venv/bin/python3 /venv/lib/ipykernel_launcher.py -f x.json",
        "/venv/bin/python3 /srv/agent/__main__.py",
        "node /usr/bin/npx agent",
        "node /app/node_modules/.bin/tsx agent.ts",
        "npx agent",
        "uvx agent",
        "uv run agent.py",
        "bun agent.ts",
        "bun run agent.ts",
        "deno run -A agent.ts",
        "java -jar agent.jar",
        "dotnet agent.dll",
        "bash -c agent",
        "/bin/sh agent.sh",
        "sudo agent",
        "UVICORN app:app",
        "python3.12 python3.12",
    ],
)
def test_what_tells_nothing_is_not_guessed(line: str) -> None:
    found = application(line.split(" "))
    assert found.name == ""
    assert found.why_not
