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
        ("python /srv/agent/", "agent"),
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
        "python /",
        "python //",
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


# fmt: off
RUNNERS = [
    "bun", "bunx", "deno", "dotnet", "electron", "go", "java", "make", "nodemon", "npm", "npx", "pm2", "pnpm",
    "ts-node", "tsx", "yarn", "cargo", "code", "cursor", "conda", "hatch", "mamba", "micromamba", "nox", "pdm",
    "pipenv", "pipx", "poetry", "rye", "tox", "uv", "uvx", "celery", "chainlit", "daphne", "fastapi", "flask",
    "gradio", "granian", "gunicorn", "hypercorn", "marimo", "streamlit", "uvicorn", "uwsgi", "watchmedo", "py.test",
    "pytest", "unittest", "__main__", "ipykernel_launcher", "ipython", "jupyter", "jupyter-lab", "jupyter-notebook",
    "bash", "busybox", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh", "cron", "crond", "docker-init", "doas",
    "dumb-init", "env", "init", "login", "nohup", "screen", "setsid", "sshd", "strace", "su", "sudo", "supervisord",
    "systemd", "timeout", "tini", "tmux", "xargs", "python", "python3", "python3.12", "python3.13t", "python3.11d",
    "python3.13dt", "pypy", "pypy3.10", "node", "nodejs", "ruby", "ruby3.2", "perl", "perl5.36", "php", "php8.3",
    "Python", "node.exe",
]
# fmt: on


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_runs_other_peoples_programs_gives_none_its_name(runner: str) -> None:
    for words in ([runner], [f"/usr/bin/{runner}"], [runner, "-x"], ["python", f"/opt/{runner}"]):
        name, why_not = application(words)
        assert name == ""
        assert why_not


@pytest.mark.parametrize(
    "suffix", ["py", "pyw", "pyc", "pyz", "js", "mjs", "cjs", "ts", "mts", "cts", "rb", "pl", "php", "exe", "PY"]
)
def test_a_scripts_suffix_is_none_of_its_name(suffix: str) -> None:
    assert application(["node", f"/srv/agent.{suffix}"]) == ("agent", "")


@pytest.mark.parametrize("flag", [f"-{letter}" for letter in "bBdEiIOPqsSuvx"])
@pytest.mark.parametrize("python", ["python3", "pypy3"])
def test_an_option_that_takes_no_value_hides_no_script(python: str, flag: str) -> None:
    assert application([python, flag, "/srv/agent.py"]) == ("agent", "")
    assert application(["node", flag, "/srv/agent.js"]).name == ""
