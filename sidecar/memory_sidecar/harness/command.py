"""The command line of a launch: `serve` with the options that were given, and a name for this application."""

import os
import sys
from collections.abc import Sequence
from typing import Final, Literal, TypedDict

from ..launched_by import application
from .errors import StartError

__all__ = ["LaunchOptions", "StrPath", "command_line"]

StrPath = str | os.PathLike[str]


class LaunchOptions(TypedDict, total=False):
    """The options of `memory-sidecar serve` that a launch may set, each named as there with `_` for `-`.

    Paths are relative to the working directory. None is as good as not given.
    """

    config: StrPath | None
    """The YAML file with `identity`, `nats_context` and `harness.memory`; without one, memory is on, in files."""
    identity: str | None
    """The agent's name; it overrides the configuration's. Neither: the base name of the script or program that this is,
    where that is certain: not under a runner such as uvicorn or pytest, in a notebook, or with `python -m`."""
    many_identities: bool | None
    """Whether each run is opened for an identity of its own, in place of one for the launch: a service with many users
    needs one process then. What they share is in SECURITY.md."""
    store_dir: StrPath | None
    """The store base, under which relative memory directories and the journal lie; the working directory by default."""
    journal_dir: StrPath | None
    """Where runs are journaled; `runs` under the store base by default, else the user's state directory."""
    keep_runs: str | None
    """How long journals of runs that are over are kept, as in `30d`; for ever by default. It overrides the
    configuration. Each launch removes older ones, never of a run that is open, suspended or interrupted."""
    lockdown: Literal["auto", "require", "off"] | None
    """Whether the sidecar gives up the rights that it does not need: all that the system offers (`auto`, the default),
    all or no start (`require`), or none (`off`)."""
    log_level: Literal["error", "warning", "info", "debug"] | None
    """Which events it tells on its stderr; `warning` by default."""
    log_format: Literal["text", "json"] | None
    """How it tells them, one line each; `text` by default."""


_PROGRAM: Final = "from memory_sidecar.__main__ import main; raise SystemExit(main())"
"""What `-m memory_sidecar` does, without the modules that Python loads for `-m`: a thirtieth of a launch."""


_BESIDE: Final = ("command", "env", "stderr", "restarts")
"""What `MemorySidecar.launch` takes beside the options of `serve`."""


def command_line(
    command: Sequence[StrPath] | None,
    options: LaunchOptions,
    run: str | None = None,
    beside: Sequence[str] = _BESIDE,
) -> list[str]:
    """The words that start the sidecar; `command` is how, `serve` included, the one of this Python by default.

    `beside` names what the caller takes beside options of `serve`, for whoever misspells one of either.

    Raises:
        TypeError: there is no such option, or a value is neither text nor a path.
        StartError: no command is given, and this Python cannot be started anew.
    """
    unknown = ", ".join(options.keys() - LaunchOptions.__annotations__.keys())
    if unknown:
        known = ", ".join((*LaunchOptions.__annotations__, *beside))
        raise TypeError(f"{unknown} is no option here; the options are: {known}")
    # `-P` keeps what lies in the working directory from being imported by the sidecar.
    if isinstance(command, str | bytes) or (command is not None and not command):
        raise TypeError('command is a list of words, such as ["memory-sidecar", "serve"]; leave it out for the default')
    words = [_text("a word of command", word) for word in (_this_python() if command is None else command)]
    given: dict[str, object] = {**options, "run": run}
    many = given.pop("many_identities", None)
    if many is not None and not isinstance(many, bool):
        raise TypeError(f"many_identities is of type {type(many).__name__}; give True or False")
    if many:
        words.append("--many-identities")
    for name, value in given.items():
        if value is not None:
            option, text = f"--{name.replace('_', '-')}", _text(name, value)
            # A value that looks like an option needs the longer form; the sidecar reads the other one faster.
            words += [f"{option}={text}"] if text.startswith("-") else [option, text]
    name = application(sys.orig_argv).name  # where it is not certain the sidecar says what to set
    return [*words, "--default-identity", name] if name else words


def _this_python() -> Sequence[StrPath]:
    if not sys.executable or getattr(sys, "frozen", False):  # embedded in another program, or frozen into one
        raise StartError(
            "this program has no Python of its own to start the memory sidecar with; install memory-sidecar for one, "
            'and give command=["/path/to/memory-sidecar", "serve"]'
        )
    return sys.executable, "-P", "-c", _PROGRAM, "serve"


def _text(name: str, value: object) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{name} is of type {type(value).__name__}; give it as text or as a path")
    return text
