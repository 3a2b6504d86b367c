"""The model of authority with several identities in one process, whose runs have the same ids.

Moves beside the calls: the whole state is moved elsewhere, an identity's notes are saved, restored or made anew, and
journals are copied over others. No run ever overwrites what it has not seen, whatever was moved; and what it has seen
stays its own where the store is the same one.
"""

import json
import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support import properties

from memory_sidecar.assemble import Arguments, prepare
from memory_sidecar.run import journal
from memory_sidecar.run.session import Run
from memory_sidecar.run.terms import JournalError, RunBusyError
from memory_sidecar.system import files

RUNS = st.sampled_from(["main", "other"])
KEYS = st.sampled_from(["plan", "b.plan"])
TEXTS = st.sampled_from(["one", "two"])
Who = tuple[str, str]
Note = tuple[str, int]
"""A text, and which of the writes of a text it is, where these can be told apart: on files they cannot."""


class Identities(RuleBasedStateMachine):
    """On files. Subclasses say how another store is opened, made anew, saved and restored."""

    names: ClassVar[list[str]] = ["a", "A", "a.b"]
    can_move: ClassVar[bool] = True
    moves: ClassVar[Counter[str]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.moves = Counter()

    @initialize()
    def begin(self) -> None:
        journal._LOOK = 0.0  # nobody else looks at these journals
        self.place = TemporaryDirectory()
        self.count = 0
        self.writes = 0
        self.base = Path(self.place.name) / "0"
        self.notes: dict[str, dict[str, Note]] = {}
        self.store: dict[str, int] = {}
        """Which store an identity has now: each that was made has a number."""
        self.saved: dict[str, tuple[dict[str, Note], int]] = {}
        self.open: dict[Who, Run] = {}
        self.seen: dict[Who, dict[str, Note]] = {}
        self.was_in: dict[Who, int] = {}
        """The store that a run was opened in last; of those that have a journal of their own."""
        self.foreign: set[Who] = set()
        self.used = False
        """Whether anything was called since the last move of this kind: else hypothesis makes little but such moves."""
        self._start()
        for identity in self.names[:2]:  # hypothesis may leave out any rule for a whole example, that of opening too
            self._open(identity, "main")

    def _start(self) -> None:
        config = Path(self.place.name) / "memory.json"
        config.write_text(json.dumps(self._config()))  # JSON is YAML that is read quickly
        arguments = Arguments(config=str(config), store_dir=str(self.base), many_identities="yes", lockdown="off")
        self.service = prepare(arguments).start()

    def _config(self) -> dict[str, Any]:
        return {"harness": {"memory": {"enabled": True, "options": {"require_read_before_update": True}}}}

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self._close()
            self.service.close()
            self.place.cleanup()

    def _note(self, text: str) -> Note:
        return text, 0

    def _counts_elsewhere(self, _seen: Note, _now: Note | None) -> bool:
        """Whether what was seen in another store gives authority over what is in this one."""
        return False

    def _close(self, identity: str | None = None) -> None:
        """Let go of runs as a process that is killed does: those of an identity, or all."""
        for who in [who for who in self.open if identity in (None, who[0])]:
            self.open.pop(who)._journal.close()

    def _directory(self, identity: str) -> Path:
        return self.base / "memory" / identity

    def _journal(self, who: Who) -> Path:
        return self.base / "runs" / who[0] / f"{who[1]}.jsonl"

    def _call(self, who: Who, tool: str, **arguments: object) -> dict[str, Any]:
        self.moves[tool] += 1
        answer = self.open[who].call(tool, arguments)
        assert answer.unsaved is None
        assert answer.outcome.error is None
        return answer.outcome.structured or {}

    # --- runs ----------------------------------------------------------------------------------------------------

    @rule(data=st.data(), name=RUNS)
    def open_run(self, data: st.DataObject, name: str) -> None:
        self._open(data.draw(st.sampled_from(self.names)), name)

    def _open(self, identity: str, name: str) -> None:
        who = (identity, name)
        run = Run(name, self.service.setting(identity))
        if identity not in self.store:  # the directory was made just now
            self.count += 1
            self.store[identity], self.notes[identity] = self.count, {}
        if who in self.open or who in self.foreign:
            with pytest.raises(RunBusyError if who in self.open else JournalError):
                run.open()
            if who not in self.open:  # as its message says
                self.moves["refused journal"] += 1
                self._journal(who).unlink()
                self.foreign.discard(who)
            return
        run.open()
        run.begin()
        assert run.resumed == (who in self.was_in)
        if self.was_in.get(who) != self.store[identity]:
            now, seen = self.notes[identity], self.seen.get(who, {}) if who in self.was_in else {}
            self.seen[who] = {key: note for key, note in seen.items() if self._counts_elsewhere(note, now.get(key))}
            self.moves["kept elsewhere"] += len(self.seen[who])
        self.was_in[who] = self.store[identity]
        self.open[who] = run
        self.moves["resumed" if run.resumed else "opened"] += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data(), kill=st.booleans())
    def leave(self, data: st.DataObject, kill: bool) -> None:
        run = self.open.pop(data.draw(st.sampled_from(sorted(self.open))))
        if kill:
            run._journal.close()
        else:
            run.end("suspended")

    @precondition(lambda self: self.open)
    @rule(data=st.data(), key=KEYS, text=TEXTS, tool=st.sampled_from(["read", "create", "overwrite", "delete", "list"]))
    def call(self, data: st.DataObject, key: str, text: str, tool: str) -> None:
        who = data.draw(st.sampled_from(sorted(self.open)))
        self.used = True
        notes, seen = self.notes[who[0]], self.seen[who]
        match tool:
            case "read":
                answer = self._call(who, "memory_read", key=key)
                assert answer.get("content") == (notes[key][0] if key in notes else None)
                seen.pop(key, None)
                if key in notes:
                    seen[key] = notes[key]
            case "delete":
                assert self._call(who, "memory_delete", key=key)["deleted"] == (key in notes)
                notes.pop(key, None)
                seen.pop(key, None)
            case "list":
                listed = {item["key"] for item in self._call(who, "memory_list")["memories"]}
                assert listed == set(notes)
            case _:
                arguments = {"key": key, "description": "words", "content": text, "overwrite": tool == "overwrite"}
                answer = self._call(who, "memory_write", **arguments)
                may = key not in notes if tool == "create" else key in notes and seen.get(key) == notes[key]
                assert answer["written"] == may, (who, key, answer)
                if may:
                    notes[key] = seen[key] = self._note(text)
                elif tool == "overwrite":
                    assert answer["code"] == ("changed" if key in seen else "not_read")
                    seen.pop(key, None)

    # --- what an operator does behind their backs -----------------------------------------------------------------

    @precondition(lambda self: self.can_move and self.used)
    @rule()
    def move_all(self) -> None:
        self.moves["moved"] += 1
        self.used = False
        self._close()
        self.service.close()
        self.count += 1
        moved = Path(self.place.name) / f"moved{self.count}"
        self.base.rename(moved)
        self.base = moved
        self._start()

    @precondition(lambda self: self.store and self.used)
    @rule(data=st.data())
    def make_anew(self, data: st.DataObject) -> None:
        self.moves["made anew"] += 1
        self.used = False
        self._make_anew(data.draw(st.sampled_from(sorted(self.store))))

    def _make_anew(self, identity: str) -> None:
        self._close(identity)
        shutil.rmtree(self._directory(identity))
        del self.store[identity]

    @precondition(lambda self: self.store)
    @rule(data=st.data())
    def save(self, data: st.DataObject) -> None:
        self._save(data.draw(st.sampled_from(sorted(self.store))))

    def _save(self, identity: str) -> None:
        self._close(identity)
        kept = Path(self.place.name) / f"saved-{identity}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self._directory(identity), kept)
        self.saved[identity] = dict(self.notes[identity]), self.store[identity]

    @precondition(lambda self: self.saved and self.used)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.moves["restored"] += 1
        self.used = False
        self._restore(data.draw(st.sampled_from(sorted(self.saved))))

    def _restore(self, identity: str) -> None:
        self._close(identity)
        shutil.rmtree(self._directory(identity), ignore_errors=True)
        shutil.copytree(Path(self.place.name) / f"saved-{identity}", self._directory(identity))
        notes, self.store[identity] = self.saved[identity]
        self.notes[identity] = dict(notes)

    @precondition(lambda self: self.was_in and self.used)
    @rule(data=st.data(), name=RUNS)
    def copy_a_journal(self, data: st.DataObject, name: str) -> None:
        self.used = False
        source = data.draw(st.sampled_from(sorted(self.was_in)))
        target = data.draw(st.sampled_from(self.names)), name
        if target in (source, *self.open):
            return
        self.moves["journal copied"] += 1
        self._journal(target).parent.mkdir(exist_ok=True)
        shutil.copy(self._journal(source), self._journal(target))
        self.was_in.pop(target, None)
        self.foreign.add(target)

    @invariant()
    def scopes_agree(self) -> None:
        for who, run in getattr(self, "open", {}).items():
            assert set(run.scope()["keys"]) == set(self.seen[who]), who


class OnFiles(Identities):
    """As it stands."""


WANTED = {"memory_write", "resumed", "made anew", "restored", "journal copied", "refused journal"}


def play(machine: type[Identities], examples: int, wanted: set[str]) -> None:
    case = machine.TestCase
    case.settings = settings(max_examples=properties.examples(examples), stateful_step_count=40)
    case().runTest()
    assert wanted <= set(machine.moves), machine.moves


@pytest.fixture(autouse=True)
def _no_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "flush", lambda _: True)  # no power is cut here, and thousands of flushes take minutes


@pytest.mark.parametrize("examples", [25, pytest.param(200, marks=pytest.mark.long)])
def test_no_run_overwrites_what_it_has_not_seen(examples: int, capsys: pytest.CaptureFixture[str]) -> None:
    play(OnFiles, examples, WANTED | {"moved"} if examples > 100 else {"memory_write"})
    with capsys.disabled():
        print(f" {sum(OnFiles.moves.values())} moves")
