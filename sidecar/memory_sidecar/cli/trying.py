"""Be the harness and the model yourself: launch a real sidecar, call its tools by hand, and watch refusals.

Without --config and --store-dir it plays in a scratch directory, with read-before-update on, which is removed at the
end. Type help at the prompt. Commands may also be piped in, one a line.

Exit statuses: 0 done; 1 the sidecar died; 64 wrong usage; 78 the configuration or a directory cannot be used; 130
interrupted (the run is suspended).
"""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from ..assemble import settle
from ..backend.choose import describe, is_brought
from ..exits import EX_CONFIG, EX_USAGE
from ..plain import visible
from ..run.terms import is_run_id
from .shared.failure import Failure
from .shared.places import PLACES, add_options, places
from .shared.remedy import PROGRAM
from .shared.report import print_table
from .shared.whose import check_named

if TYPE_CHECKING:
    from ..harness.sync import MemorySidecar, Run

__all__ = ["configure", "run"]

_CONFIG: Final = """\
identity: try
harness:
  memory:
    enabled: true
    options:
      require_read_before_update: true
"""

_HELP: Final = """\
  list                                  what the model sees of all notes
  read KEY                              one note; earns the authority to overwrite it
  write KEY "DESCRIPTION" "CONTENT"     a new note; refused if the key is taken
  overwrite KEY "DESCRIPTION" "CONTENT" replace a note; refused if this run has not read it as it is now
  delete KEY
  call TOOL {"json": "arguments"}       any tool call, also a wrong one

  instructions                          what the harness puts into the model's system prompt
  tools                                 the tools the model gets
  scope                                 which notes this run may overwrite, and at which revision, as it last ended
  runs                                  all runs
  suspend                               end the run and its process; the authority is in the journal
  resume                                launch a new process and go on with that authority
  new [RUN]                             suspend, and open another run: as a stranger to what the first one read
  finish                                complete the run, for good
  quit"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, PLACES)
    parser.add_argument("--run", dest="run_id", metavar="ID", default="try", help="the run's id (default: try)")


def run(arguments: argparse.Namespace) -> int:
    from ..harness import SidecarError, StartError

    if not is_run_id(arguments.run_id):
        raise Failure(
            "--run is an id of 1 to 128 letters, digits, _ and -, starting with a letter or digit", status=EX_USAGE
        )
    if sys.stdin is None:
        raise Failure("stdin is closed", "type commands at a terminal, or send them to it, one a line", status=EX_USAGE)
    try:
        with ExitStack() as stack:
            launch = stack.enter_context(_launching(arguments))
            table = stack.enter_context(_Table(launch))
            table.open(arguments.run_id)
            _converse(table)
    except StartError as error:
        raise Failure(str(error), status=EX_CONFIG) from error
    except SidecarError as error:
        raise Failure(str(error)) from error
    return 0


@contextmanager
def _launching(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    given = places(vars(arguments))
    if given.config or given.store_dir or given.journal_dir:
        check_named(describe(*settle(given), given.store_dir), given)
        yield {
            "config": given.config,
            "identity": given.identity,
            "store_dir": given.store_dir,
            "journal_dir": given.journal_dir,
        }
        return
    with tempfile.TemporaryDirectory(prefix="memory-sidecar-try-") as scratch:
        config = os.path.join(scratch, "memory.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(_CONFIG)
        print(
            f"A scratch memory in {scratch}, gone when you leave; --store-dir DIR --identity NAME plays with another."
        )
        yield {"config": config, "identity": given.identity, "store_dir": scratch}


class _Held:
    """The sidecar's log: held back until it has started, as what keeps it from that is told without it."""

    def __init__(self) -> None:
        self._held: list[str] | None = []

    def write(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
        else:
            sys.stderr.write(text)

    def release(self) -> None:
        held, self._held = self._held or [], None
        for text in held:
            sys.stderr.write(text)


class _Table:
    """What lies on the table: a launched sidecar and the open run, or neither while it is suspended."""

    def __init__(self, launch: Mapping[str, Any]) -> None:
        self._launch = launch
        self._stack = ExitStack()
        self._memory: MemorySidecar | None = None
        self._run: Run | None = None
        self.id = ""

    def __enter__(self) -> "_Table":
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stack.__exit__(*failure)

    @property
    def is_open(self) -> bool:
        return self._run is not None

    @property
    def run(self) -> "Run":
        if self._run is None:
            raise _Unknown(f"run {self.id} is not open; type resume, or new")
        return self._run

    def open(self, run_id: str | None, resume: str = "auto") -> None:
        from ..harness.sync import MemorySidecar

        self._end()
        try:
            # A program that brings a store of its own launches itself.
            command = [*PROGRAM, "serve"] if is_brought() else None
            said = _Held()
            launched = MemorySidecar.launch(command=command, stderr=said, **self._launch)  # type: ignore[arg-type]
            memory = self._stack.enter_context(launched)
            opened = self._stack.enter_context(memory.run(run_id, resume=resume))  # type: ignore[arg-type]
            said.release()
        except BaseException:
            self._end()
            raise
        self._memory, self._run, self.id = memory, opened, opened.id
        print(f"run {opened.id} is {'resumed' if opened.resumed else 'open'}, in a new process; type help for help")

    def suspend(self) -> None:
        run = self.run
        self._end()
        held = ", ".join(run.scope["keys"]) or "nothing"
        print(f"run {run.id} is suspended and its process has ended; it may overwrite: {held}")

    def finish(self) -> None:
        run = self.run
        run.finish()
        self._end()
        print(f"run {run.id} is completed; it cannot be resumed")

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        return self.run.call(tool, arguments)

    def runs(self) -> list[dict[str, Any]]:
        self.run  # noqa: B018 - says what to do, if it is not open
        assert self._memory is not None  # noqa: S101 - it is with the run
        return self._memory.runs()

    def _end(self) -> None:
        self._memory = self._run = None
        self._stack.close()


class _Unknown(Exception):  # noqa: N818 - an answer, not an error
    """What was typed cannot be done. The text says what can."""


def _converse(table: _Table) -> None:
    from ..harness import RequestRefusedError

    typed = sys.stdin.isatty()
    if typed:
        with suppress(ImportError):
            import readline  # noqa: F401 - editing and history for input()
    while True:
        prompt = f"{table.id}{'' if table.is_open else ' (suspended)'}> "
        try:
            line = input(prompt if typed else "")
        except EOFError:
            print()
            return
        if not typed:
            print(f"{prompt}{visible(line, lines=False)}")
        try:
            words = shlex.split(line)
            if words[:1] in (["quit"], ["exit"]):
                return
            if words:
                _do(table, words, line)
        except ValueError:
            print("a quotation mark is not closed")
        except (_Unknown, RequestRefusedError) as answer:
            print(visible(str(answer)))


def _do(table: _Table, words: list[str], line: str) -> None:
    name, *arguments = words
    command = _COMMANDS.get(name)
    if command is None:
        raise _Unknown(f"there is no command {name}; type help")
    least, most, function = command
    if name == "call":
        arguments = line.split(maxsplit=2)[1:]  # JSON keeps its quotation marks
    if not least <= len(arguments) <= most:
        raise _Unknown(f"{name} takes {_amount(least, most)}; type help")
    function(table, *arguments)


def _amount(least: int, most: int) -> str:
    if most == 0:
        return "nothing"
    count = str(least) if least == most else f"{least} to {most}"
    return f"{count} {'word' if most == 1 else 'words; quote a text with spaces'}"


def _call(table: _Table, tool: str, **arguments: Any) -> None:
    answer = table.call(tool, arguments)
    structured = answer.structured
    if structured is None:
        print(f"error: {visible(answer.text)}")
    elif "memories" in structured:
        notes = structured["memories"]
        if not notes:
            print("This memory is empty.")
        print_table(("KEY", "DESCRIPTION"), [(note["key"], note["description"]) for note in notes])
    elif structured.get("found"):
        print(f"{structured['key']}: {visible(structured['description'], lines=False)}\n")
        print(visible(structured["content"]))
    elif "reason" in structured:
        print(f"refused ({structured.get('code', 'not found')}): {visible(structured['reason'])}")
    else:
        print(visible(answer.text))
    if table.run.unsaved:
        print(f"note: the authority is not saved: {table.run.unsaved}")


def _call_any(table: _Table, tool: str, text: str = "{}") -> None:
    import json

    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Unknown('the arguments are a JSON object, as in {"key": "layout"}') from error
    if not isinstance(arguments, dict):
        raise _Unknown('the arguments are a JSON object, as in {"key": "layout"}')
    print(visible(table.call(tool, arguments).text))


def _scope(table: _Table) -> None:
    keys = table.run.scope["keys"]
    print("when it was opened, this run could overwrite: " + (", ".join(keys) or "nothing"))


def _runs(table: _Table) -> None:
    print_table(("RUN", "STATE"), [(run["run"], run["state"]) for run in table.runs()], styled=1)


def _tools(table: _Table) -> None:
    print_table(("TOOL", "DESCRIPTION"), [(tool["name"], tool["description"]) for tool in table.run.tools])


def _open_new(table: _Table, run_id: str | None = None) -> None:
    if run_id is not None and not is_run_id(run_id):
        raise _Unknown("a run id is 1 to 128 letters, digits, _ and -, starting with a letter or digit")
    if table.is_open:
        table.suspend()
    table.open(run_id, "never")


def _resume(table: _Table) -> None:
    if table.is_open:
        raise _Unknown(f"run {table.id} is open; suspend it first")
    table.open(table.id, "require")


_COMMANDS: Final[dict[str, tuple[int, int, Callable[..., None]]]] = {
    "help": (0, 0, lambda _table: print(_HELP)),
    "list": (0, 0, lambda table: _call(table, "memory_list")),
    "read": (1, 1, lambda table, key: _call(table, "memory_read", key=key)),
    "write": (
        3,
        3,
        lambda table, key, about, text: _call(table, "memory_write", key=key, description=about, content=text),
    ),
    "overwrite": (
        3,
        3,
        lambda table, key, about, text: _call(
            table, "memory_write", key=key, description=about, content=text, overwrite=True
        ),
    ),
    "delete": (1, 1, lambda table, key: _call(table, "memory_delete", key=key)),
    "call": (1, 2, _call_any),
    "instructions": (0, 0, lambda table: print(visible(table.run.instructions))),
    "tools": (0, 0, _tools),
    "scope": (0, 0, _scope),
    "runs": (0, 0, _runs),
    "suspend": (0, 0, lambda table: table.suspend()),
    "resume": (0, 0, _resume),
    "new": (0, 1, _open_new),
    "finish": (0, 0, lambda table: table.finish()),
}
"""How many words each takes, and what it does."""
