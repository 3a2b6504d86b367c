"""A simple model of a store and of each run's authority, and a machine that plays both against the real ones.

Moves: several runs call the tools; another writer changes notes behind their backs; a run is suspended, killed
(its journal is let go in the middle, nothing is said) or finished, and resumed by one that knows nothing. After
every move the tools' answers, the scopes and the journals must be what the model says.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from tests.support import properties

from memory_sidecar.run import journal
from memory_sidecar.run.session import Run, Setting
from memory_sidecar.run.terms import RunBusyError, RunRefusedError
from memory_sidecar.store.authority import Store
from memory_sidecar.store.errors import KeyExistsError, KeyNotFoundError
from memory_sidecar.tools.catalog import Catalog

KEYS = st.sampled_from(["a", "b", "a.b"])
TEXTS = st.sampled_from(["one", "two", "three: 3"])
Note = tuple[str, str]


class Machine(RuleBasedStateMachine):
    """Subclasses say how to open a store, and whether an overwrite needs a read."""

    guard: bool
    revisions_repeat: bool
    """Whether equal notes have equal revisions (files), so that a value that returns is authority again."""

    refusals: tuple[type[Exception], ...] = (RunRefusedError, RunBusyError)
    """How it is told that a run cannot be opened."""
    moves: Counter[str]
    """How often each move was made, over all examples; every subclass has its own."""

    runs = Bundle("runs")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.moves = Counter()

    def open_store(self, place: Path) -> Store:
        raise NotImplementedError

    @initialize(target=runs)
    def begin(self) -> Any:
        self.place = TemporaryDirectory()
        self.store = self.open_store(Path(self.place.name))
        self.other = self.open_store(Path(self.place.name))
        self.notes: dict[str, tuple[Note, int]] = {}
        self.clock = 0
        self.open: dict[str, Any] = {}
        self.seen: dict[str, dict[str, tuple[Note, int]]] = {}
        self.count = 0
        return multiple(self.start(), self.start())

    def teardown(self) -> None:
        if hasattr(self, "place"):
            for run in self.open.values():
                run._journal.close()
            self.place.cleanup()

    def new_run(self) -> str:
        """An id that no run had."""
        self.count += 1
        return f"run{self.count}"

    # --- what the model says -----------------------------------------------------------------------------------

    def put(self, key: str, note: Note) -> None:
        self.clock += 1
        self.notes[key] = (note, self.clock)

    def current(self, run: str, key: str) -> bool:
        """Whether what the run has seen of the key is what is stored."""
        seen, now = self.seen[run].get(key), self.notes.get(key)
        if seen is None or now is None:
            return False
        return seen[0] == now[0] if self.revisions_repeat else seen == now

    # --- moves -------------------------------------------------------------------------------------------------

    @rule(target=runs)
    def start(self) -> str:
        run = self.new_run()
        self.moves["run started"] += 1
        self.seen[run] = {}
        self._open(run, "never")
        return run

    def _open(self, run: str, resume: Any) -> None:
        journal._LOOK = 0.0  # nobody else looks at these journals
        catalog = Catalog(enabled=True, read_only=False)
        journals = str(Path(self.place.name) / "runs")
        opened = Run(run, Setting(self.store, "the store", catalog, True, "model", journals))
        opened.open(resume)
        opened.begin()
        assert opened.resumed == (resume == "require")
        self.open[run] = opened

    def _leave(self, run: str, how: Any) -> None:
        left = self.open.pop(run)
        if how == "killed":
            left._journal.close()
        else:
            left.end(how)

    def _held(self, run: str) -> set[str]:
        """The keys over which the run has authority."""
        return set(self.open[run].scope()["keys"])

    def _call(self, run: str, tool: str, **arguments: object) -> dict[str, Any]:
        self.moves[tool] += 1
        answer = self.open[run].call(tool, arguments)
        assert answer.unsaved is None
        assert answer.outcome.error is None
        return answer.outcome.structured

    @rule(run=runs, key=KEYS)
    def read(self, run: str, key: str) -> None:
        answer = self._call(run, "memory_read", key=key)
        assert answer["found"] == (key in self.notes)
        if answer["found"]:
            assert (answer["description"], answer["content"]) == self.notes[key][0]
            self.seen[run][key] = self.notes[key]
        else:
            self.seen[run].pop(key, None)

    @rule(run=runs, key=KEYS, description=TEXTS, content=TEXTS)
    def create(self, run: str, key: str, description: str, content: str) -> None:
        answer = self._call(run, "memory_write", key=key, description=description, content=content)
        if key in self.notes:
            assert answer["code"] == "exists"
            assert self.notes[key][0][0] in answer["reason"]
        else:
            assert answer["written"]
            self.put(key, (description, content))
            self.seen[run][key] = self.notes[key]

    @rule(run=runs, key=KEYS, description=TEXTS, content=TEXTS)
    def overwrite(self, run: str, key: str, description: str, content: str) -> None:
        answer = self._call(run, "memory_write", key=key, description=description, content=content, overwrite=True)
        if self.guard and not self.current(run, key):
            assert answer["code"] == ("changed" if key in self.seen[run] else "not_read")
            self.seen[run].pop(key, None)
        else:
            assert answer["written"]
            self.put(key, (description, content))
            self.seen[run][key] = self.notes[key]

    @rule(run=runs, key=KEYS)
    def delete(self, run: str, key: str) -> None:
        assert self._call(run, "memory_delete", key=key)["deleted"] == (key in self.notes)
        self.notes.pop(key, None)
        self.seen[run].pop(key, None)

    @rule(run=runs)
    def list(self, run: str) -> None:
        listed = {item["key"]: item["description"] for item in self._call(run, "memory_list")["memories"]}
        assert listed == {key: note[0] for key, (note, _) in self.notes.items()}

    @rule(key=KEYS, description=TEXTS, content=TEXTS, remove=st.booleans())
    def another_writer(self, key: str, description: str, content: str, remove: bool) -> None:
        self.moves["another writer"] += 1
        try:
            self.other.delete(key)
            self.notes.pop(key, None)
            if not remove:
                self.other.create(key, description, content)
                self.put(key, (description, content))
        except (KeyExistsError, KeyNotFoundError) as error:
            raise AssertionError("nobody else writes") from error

    @rule(run=runs, how=st.sampled_from(["suspended", "killed", "error", "budget", "max_iterations"]))
    def leave_and_resume(self, run: str, how: Any) -> None:
        self.moves[f"run left: {how}"] += 1
        self._leave(run, how)
        if run not in self.open:  # whoever kills more than one run resumes them all
            self._open(run, "require")
        assert self._held(run) == set(self.seen[run])

    @rule(target=runs, run=consumes(runs))
    def complete(self, run: str) -> Any:
        self._leave(run, "completed")
        for resume in ("auto", "require", "never"):
            try:
                self._open(run, resume)
            except self.refusals:
                continue
            raise AssertionError("a completed run was opened")
        self.seen.pop(run)
        return multiple()

    @rule(run=runs)
    def open_twice(self, run: str) -> None:
        with pytest.raises(self.refusals, match="is open"):
            self._open(run, "auto")

    @invariant()
    def scopes_agree(self) -> None:
        for run in getattr(self, "open", {}):
            assert self._held(run) == set(self.seen[run])


def settle(machine: type[Machine], examples: int, steps: int) -> Callable[..., Any]:
    """The machine as a test case, with bounds that suit its speed."""
    from hypothesis import settings

    case = machine.TestCase
    case.settings = settings(max_examples=properties.examples(examples), stateful_step_count=steps)
    return case
