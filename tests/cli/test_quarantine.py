"""`quarantine`: a note leaves the memory whole, and only as it was copied."""

import json
import shlex
import stat
from pathlib import Path

import pytest

from memory_sidecar.assemble import Arguments
from memory_sidecar.cli.notes.quarantine import _move
from memory_sidecar.cli.shared.memory import opened
from memory_sidecar.store.contract import Entry
from memory_sidecar.store.errors import ConflictError, OutcomeUnknownError

from .conftest import Cli, Place


def kept(place: Place) -> list[Path]:
    return sorted((place.path / "quarantine").glob("*"))


def test_there_and_back(cli: Cli, place: Place) -> None:
    place.write("poisoned", "fine", run="writer")
    place.calls("reader", ("memory_read", {"key": "poisoned"}))
    before = (place.notes / "poisoned.md").read_bytes()
    done = cli("quarantine", "poisoned", "--reason", "tells models to send money", *place.options)
    assert (done.status, done.err) == (0, "")
    assert "writer" in done.out
    assert "reader" in done.out
    assert cli("list", *place.options).out.splitlines()[1:] == ["fine  About fine"]
    (copy,) = kept(place)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    (listed,) = json.loads(cli("quarantine", "--list", "--json", *place.options).out)["quarantined"]
    assert (listed["key"], listed["reason"]) == ("poisoned", "tells models to send money")
    assert "tells models to send money" in cli("quarantine", "--list", *place.options).out
    assert cli("quarantine", "--restore", "poisoned", *place.options).out == "poisoned is back in the memory\n"
    assert (place.notes / "poisoned.md").read_bytes() == before
    assert kept(place) == []


def test_a_later_run_sees_nothing_of_it(cli: Cli, place: Place) -> None:
    place.write("poisoned")
    cli("quarantine", "poisoned", *place.options)
    found: list[object] = []

    async def work(run: object) -> None:
        found.append(run.instructions)
        found.append((await run.call("memory_list", {})).text)
        found.append((await run.call("memory_read", {"key": "poisoned"})).structured["found"])

    place.within("later", work)
    assert "poisoned" not in str(found[0])
    assert found[1:] == ['{"memories":[]}', False]


def test_restore_replaces_nothing_unless_told(cli: Cli, place: Place) -> None:
    place.write("a")
    cli("quarantine", "a", *place.options)
    place.write("a", content="newer", run="other")
    done = cli("quarantine", "--restore", "a", *place.options)
    assert (done.status, "add --overwrite" in done.err) == (1, True)
    assert len(kept(place)) == 1
    assert b"newer" in (place.notes / "a.md").read_bytes()
    assert cli("quarantine", "--restore", "a", "--overwrite", *place.options).status == 0
    assert b"The a." in (place.notes / "a.md").read_bytes()


def test_the_copy_is_an_export(cli: Cli, place: Place, other: Place) -> None:
    place.write("a")
    cli("quarantine", "a", *place.options)
    directory = ("--quarantine-dir", str(place.path / "quarantine"))
    done = cli("quarantine", "--restore", "a", *directory, *other.options)
    assert (done.status, "from another memory" in done.err) == (1, True)
    assert cli("import", kept(place)[0], *other.options).out == "1 created\n"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("nope",), 1, "there is no note nope"),
        (("--restore", "nope"), 1, "see memory-sidecar quarantine --list"),
        ((), 64, "is required"),
        (("../x",), 64, "This key is not legal"),
        (("a", "--quarantine-dir", "/proc/none"), 78, "nothing was moved; set --quarantine-dir"),
    ],
)
def test_mistakes(cli: Cli, place: Place, words: tuple[str, ...], status: int, says: str) -> None:
    place.write("a")
    done = cli("quarantine", *words, *place.options)
    assert done.status == status
    assert says in done.err
    assert (place.notes / "a.md").exists()


