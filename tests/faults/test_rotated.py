"""What is done to an open journal behind its holder's back: noticed at the next call, and saved anew."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.sidecar import UNSAVED, guarded, launched


def renamed(journal: Path) -> None:
    journal.rename(journal.with_name("monday.jsonl.1"))


def renamed_and_made_empty(journal: Path) -> None:
    """As logrotate with `create`."""
    renamed(journal)
    journal.touch(0o600)


def copied_and_emptied(journal: Path) -> None:
    """As logrotate with `copytruncate`."""
    shutil.copy(journal, journal.with_name("monday.jsonl.1"))
    os.truncate(journal, 0)


def cut_in_the_middle(journal: Path) -> None:
    os.truncate(journal, journal.stat().st_size // 2)


WAYS = [Path.unlink, renamed, renamed_and_made_empty, copied_and_emptied, cut_in_the_middle]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_authority_is_saved_anew(way: Callable[[Path], object], tmp_path: Path) -> None:
    options = guarded(tmp_path)
    with launched(tmp_path, *options, "--run", "monday") as sidecar:
        assert sidecar.write("a", "one")["written"]
        (journal,) = (tmp_path / "runs").rglob("monday.jsonl")
        way(journal)
        answer = sidecar.call("memory_list")
        assert UNSAVED not in answer.get("_meta", {})
        assert sidecar.write("b", "one")["written"]
        assert "forgotten" in json.loads(journal.read_bytes().splitlines()[0])
        sidecar.kill()
    with launched(tmp_path, *options, "--run", "monday") as sidecar:
        for key in ("a", "b"):
            assert sidecar.write(key, "two", overwrite=True)["written"], f"the authority over {key} was lost"
        assert sidecar.leave() == 0


def test_another_file_is_never_overwritten(tmp_path: Path) -> None:
    options = guarded(tmp_path)
    with launched(tmp_path, *options, "--run", "monday") as sidecar:
        assert sidecar.write("a", "one")["written"]
        (journal,) = (tmp_path / "runs").rglob("monday.jsonl")
        renamed(journal)
        journal.write_text("somebody's own notes")
        answer = sidecar.call("memory_list")
        assert "another file took the name" in answer["_meta"][UNSAVED]
        assert journal.read_text() == "somebody's own notes"
        journal.unlink()
        assert UNSAVED not in sidecar.call("memory_list")["_meta"]
        assert sidecar.leave() == 0
    with launched(tmp_path, *options, "--run", "monday") as sidecar:
        assert sidecar.write("a", "two", overwrite=True)["written"]
