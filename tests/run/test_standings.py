"""A listing from what is kept says what one that reads every journal says, whatever happened in between."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.run.test_retention import made, opened

from memory_sidecar.run import ledger, records, standings
from memory_sidecar.run.standings import SETTLED, listed


class Listing:
    """Lists with a cache, counts the journals that were read for it, and holds it to a listing without one."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.cache = path / "runs", path / "cache" / "runs"
        self.read: list[str] = []
        monkeypatch.setattr(standings, "WORTH_KEEPING", 1)
        monkeypatch.setattr(standings, "SETTLED", 0)
        monkeypatch.setattr(standings, "journal", self._journal)

    def _journal(self, own: str, run: str, identity: str | None) -> ledger.Journaled | None:
        self.read.append(run)
        return ledger.journal(own, run, identity)

    def __call__(self, identity: str | None = None) -> list[str]:
        """Which journals were read."""
        expected = [self._row(one) for one in ledger.journals(str(self.directory), identity)]
        self.read.clear()
        assert [self._row(one) for one in listed(str(self.directory), identity, str(self.cache))] == expected
        return sorted(self.read)

    @staticmethod
    def _row(one: ledger.Journaled | standings.Listed) -> tuple[object, ...]:
        problem = (one.problem and one) if isinstance(one, ledger.Journaled) else (one.unusable or "")
        told = (problem.path, problem.older, problem.problem) if problem else ()
        return one.run, one.identity, one.state, one.created, one.updated, one.held, told


@pytest.fixture
def listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Listing:
    made_all = Listing(tmp_path, monkeypatch)
    for identity in ("a", "b"):
        for reason in ("completed", "suspended"):
            made(made_all.directory / identity, reason, 1, reason, identity=identity)
    made(made_all.directory / "a", "interrupted", 1, None, identity="a")
    return made_all


EVERY = ["completed", "completed", "interrupted", "suspended", "suspended"]


def test_only_what_is_not_over_is_read_again(listing: Listing) -> None:
    assert listing() == EVERY
    assert listing() == ["interrupted"]
    assert listing("b") == []


def test_what_changed_just_now_is_not_kept(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a tick of the file system's clock a second change would leave the journal with the same marks."""
    monkeypatch.setattr(standings, "SETTLED", SETTLED)
    assert listing() == listing() == EVERY
    monkeypatch.setattr(standings.time, "time_ns", lambda: 1 << 62)
    assert listing() == EVERY
    assert listing() == ["interrupted"]


def test_a_run_that_goes_on_is_read_while_it_does_and_after(listing: Listing) -> None:
    listing()
    journal = opened(listing.directory / "a", "suspended", "a")
    try:
        journal.append([records.resumed(tools=["t"], store="s")])
        assert listing() == ["interrupted", "suspended"]
        journal.append([records.terminal("completed"), records.snapshot({"k": "1"})])
    finally:
        journal.close()
    assert listing() == ["interrupted", "suspended"]
    assert listing() == ["interrupted"]


def restored(path: Path) -> None:
    """Another content of the same length and time of modification, under the same name, as a backup brings it back."""
    status = path.stat()
    made(path.parent, "other", 1, "suspended", identity="a")
    path.write_bytes((path.parent / "other.jsonl").read_bytes().replace(b'"other"', b'"completed"')[: status.st_size])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-5] + b'00"}\n'),
        lambda path: path.write_bytes(b"a list\n"),
        lambda path: path.rename(path.with_name("renamed.jsonl")),
        lambda path: path.chmod(0),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to("suspended.jsonl")),
        lambda path: made(path.parent, "between", 1, "error", identity="a"),
        lambda path: path.rename(f"{path}.1"),
        lambda path: (path.rename(f"{path}-20260101.gz"), path.touch()),
        lambda path: (Path(f"{path}.1").write_bytes(path.read_bytes()), os.truncate(path, 0)),
        restored,
    ],
    ids=[
        *("removed", "damaged", "overwritten", "renamed", "unreadable", "a directory", "a link", "another beside it"),
        *("rotated", "rotated and made anew", "copied and cut", "restored"),
    ],
)
def test_what_changes_is_seen(listing: Listing, change: Callable[[Path], object]) -> None:
    listing()
    change(listing.directory / "a" / "completed.jsonl")
    listing()
    listing()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace(b"\tcompleted\t2", b"\tsuspended\t2"),
        lambda _: b"another program's\n",
        lambda text: text.replace(b"\t", b"\0"),
        lambda text: text + b"a\tz\t1\n",
        lambda text: text.replace(b"\n0000", b"\nffff", 1),
        lambda text: text.replace(b" 2\n", b" 1\n", 1),
    ],
    ids=["empty", "torn", "changed", "foreign", "no fields", "a line too much", "a length", "an older version's"],
)
def test_a_cache_that_is_not_as_it_was_written_is_made_anew(listing: Listing, spoil: Callable[[bytes], bytes]) -> None:
    listing()
    kept = listing.cache.read_bytes()
    listing.cache.write_bytes(spoil(kept))
    assert listing.cache.read_bytes() != kept
    listing()
    assert listing() == ["interrupted"]


def test_a_journal_forges_no_line_of_the_cache(listing: Listing) -> None:
    written = (
        records.meta(run="forging", identity="a", tools=["t"], store="s") | {"created": "2030\na\tz\t"},
        records.terminal("completed"),
    )
    lines = (records.encode(record, number) for number, record in enumerate(written, 1))
    (listing.directory / "a" / "forging.jsonl").write_bytes(b"".join(lines))
    listing()
    assert b"forging" not in listing.cache.read_bytes()
    assert listing() == ["forging", "interrupted"]


def test_where_nothing_can_be_kept_everything_is_read(listing: Listing) -> None:
    listing.cache.parent.write_text("a file in its place")
    assert listing() == EVERY
    assert listing() == EVERY


def test_nothing_is_kept_of_a_few_runs_and_nothing_lies_about(
    listing: Listing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standings, "WORTH_KEEPING", 100)
    listing()
    assert list(listing.cache.parent.iterdir()) == []
    monkeypatch.setattr(standings, "WORTH_KEEPING", 1)
    listing()
    assert list(listing.cache.parent.iterdir()) == [listing.cache]
    assert listing.cache.stat().st_mode & 0o777 == 0o600
