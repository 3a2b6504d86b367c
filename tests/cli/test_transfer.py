"""`export`, `import` and `copy`: byte-exact, create-only, resumable, and every note accounted for."""

import argparse
import hashlib
import io
import json
import os
import re
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sidecar.assemble import Arguments
from memory_sidecar.cli.notes import exporting
from memory_sidecar.cli.shared.failure import Failure
from memory_sidecar.cli.shared.memory import opened
from memory_sidecar.cli.shared.transfer import print_report, put, transfer
from memory_sidecar.store.contract import Entry, Expected
from memory_sidecar.store.errors import OutcomeUnknownError, UnavailableError
from memory_sidecar.store.portable import Note, PortableError, check, decode, encode, notes

from .conftest import Cli, Place

AWKWARD = "\ufeff---\r\nno: header\r\n---\n\x00\x1b[2J\u2028 \U0001f404\ttail without newline"


def config(place: Place, name: str = "memory.yaml", more: str = "") -> Path:
    path = place.path.parent / f"{place.path.name}-{name}"
    path.write_text(
        f"identity: bot\nharness:\n  memory:\n    enabled: true\n    options:\n      directory: {place.notes}\n{more}"
    )
    return path


def documents(place: Place) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.notes.glob("*.md")}


def test_a_memory_goes_through_a_file_unchanged(cli: Cli, place: Place, other: Place, tmp_path: Path) -> None:
    place.write("a", "b", description="yes: 'no' \U0001f404")
    place.write("c", content=AWKWARD)
    file = tmp_path / "memory.jsonl"
    done = cli("export", "--to", file, *place.options)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("3 notes, ")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_bytes().isascii()
    assert cli("import", file, *other.options).out == "3 created\n"
    assert documents(other) == documents(place)
    assert cli("import", file, *other.options) == (0, "3 unchanged\n", "")


def test_export_to_a_pipe_feeds_import(cli: Cli, place: Place, other: Place) -> None:
    place.write("a")
    exported = cli("export", *place.options).out
    assert cli("import", "-", *other.options, stdin=exported).out == "1 created\n"


def test_export_replaces_no_file_unless_told(cli: Cli, place: Place, tmp_path: Path) -> None:
    place.write("a")
    file = tmp_path / "kept"
    file.write_text("precious")
    done = cli("export", "--to", file, *place.options)
    assert (done.status, file.read_text()) == (1, "precious")
    assert "--overwrite" in done.err
    assert json.loads(cli("export", "--to", file, "--overwrite", "--json", *place.options).out)["notes"] == 1
    assert len(decode(file.read_bytes()).notes) == 1
    assert "make it first: mkdir -p" in cli("export", "--to", tmp_path / "no" / "file", *place.options).err


@pytest.mark.parametrize("kind", ["fifo", "link", "broken link"])
def test_export_replaces_nothing_that_is_no_ordinary_file(cli: Cli, place: Place, tmp_path: Path, kind: str) -> None:
    place.write("a")
    target, file = tmp_path / "target", tmp_path / "odd"
    if kind == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to(target)
    if kind == "link":
        target.write_text("precious")
    before = file.lstat()
    done = cli("export", "--to", file, "--overwrite", *place.options)
    after = file.lstat()
    assert (done.status, after.st_mode, after.st_ino, after.st_mtime_ns) == (
        1,
        before.st_mode,
        before.st_ino,
        before.st_mtime_ns,
    )
    assert "is not an ordinary file; name another one" in done.err
    assert not target.exists() or target.read_text() == "precious"


def test_a_note_that_cannot_be_read_is_named_and_hides_no_other(cli: Cli, place: Place, tmp_path: Path) -> None:
    place.write("a")
    (place.notes / "broken.md").write_bytes(b"\xff")
    done = cli("export", "--to", tmp_path / "f", *place.options)
    assert (done.status, done.out[:7]) == (1, "1 note,")
    assert done.err.startswith("left out: broken: ")


