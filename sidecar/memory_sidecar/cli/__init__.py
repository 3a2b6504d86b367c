"""The command line: one module a command, each with `configure` and `run`; a command is imported when it is used.

Exit statuses: 0 done; 1 something was found wrong or left out, and is named; 2 audit could not see all; 64 wrong
usage, 77 a refusal by policy and 78 a configuration or directory that cannot be used, as in sysexits.h; 130
interrupted, 143 terminated, 129 hung up, 141 nobody reads stdout.
"""

import gc
import os
import sys

from ..exits import EX_CONFIG, StartError
from ..hints import TYPE_CHECKING, Final
from ..named_tuple import NamedTuple

if TYPE_CHECKING:
    import argparse

__all__ = ["COMMANDS", "Command", "build_parser", "main"]


class Command(NamedTuple):
    """A command: the module that has its `configure` and `run`, and its line in the list of commands."""

    module: str
    summary: str


COMMANDS: Final = {
    "serve": Command("serve", "serve one harness on stdin and stdout (started by the harness, with a launch ticket)"),
    "audit": Command(
        "review.audit",
        "look for memory tools on MCP servers, A2A cards and in MCP host configurations, as a stranger would",
    ),
    "info": Command("review.info", "show where memory is kept, with which tools and limits; touches nothing"),
    "doctor": Command(
        "review.doctor", "find what is wrong with a configuration, its store and its journals, and say what mends it"
    ),
    "permissions": Command(
        "review.permissions", "print the least permissions that a broker must give for a configuration"
    ),
    "schema": Command("review.schema", "print the JSON Schema of a configuration, for editors and other checkers"),
    "try": Command("trying", "be the harness yourself: list, read and write by hand, and watch refusals"),
    "list": Command("notes.listing", "list the notes of a memory"),
    "show": Command("notes.show", "show one note"),
    "export": Command("notes.exporting", "write a whole memory to one file"),
    "import": Command("notes.importing", "read a memory from such a file"),
    "copy": Command("notes.copying", "copy a memory from one configuration's store to another's"),
    "quarantine": Command("notes.quarantine", "move a note out of every later run's reach, and back"),
    "runs": Command("runs.runs", "list, show and prune runs; tell which runs saw a note"),
    "completion": Command("completion", "print a completion script for a shell"),
}

_EPILOG: Final = """\
A harness launches `memory-sidecar serve` as its subprocess and gives its model the memory tools,
which `memory-sidecar info` names. It is private to that harness: it is not an MCP
server for other programs, and it refuses to become one.

In Python, do not run it by hand; write

    from memory_sidecar.harness import MemorySidecar

    async with MemorySidecar.launch(identity="my-agent", store_dir="state") as memory:
        async with memory.run("monday") as run:
            ...  # give run.tools and run.instructions to your model, and its calls to run.call(name, arguments)

`memory-sidecar COMMAND --help` tells more about a command."""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["serve"]:
        # The harness waits for this one: nothing of the other commands is imported or built, and no garbage is looked
        # for among modules, of which a launch makes none.
        gc.disable()
        try:
            from . import serve
        except Exception as error:  # noqa: BLE001 - of an import, whatever a module of others may raise
            return _cannot_be_loaded(error)
        options = serve.quick(words[1:])
        if options is not None:
            return serve.serve_harness(options)
    from .shared.failure import Failure, guarded

    chosen = words[0] if words and words[0] in COMMANDS else None

    def command() -> int:
        try:
            arguments = build_parser(chosen).parse_args(words)
        except Failure as wrong:
            from ..wire.stdio import TICKET_VARIABLE

            # A harness that holds a ticket is answered: it would see only a closed pipe.
            if chosen == "serve" and TICKET_VARIABLE in os.environ:
                return serve.serve_harness({}, StartError(wrong.problem, wrong.remedy))
            raise
        status: int = arguments.call(arguments)
        return status

    return guarded(f"memory-sidecar {chosen}" if chosen else "memory-sidecar", command)


def _cannot_be_loaded(error: Exception) -> int:
    """`serve` is not there in full: tell the harness, if there is one, and whoever reads stderr."""
    from ..wire.last_word import answer_alone, explained
    from ..wire.stdio import TICKET_VARIABLE

    reason = explained(error)
    sys.stderr.write(f"memory-sidecar serve: {reason}\n")
    return answer_alone(0, 1, reason) if os.environ.get(TICKET_VARIABLE) else EX_CONFIG


def build_parser(only: str | None = None) -> "argparse.ArgumentParser":
    """The parser of every command. With `only`, the other commands are named but not imported."""
    import argparse
    from importlib import import_module

    from ..version import __version__
    from .shared.parser import parser_class

    made_by = parser_class()
    plain = argparse.RawDescriptionHelpFormatter
    parser = made_by(
        prog="memory-sidecar",
        description="Private, durable memory for agents, served to the one harness that launched it.",
        epilog=_EPILOG,
        formatter_class=plain,
    )
    parser.add_argument("--version", action="version", version=f"memory-sidecar {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=made_by)
    for name, (module_name, summary) in COMMANDS.items():
        if only not in (None, name):
            commands.add_parser(name, help=summary, add_help=False)
            continue
        module = import_module(f".{module_name}", __name__)
        command = commands.add_parser(name, help=summary, description=module.__doc__, formatter_class=plain)
        module.configure(command)
        command.set_defaults(call=module.run)
    return parser