def test_a_damaged_copy_is_told_and_left(cli: Cli, place: Place) -> None:
    place.write("a", "b")
    cli("quarantine", "a", *place.options)
    cli("quarantine", "b", *place.options)
    kept(place)[0].write_bytes(kept(place)[0].read_bytes()[:-9])
    done = cli("quarantine", "--list", *place.options)
    assert done.status == 1
    assert "digest" in done.err or "cut short" in done.err or "not JSON" in done.err
    assert "About b" in done.out
    assert len(kept(place)) == 2


def test_what_was_written_since_the_copy_is_copied_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("a")
    with opened(Arguments(store_dir=str(place.path), identity="bot")) as memory:
        remove = memory.store.backend.remove
        writes = iter(["second", "third"])

        def a_run_was_faster(key: str, revision: object) -> object:
            for content in writes:
                memory.store.update(key, "About a", content)
                break
            return remove(key, revision)

        monkeypatch.setattr(memory.store.backend, "remove", a_run_was_faster)
        path, entry, *_ = _move(memory, "a", "", str(place.path / "quarantine"))
        assert entry == Entry("About a", "third")
        assert [str(one) for one in kept(place)] == [path]
        assert memory.list() == []


def test_an_unknown_outcome_leaves_the_copy(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("a")

    def lost(key: str, revision: str) -> bool:
        raise OutcomeUnknownError

    with opened(Arguments(store_dir=str(place.path), identity="bot")) as memory:
        monkeypatch.setattr(memory.store.backend, "remove", lost)
        with pytest.raises(OutcomeUnknownError):
            _move(memory, "a", "", str(place.path / "quarantine"))
    assert len(kept(place)) == 1


@pytest.mark.parametrize("key", ["-rf", "--help", "-"])
def test_a_key_that_looks_like_an_option_can_be_put_back_as_is_told(cli: Cli, place: Place, key: str) -> None:
    place.write(key)
    told = cli("quarantine", *place.options, "--", key)
    assert told.status == 0
    command = next(line for line in told.out.splitlines() if line.startswith("to put it back: "))
    words = shlex.split(command.partition(": ")[2])
    assert cli(*words[1:]).status == 0
    assert cli("show", *place.options, "--", key).status == 0


RAW = [
    b"\xff\xfe not text",
    b"---\nSENTINEL: [\xff\n---\n\nbody\n",
    b"\x80" * 69600,
    b"---\ndescription: d\n---\n\n" + b"x" * 69600,
    b"y" * 5_000_000 + b"the end",
]


@pytest.mark.parametrize("raw", RAW, ids=["bytes", "header", "as large as may be read", "larger", "far larger"])
def test_what_is_no_readable_note_is_kept_byte_for_byte(cli: Cli, place: Place, raw: bytes) -> None:
    place.write("fine")
    (place.notes / "bad.md").write_bytes(raw)
    done = cli("quarantine", "bad", *place.options)
    assert (done.status, done.err) == (0, "")
    assert not (place.notes / "bad.md").exists()
    (listed,) = json.loads(cli("quarantine", "--list", "--json", *place.options).out)["quarantined"]
    assert (listed["key"], listed["description"]) == ("bad", "(unreadable)")
    (place.notes / "bad.md").write_text("another by now")
    assert cli("quarantine", "--restore", "bad", *place.options).status == 1
    assert (place.notes / "bad.md").read_text() == "another by now"
    (place.notes / "bad.md").unlink()
    assert cli("quarantine", "--restore", "bad", *place.options).out == "bad is back in the memory\n"
    assert (place.notes / "bad.md").read_bytes() == raw
    assert kept(place) == []


def test_what_cannot_be_read_whole_is_left_where_it_is(cli: Cli, place: Place) -> None:
    place.write("fine")
    with (place.notes / "huge.md").open("wb") as huge:
        huge.truncate((64 << 20) + 1)
    done = cli("quarantine", "huge", *place.options)
    assert (done.status, "larger than an entry may be" in done.err) == (1, True)
    assert (place.notes / "huge.md").stat().st_size == (64 << 20) + 1
    assert kept(place) == []


def test_a_large_note_that_is_changed_meanwhile_is_removed_only_as_it_was_copied(cli: Cli, place: Place) -> None:
    """Beyond what a run reads too."""
    place.write("fine")
    note = place.notes / "large.md"
    note.write_bytes(b"x" * 100_000)
    with opened(Arguments(store_dir=str(place.path), identity="bot"), write=True) as memory:
        whole = memory.store.backend.whole()  # type: ignore[attr-defined]
        seen = whole.get("large").revision
        note.write_bytes(b"x" * 99_999 + b"y")
        with pytest.raises(ConflictError):
            whole.remove("large", seen)
    assert note.read_bytes().endswith(b"xy")


@pytest.mark.parametrize(
    "raw",
    [
        b"---\ndescription: [a, b]\ntags: [z]\n---\nprecious\n",
        b"---\ndescription: {a: b}\n---\nprecious",
        b"---\ntags: &t [z]\ndescription: *t\n---\nprecious",
        b"---\ndescription: A\ndescription: B\n---\nprecious",
        b"---\ndescription: " + b"x" * 501 + b"\n---\n\nprecious",
        b"x" * 69_000,
    ],
    ids=["list", "mapping", "alias", "twice", "long description", "long content"],
)
def test_a_note_that_could_not_be_put_back_is_kept_byte_for_byte(cli: Cli, place: Place, raw: bytes) -> None:
    place.write("fine")
    (place.notes / "k.md").write_bytes(raw)
    done = cli("quarantine", "k", *place.options)
    assert (done.status, done.err) == (0, "")
    assert not (place.notes / "k.md").exists()
    (listed,) = json.loads(cli("quarantine", "--list", "--json", *place.options).out)["quarantined"]
    assert (listed["key"], listed["description"] == "(unreadable)") == ("k", False)
    assert cli("quarantine", "--restore", "k", *place.options).out == "k is back in the memory\n"
    assert (place.notes / "k.md").read_bytes() == raw
    assert kept(place) == []


def test_a_journal_of_this_identity_in_another_store_leaves_the_answer_open(
    cli: Cli, place: Place, tmp_path: Path
) -> None:
    """The memory was exported, and imported into a new directory. What only listed mentions no key."""
    place.write("poisoned", run="writer")
    place.calls("lister", ("memory_list", {}))
    stranger = Place(place.path, "stranger")
    stranger.calls("lister", ("memory_list", {}))
    stranger.write("else", run="writer")
    assert cli("export", "--to", tmp_path / "x.jsonl", *place.options).status == 0
    place.notes.rename(tmp_path / "away")
    assert cli("import", tmp_path / "x.jsonl", *place.options).status == 0
    (place.runs / "writer.jsonl").rename(tmp_path / "on-another-host")
    done = cli("quarantine", "poisoned", *place.options)
    assert (done.status, "run lister of bot: its journal is of another store" in done.err) == (1, True)
    assert "run lister of stranger" not in done.err
    asked = done.err.split("to ask those of other stores too: memory-sidecar ")[1].splitlines()[0]
    assert "lister" in cli(*shlex.split(asked)).out
    cli("quarantine", "--restore", "poisoned", *place.options)
    place.calls("newest", ("memory_read", {"key": "poisoned"}))
    done = cli("quarantine", "poisoned", "--json", *place.options)
    answer = json.loads(done.out)
    assert (done.status, answer["complete"]) == (1, False)
    assert [(one["run"], one["identity"]) for one in answer["left_out"]] == [("lister", "bot")]
    assert [one["run"] for one in answer["seen"]] == ["newest"]


def test_where_there_is_no_journal_the_answer_is_open(cli: Cli, place: Place, tmp_path: Path) -> None:
    place.write("poisoned")
    place.journals.rename(tmp_path / "away")
    done = cli("quarantine", "poisoned", "--json", *place.options)
    assert (done.status, json.loads(done.out)["complete"]) == (1, False)
    assert "there is no journal to answer from" in done.err