def test_import_reports_collisions_and_replaces_when_told(cli: Cli, place: Place, other: Place, tmp_path: Path) -> None:
    place.write("a", "b")
    other.write("b", content="something else")
    file = tmp_path / "f"
    cli("export", "--to", file, *place.options)
    before = documents(other)
    done = cli("import", file, "--dry-run", "--json", *other.options)
    report = json.loads(done.out)
    assert (done.status, report["created"], report["collided"], report["dry_run"]) == (1, ["a"], ["b"], True)
    assert documents(other) == before
    done = cli("import", file, *other.options)
    assert done.status == 1
    assert done.out.splitlines()[:2] == [
        "1 created, 1 collided",
        "collided: b holds another note, which was left as it is",
    ]
    assert documents(other)["b.md"] == before["b.md"]
    assert cli("import", file, "--overwrite", *other.options) == (0, "1 overwritten, 1 unchanged\n", "")
    assert documents(other) == documents(place)


def test_a_dry_run_makes_nothing(cli: Cli, place: Place, other: Place, tmp_path: Path) -> None:
    place.write("a")
    cli("export", "--to", tmp_path / "f", *place.options)
    assert cli("import", tmp_path / "f", "--dry-run", *other.options).out == "would be: 1 created\n"
    assert not other.path.exists()


def test_the_first_line_is_the_documented_one_and_what_was_exported_once_is_still_imported(
    cli: Cli, place: Place, other: Place, tmp_path: Path
) -> None:
    place.write("a")
    first = cli("export", *place.options).out.splitlines()[0]
    assert first.startswith('{"format": "memory-sidecar/export", "version": 1, "created": "')
    lines = b'{"format": "memory-sidecar/export", "version": 1, "notes": 1}\n'
    lines += b'{"key": "k", "description": "About it", "content": ""}\n'
    end = json.dumps({"notes": 1, "sha256": hashlib.sha256(lines).hexdigest()})
    (tmp_path / "kept").write_bytes(lines + end.encode())
    assert cli("import", tmp_path / "kept", *other.options).out == "1 created\n"


GOOD = b"".join(encode({}, [Note("a", Entry("About a", "x")), Note("b", Entry("About b", "y"))]))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty"),
        (GOOD.rpartition(b'{"notes"')[0], "cut short"),
        (GOOD[:-30], "cut short"),
        (GOOD.partition(b"content")[0], "cut short"),
        (GOOD.replace(b'"x"', b'"z"'), "its digest does not match"),
        (GOOD.replace(b"memory-sidecar/export", b"something"), "another format"),
        (GOOD.replace(b'"version": 1', b'"version": 2'), "of version 2"),
        (b"not json\n", "line 1: it is not JSON"),
        (b"[1]\n", "line 1: it is not a JSON object"),
        (b'{"key": "a", "description": "x"}\n', "line 1: a note has key, description and content"),
        (b'{"key": "a", "description": "x", "content": "y"}\n' * 2, "line 2: its key stands on an earlier line"),
        (b'{"key": "a/b", "description": "x", "content": "y"}\n', "line 1: This key is not legal"),
        (b"[" * 100_000, "line 1: it is not JSON"),
        (b"\xff\xfe", "line 1: it is not JSON"),
    ],
)
def test_a_bad_file_changes_nothing(cli: Cli, place: Place, tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "f").write_bytes(data)
    done = cli("import", tmp_path / "f", *place.options)
    assert (done.status, done.out) == (1, "")
    assert says in done.err
    assert "nothing was imported" in done.err
    assert re.search(r"; (give|mend|take|remove|export|copy|import) |\. ", done.err), "a remedy"
    assert not place.path.exists()


def lines_of(data: bytes) -> Callable[[], list[bytes]]:
    return lambda: data.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("later", "says"),
    [(GOOD.replace(b'"x"', b'"z"'), "line 2: the file was changed"), (b"", "the file was cut")],
    ids=["changed", "cut"],
)
def test_a_file_that_becomes_another_between_the_check_and_the_import_is_told(later: bytes, says: str) -> None:
    checked = check(lines_of(GOOD))
    assert [note.key for note in notes(lines_of(GOOD), checked)] == ["a", "b"]
    with pytest.raises(PortableError, match=f"^{says} while it was read") as told:
        list(notes(lines_of(later), checked))
    assert told.value.remedy == "import it again, unchanged"


def test_other_programs_may_write_notes_alone(cli: Cli, place: Place) -> None:
    line = json.dumps({"key": "a", "description": "From elsewhere", "content": "x"})
    assert cli("import", "-", *place.options, stdin=line).out == "1 created\n"


