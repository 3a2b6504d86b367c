"""The command line: one module a command, each with `configure` and `run`; a command is imported when it is used.

Exit statuses are those of sysexits.h: 64 for wrong usage, 77 for a refusal by policy, 78 for a configuration that
cannot be used.
"""

import sys
from importlib import import_module
from typing import Final, NoReturn

__all__ = ["COMMANDS", "EX_USAGE", "main"]

EX_USAGE: Final = 64

COMMANDS: Final = {
    "serve": "serve one harness on stdin and stdout (started by the harness, with a launch ticket)",
    "audit": "look for memory tools on MCP servers, A2A cards and in MCP host configurations, as a stranger would",
    "info": "show where memory is kept, with which tools and limits; touches nothing",
}

_EPILOG: Final = """\
A harness launches `memory-sidecar serve` as its subprocess and gives its model the four memory tools:
memory_list, memory_read, memory_write and memory_delete. It is private to that harness: it is not an MCP
server for other programs, and it refuses to become one.

In Python, do not run it by hand; write

    from memory_sidecar.harness import MemorySidecar

    async with MemorySidecar.launch(store_dir="state") as memory:
        async with memory.run("monday") as run:
            ...  # give run.tools and run.instructions to your model, and its calls to run.call(name, arguments)

`memory-sidecar COMMAND --help` tells more about a command."""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["serve"]:
        # The harness waits for this one: nothing of the other commands is imported or built.
        from . import serve

        options = serve.quick(words[1:])
        if options is not None:
            return serve.serve_harness(options)
    return _parse(words)


def _parse(words: list[str]) -> int:
    import argparse

    from ..version import __version__

    class Parser(argparse.ArgumentParser):
        """Wrong usage exits with 64, as sysexits.h has it, and says how to go on."""

        def error(self, message: str) -> NoReturn:
            self.exit(EX_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")

    plain = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="memory-sidecar",
        description="Private, durable memory for agents, served to the one harness that launched it.",
        epilog=_EPILOG,
        formatter_class=plain,
    )

    parser.add_argument("--version", action="version", version=f"memory-sidecar {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, summary in COMMANDS.items():
        module = import_module(f".{name}", __name__)
        command = commands.add_parser(name, help=summary, description=module.__doc__, formatter_class=plain)
        module.configure(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args(words)
    status: int = arguments.run(arguments)
    return status
