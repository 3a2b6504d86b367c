"""Which application a command line is of: certain, or not told at all. Pure, and shared with the harness library.

Memory is kept under a name. A guess that two agents share gives one the other's memory, so nothing is guessed: the name
is the base name of a program, or of the script that an interpreter was given as its first word, as it stands. What runs
other people's programs (an interpreter, a server of applications, a test runner, a notebook kernel, a shell) has a name
that tells nothing; and where an option stands before the script, which word is the script takes knowing that program.
"""

import os
import re
from collections.abc import Sequence
from typing import Final

from .named_tuple import NamedTuple

__all__ = ["Application", "application"]

_INTERPRETER: Final = re.compile(r"(python|pypy)[0-9.]*(dt?|t)?|node|nodejs|ruby[0-9.]*|perl[0-9.]*|php[0-9.]*")
"""Programs whose first word, unless it is an option, is the script that they run."""

_SCRIPT: Final = re.compile(r"\.(py|pyw|pyc|pyz|js|mjs|cjs|ts|mts|cts|rb|pl|php|exe)")
_FLAG: Final = re.compile(r"-[bBdEiIOPqsSuvx]+")
"""Options of Python that take no value, so that the script can follow."""

_RUNNERS: Final = frozenset(
    (
        *("bun", "bunx", "deno", "dotnet", "electron", "go", "java", "make", "nodemon", "npm", "npx", "pm2", "pnpm"),
        *("ts-node", "tsx", "yarn", "cargo", "code", "cursor"),
        *("conda", "hatch", "mamba", "micromamba", "nox", "pdm", "pipenv", "pipx", "poetry", "rye", "tox", "uv", "uvx"),
        *("celery", "chainlit", "daphne", "fastapi", "flask", "gradio", "granian", "gunicorn", "hypercorn", "marimo"),
        *("streamlit", "uvicorn", "uwsgi", "watchmedo", "py.test", "pytest", "unittest", "__main__"),
        *("ipykernel_launcher", "ipython", "jupyter", "jupyter-lab", "jupyter-notebook"),
        *("bash", "busybox", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh"),
        *("cron", "crond", "docker-init", "doas", "dumb-init", "env", "init", "login", "nohup", "screen", "setsid"),
        *("sshd", "strace", "su", "sudo", "supervisord", "systemd", "timeout", "tini", "tmux", "xargs"),
    )
)
"""Programs and scripts that run other people's. Not all there are; that one is missing here is a fault."""


class Application(NamedTuple):
    """What the command line tells. Either `name` is known or `why_not` says why it is not."""

    name: str
    why_not: str = ""


def application(words: Sequence[str]) -> Application:
    """The application whose command line is `words`, the program itself first."""
    program = os.path.basename(words[0]) if words else ""
    if not program:
        return Application("", "the system does not tell which program launched this one")
    name = program
    if _INTERPRETER.fullmatch(program.lower().removesuffix(".exe")):
        # A directory that holds a program may be named with a slash after it.
        name = os.path.basename(_script(program, words[1:]).rstrip("/"))
        if not name:
            return Application("", f"{program} launched this, and its command line does not start with a script")
    name = _without_suffix(name)
    if name.lower() in _RUNNERS or _INTERPRETER.fullmatch(name.lower()):
        return Application("", f"{name} launched this, which runs other people's programs")
    return Application(name)


def _script(program: str, words: Sequence[str]) -> str:
    """The script among the words that an interpreter was given; "" if which one it is takes knowing its options."""
    python = program.startswith(("python", "pypy"))
    for word in words:
        if word.startswith("-") or not word:
            if python and _FLAG.fullmatch(word):
                continue
            return ""
        return word
    return ""


def _without_suffix(name: str) -> str:
    stem, suffix = os.path.splitext(name)
    return stem if stem and _SCRIPT.fullmatch(suffix.lower()) else name