def test_a_full_memory_takes_what_it_can(cli: Cli, place: Place) -> None:
    lines = "".join(
        json.dumps({"key": f"n{number}", "description": "x", "content": ""}) + "\n" for number in range(1026)
    )
    dry = json.loads(cli("import", "-", "--dry-run", "--json", *place.options, stdin=lines).out)
    assert (len(dry["created"]), [one["key"] for one in dry["refused"]]) == (1024, ["n1024", "n1025"])


@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(), st.text()), unique_by=lambda one: one[0]
    )
)
def test_the_file_is_exact_for_every_text(notes: list[tuple[str, str, str]]) -> None:
    made = [Note(key, Entry(description, content)) for key, description, content in notes]
    assert decode(b"".join(encode({"identity": "x"}, made))).notes == made


@given(st.data())
def test_a_file_that_lost_or_changed_a_byte_is_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, GOOD.rindex(b'{"notes"') - 1))
    changed = GOOD[:at] + data.draw(st.sampled_from([b"", b"~"])) + GOOD[at + 1 :]
    if changed != GOOD:
        with pytest.raises(PortableError):
            decode(changed)


def test_copy_there_and_back(cli: Cli, place: Place, other: Place) -> None:
    place.write("a", content=AWKWARD)
    place.write("b")
    there = ("copy", "--from", config(place), "--to", config(other))
    assert cli(*there, "--dry-run").out == "would be: 2 created\n"
    assert not other.path.exists()
    assert cli(*there) == (0, "2 created\n", "")
    assert documents(other) == documents(place)
    assert cli(*there) == (0, "2 unchanged\n", "")
    back = ("copy", "--from", config(other), "--to", config(place))
    assert cli(*back) == (0, "2 unchanged\n", "")


def test_copy_goes_on_where_it_stopped_and_never_replaces_unasked(cli: Cli, place: Place, other: Place) -> None:
    place.write("a", "b", "c")
    other.write("b", content="mine")
    there = ("copy", "--from", config(place), "--to", config(other))
    done = cli(*there)
    assert (done.status, done.out.splitlines()[0]) == (1, "2 created, 1 collided")
    assert b"mine" in documents(other)["b.md"]
    # With the guard on, replacing needs the authority of having read the very value.
    guarded = config(other, "guarded.yaml", "      require_read_before_update: true\n")
    assert cli("copy", "--from", config(place), "--to", guarded, "--overwrite").out == "1 overwritten, 2 unchanged\n"
    assert documents(other) == documents(place)


def test_a_hand_written_note_without_a_header_is_copied_whole(cli: Cli, place: Place, other: Place) -> None:
    place.write("a")
    (place.notes / "a.md").write_text("just text\r\n", newline="")
    there = ("copy", "--from", config(place), "--to", config(other))
    assert cli(*there).out == "1 created\n"
    assert documents(other)["a.md"] == b"just text\r\n"
    assert cli(*there).out == "1 unchanged\n"
    assert cli("copy", "--from", config(other), "--to", config(place)).out == "1 unchanged\n"
    # The same in other bytes, as an earlier version copied it, is the same note.
    (other.notes / "a.md").write_bytes(b"---\ndescription: '(no description)'\n---\n\njust text\r\n")
    assert cli(*there).out == "1 unchanged\n"
    assert cli(*there, "--overwrite").out == "1 overwritten\n"
    assert documents(other) == documents(place)


