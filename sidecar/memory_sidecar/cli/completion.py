"""Print a script that teaches a shell to complete this command.

  bash  memory-sidecar completion bash > ~/.local/share/bash-completion/completions/memory-sidecar
  zsh   memory-sidecar completion zsh > ~/.zfunc/_memory-sidecar        (with ~/.zfunc in fpath)
  fish  memory-sidecar completion fish > ~/.config/fish/completions/memory-sidecar.fish

Exit statuses: 0 done; 1 the package shtab is missing; 64 wrong usage.
"""

import argparse

from .shared.failure import Failure

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(arguments: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError as error:
        raise Failure("completion needs the package shtab", "install it: pip install 'memory-sidecar[cli]'") from error
    from . import build_parser

    parser = build_parser()
    for action in _options(parser):
        if action.metavar == "FILE":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar == "DIR":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, arguments.shell))
    return 0


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found: list[argparse.Action] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to its own options
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for one in set(action.choices.values()):
                found += _options(one)
    return found
