"""What comes of each answer that a file system may give to each call of the journal: one row a call, played with a
real sidecar that meets it at every such call below the journals' directory.

Memory works, whatever the answer is. The words of the rows: `saved`; `unsaved` (the harness is told, with the reason);
`refused` (that run is not opened); `no start`. What was told to be saved is there afterwards, and no journal is
damaged.
"""

from pathlib import Path
from typing import Final

import pytest
from tests.support.sidecar import OPEN, SUSPEND, UNSAVED, Frame, result

from memory_sidecar.run.read import read_journal

from .answers import FULL, HELD_RUN, NO_START, cases, started

Row = tuple[str, str, str, str]

ALL_SAVED: Final[Row] = ("saved",) * 4
CANNOT_FLUSH: Final = dict.fromkeys(("EINVAL", "ENOSYS", "EOPNOTSUPP", "EINTR"), ALL_SAVED)
# A disk that is full may free up, so a run is opened all the same.
CREATE_FULL: Final = dict.fromkeys(FULL, ("unsaved", "unsaved", "saved", "saved"))
WRITE_FULL: Final = dict.fromkeys(FULL, ("unsaved",) * 4)

# What becomes of: a first use of the process's own run; opening a new run; a read in a run that is resumed; its end.
TABLE: Final[dict[str, tuple[Row, dict[str, Row]]]] = {
    "flock": ((NO_START,) * 4, {"EINTR": ALL_SAVED}),
    "create": (("unsaved", "refused", "saved", "saved"), {**CREATE_FULL, "EINTR": ALL_SAVED}),
    "write": (("unsaved", "refused", "unsaved", "unsaved"), {**WRITE_FULL, "EINTR": ALL_SAVED}),
    # Only what ends a run has to be on the disk: until then SIGKILL takes nothing that the kernel has.
    "fsync": (("saved", "saved", "saved", "unsaved"), CANNOT_FLUSH),
    "fsyncdir": (("saved", "saved", "saved", "unsaved"), CANNOT_FLUSH),
    "rename": (ALL_SAVED, {}),
    "unlink": (ALL_SAVED, {}),
    "ftruncate": (ALL_SAVED, {}),
    "mkdir": (ALL_SAVED, {}),
}


def outcome(answer: Frame) -> str:
    if "error" in answer:
        assert "cannot write the journal" in answer["error"]["message"]
        assert "Traceback" not in answer["error"]["message"]
        return "refused"
    told = answer["result"].get("_meta", {})
    assert UNSAVED not in told or told[UNSAVED]
    return "unsaved" if UNSAVED in told else "saved"


@pytest.mark.parametrize(("call", "name", "expected"), list(cases(TABLE)))
def test_an_answer_at_every_call(call: str, name: str, expected: Row, prepared: Path) -> None:
    with started(prepared, "runs", call, name, expected, "--journal-dir") as sidecar:
        if sidecar is None:
            return
        used = sidecar.ask("tools/call", {"name": "memory_read", "arguments": {"key": "old"}})
        opened = sidecar.ask(OPEN, {"run": "new"})
        resumed = result(sidecar.ask(OPEN, {"run": HELD_RUN}))
        assert sorted(resumed["scope"]["keys"]) == ["gone", "old"]
        written = sidecar.tool(
            "memory_write", {"key": "fresh", "description": "d", "content": "c", "overwrite": False}, HELD_RUN
        )
        sidecar.send(written)
        answer = sidecar.answer(written)
        assert answer["result"]["structuredContent"]["written"], "memory works, whatever the journal does"
        ended = sidecar.ask(SUSPEND, {"run": HELD_RUN})
        assert tuple(map(outcome, (used, opened, answer, ended))) == expected
        assert sidecar.leave() == 0

    found = {path.stem: read_journal(str(path))[0] for path in (prepared / "runs" / "tester").glob("*.jsonl")}
    held = found.pop(HELD_RUN)
    assert held is not None
    assert ("fresh" in held.keys) == (expected[2] == "saved")
    assert (held.state == "suspended") or expected[3] == "unsaved"
    own = [journal for run, journal in found.items() if run != "new" and journal is not None]
    assert [sorted(journal.keys) for journal in own] == ([["old"]] if expected[0] == "saved" else [])