def test_what_was_interrupted_is_told_and_goes_on(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> tuple[str, Entry]:
        raise KeyboardInterrupt

    def note(key: str) -> Callable[[], tuple[str, Entry]]:
        return lambda: (key, Entry("About it", "x"))

    arguments = Arguments(store_dir=str(place.path), identity="bot")
    with opened(arguments, make=True) as memory:
        options = {"overwrite": False, "dry_run": False, "advance": lambda: None}
        report = transfer([note("a"), interrupted, note("b")], 3, memory, **options)
        assert print_report(report, dry_run=False, as_json=False) == 130
        assert "stopped after 1 of 3: interrupted" in capsys.readouterr().err
        report = transfer([note("a"), note("b")], 2, memory, **options)
    assert [result.what for result in report.results] == ["unchanged", "created"]


def test_what_was_stopped_before_the_first_note_does_not_say_that_there_is_nothing_to_do(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    def away() -> tuple[str, Entry]:
        raise UnavailableError("The memory store cannot be reached now. Go on without memory.")

    with opened(Arguments(store_dir=str(place.path), identity="bot"), make=True) as memory:
        report = transfer([away, away], 2, memory, overwrite=False, dry_run=False, advance=lambda: None)
    assert print_report(report, dry_run=False, as_json=False) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "stopped after 0 of 2" in printed.err


def test_a_lost_acknowledgement_is_looked_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(Arguments(store_dir=str(place.path), identity="bot"), make=True) as memory:
        backend = memory.store.backend
        store = backend.put

        def store_and_lose(key: str, document: bytes, expected: Expected) -> str:
            if key == "a":
                store(key, document, expected)
            raise OutcomeUnknownError

        monkeypatch.setattr(backend, "put", store_and_lose)
        entry = Entry("About it", "x")
        assert put(memory, "a", entry, overwrite=False).what == "created"
        assert put(memory, "b", entry, overwrite=False).what == "refused"


def test_copy_tells_the_same_memory_from_another(cli: Cli, place: Place) -> None:
    place.write("a")
    done = cli("copy", "--from", config(place), "--to", config(place, "again.yaml"))
    assert (done.status, done.err) == (64, "memory-sidecar copy: --from and --to mean the same memory; name two\n")


OBSIDIAN = "---\r\naliases: [Plan]\r\ntags:\r\n  - work\r\ndescription: the plan  # mine\r\n---\r\n"
CLAUDE = "---\nname: user-prefs\ndescription: likes short answers\nmetadata:\n  type: feedback\n---\n\n"
LOGSEQ = "---\ntitle: Journal\ntype:: page\n---\n\n"
BASIC_MEMORY = "---\ntitle: Coffee\ntype: note\npermalink: coffee/notes\ntags:\n- a\n---\n"


def test_header_lines_of_other_programs_go_everywhere_with_their_note(
    cli: Cli, place: Place, other: Place, tmp_path: Path
) -> None:
    vault = {"obsidian.md": OBSIDIAN, "claude.md": CLAUDE, "logseq.md": LOGSEQ, "basic.md": BASIC_MEMORY}
    place.notes.mkdir(parents=True)
    for name, header in vault.items():
        (place.notes / name).write_bytes(f"{header}the body\r\n".encode())
    before = documents(place)
    file = tmp_path / "memory.jsonl"
    assert cli("export", "--to", file, *place.options).status == 0
    assert cli("import", file, *other.options).out == "4 created\n"
    assert documents(other) == before
    assert cli("import", file, *other.options).out == "4 unchanged\n"
    source, target = config(place), config(other)
    assert cli("copy", "--from", source, "--to", target).out == "4 unchanged\n"
    assert "obsidian at revision" in cli("quarantine", "obsidian", "--reason", "x", *place.options).out
    assert cli("quarantine", "--restore", "obsidian", *place.options).status == 0
    assert documents(place) == before
    shown = json.loads(cli("show", "claude", "--json", *place.options).out)
    assert shown["header"] == CLAUDE


def test_a_header_that_cannot_be_kept_is_refused_by_name(cli: Cli, place: Place) -> None:
    note = {"key": "a", "description": "x", "content": "y", "header": "no header"}
    done = cli("import", "-", *place.options, stdin=json.dumps(note) + "\n")
    assert done.status == 1
    assert "refused: a: This memory has header lines of another program that cannot be kept" in done.out


@pytest.mark.parametrize(
    ("note", "says"),
    [
        ({"header": "---\ndescription: [a, b]\n---\n", "description": "new"}, "This memory has header lines"),
        ({"header": "---\ntags: [z]\ndescription: {a: b}\n---\n", "description": "x"}, "This memory has header lines"),
        ({"header": "\ud800"}, "This memory has header lines"),
        ({"content": "\ud800"}, "The content holds a broken character"),
        ({"description": "x\ud800"}, "The description holds a broken character"),
        ({"content": "x" * 65537}, "The content has 65537 bytes"),
        ({"description": "x" * 501}, "The description has 501"),
    ],
)
def test_a_note_that_no_memory_takes_hides_no_other(cli: Cli, place: Place, note: dict[str, str], says: str) -> None:
    notes = [{"key": key, "description": "About it", "content": "x"} for key in ("a", "bad", "c")]
    notes[1] |= note
    done = cli("import", "-", *place.options, stdin="".join(json.dumps(one) + "\n" for one in notes))
    assert done.status == 1
    assert done.out.startswith(f"2 created, 1 refused\nrefused: bad: {says}")
    # What a model would be told to do is for no operator.
    assert not any(word in done.out for word in ("Leave it", "Send it", "Shorten", "another key", "what you have"))
    assert set(documents(place)) == {"a.md", "c.md"}


@pytest.mark.parametrize("description", ["", " ", "\u200b", "\ud800", "\udfff\ud800"])
def test_a_description_that_shows_nothing_is_stood_in_for(cli: Cli, place: Place, description: str) -> None:
    note = {"key": "a", "description": description, "content": "precious"}
    assert cli("import", "-", *place.options, stdin=json.dumps(note) + "\n").out == "1 created\n"
    assert json.loads(cli("show", "a", "--json", *place.options).out)["content"] == "precious"


def test_an_export_is_imported_but_for_what_cannot_be_kept(
    cli: Cli, place: Place, other: Place, tmp_path: Path
) -> None:
    place.write("a", "z")
    (place.notes / "k.md").write_bytes(b"---\ndescription: [a, b]\ntags: [z]\n---\nprecious\n")
    (place.notes / "long.md").write_bytes(b"---\ndescription: " + b"x" * 501 + b"\n---\n\nprecious\n")
    assert cli("export", "--to", tmp_path / "f", *place.options).status == 0
    done = cli("import", tmp_path / "f", *other.options)
    assert (done.status, done.out.splitlines()[0]) == (1, "3 created, 1 refused")
    assert documents(other)["k.md"] == documents(place)["k.md"]
    assert "refused: long: " in done.out


def test_an_export_is_written_as_the_notes_are_read(place: Place, tmp_path: Path) -> None:
    """A memory of 64 MiB took ten times as much once: here four notes may be in memory, and no more."""
    place.notes.mkdir(parents=True)
    for number in range(200):
        (place.notes / f"n{number:03}.md").write_text(f"---\ndescription: d\n---\n\n{'x' * 65000}")
    memory = {"config": None, "identity": place.identity, "store_dir": str(place.path), "journal_dir": None}
    arguments = argparse.Namespace(to=str(tmp_path / "saved"), overwrite=False, json=False, **memory)
    tracemalloc.start()
    try:
        assert exporting.run(arguments) == 0
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert (tmp_path / "saved").stat().st_size > 200 * 65000


def test_one_note_is_a_note(cli: Cli, place: Place, tmp_path: Path) -> None:
    place.write("a")
    assert cli("export", "--to", "saved", *place.options).out.startswith("1 note, ")


def test_a_note_that_is_left_out_is_told_to_an_operator_and_not_as_to_a_model(
    cli: Cli, place: Place, other: Place
) -> None:
    """At either end: which file it is, or what makes room; nobody is told to leave it to an operator."""
    place.write("bad", "spoilt")
    other.write("spoilt")
    (place.notes / "bad.md").write_bytes(b"\xff")
    (other.notes / "spoilt.md").write_bytes(b"\xff")
    done = cli("copy", "--from", config(place), "--to", config(other), "--overwrite")
    assert done.status == 1
    assert str(place.notes / "bad.md") in done.out
    assert str(other.notes / "spoilt.md") in done.out
    lines = "".join(
        json.dumps({"key": f"n{number}", "description": "x", "content": ""}) + "\n" for number in range(1025)
    )
    full = cli("import", "-", "--dry-run", "--json", *place.options, stdin=lines)
    assert "quarantine what is not needed" in full.out
    for said in (done.out, full.out):
        assert not re.search(r"operator|Leave it|[Dd]elete|[Oo]verwrite an entry", said), said


class Full(io.BytesIO):
    """A temporary file beside the target, on a disk that is full, or in a directory of another user."""

    def write(self, _: object, /) -> int:
        raise OSError(28, "No space left on device", "/somewhere/tmpj_ep3nbz")


def test_a_target_that_cannot_be_written_is_told_by_its_own_name() -> None:
    with pytest.raises(Failure, match=r"^cannot write there/x\.jsonl: No space left on device; "):
        exporting._put(Full(), b"line", "there/x.jsonl")
    with pytest.raises(Failure, match=r"no room to put the notes together: .* TMPDIR"):
        exporting._put(Full(), b"line", None)


def test_a_question_ends_as_one(cli: Cli) -> None:
    assert "what? give" in cli("runs", "prune").err
