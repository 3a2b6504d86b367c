"""Show one note: its key, revision, description and content.

Characters that a terminal would obey, or not show, are written out (`\\x1b`, `\\u202e`), which tells a planted note
from a harmless one. --raw gives the content byte for byte, to a file or a pipe; --json gives all of it exactly.

Exit statuses: 0 done; 1 there is no such note, or it cannot be read; 64 wrong usage; 78 the configuration or the memory
cannot be used.
"""

import argparse
import sys

from ...exits import EX_USAGE
from ...plain import visible
from ...store.document import other_lines
from ...store.errors import InvalidError, KeyNotFoundError, UnreadableError
from ...store.portable import members
from ...store.scope import Scope
from ..shared.failure import Failure
from ..shared.memory import opened, unreadable
from ..shared.places import PLACES, add_options, places
from ..shared.remedy import command
from ..shared.report import add_json, on_terminal, print_json, shown_revision

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY")
    add_options(parser, PLACES)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--raw", action="store_true", help="the content alone, byte for byte; not to a terminal")
    add_json(form)


def run(arguments: argparse.Namespace) -> int:
    if arguments.raw and on_terminal():
        raise Failure(
            "--raw would let the note drive this terminal",
            "send it to a file or a pipe, or leave --raw out",
            status=EX_USAGE,
        )
    scope = Scope()
    with opened(places(vars(arguments))) as memory:
        try:
            entry = memory.read(arguments.key, scope)
        except InvalidError as error:
            raise Failure(str(error), status=EX_USAGE) from error
        except KeyNotFoundError as error:
            raise Failure(
                f"there is no note {visible(arguments.key, lines=False)}", "see " + command(vars(arguments), "list")
            ) from error
        except UnreadableError as error:
            raise Failure(*unreadable(memory, arguments.key, error)) from error
    revision = scope.revision(arguments.key)
    if arguments.raw:
        sys.stdout.buffer.write(entry.content.encode())
    elif arguments.json:
        print_json({"key": arguments.key, "revision": revision, **members(entry)})
    else:
        print(f"key          {arguments.key}")
        print(f"revision     {shown_revision(revision)}")
        print(f"description  {visible(entry.description, lines=False)}")
        for line in other_lines(entry.header).splitlines():  # a read hands them to the model, so a person sees them too
            print(f"header       {visible(line, lines=False)}")
        print()
        print(visible(entry.content), end="" if entry.content.endswith("\n") else "\n")
    return 0
