"""What is special about files: modes, planted things, people's edits, other processes, failing disks."""

import errno
import itertools
import json
import os
import random
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.processes import python, run_python

from memory_sidecar.backend.file import FileOptions, entry, listing, open_file, resolve_directory
from memory_sidecar.backend.file import notes as backend_notes
from memory_sidecar.backend.file.store_id import FILE_NAME
from memory_sidecar.backend.opened import BackendError
from memory_sidecar.store.authority import Store
from memory_sidecar.store.contract import Entry, Info, Item
from memory_sidecar.store.document import UNREADABLE
from memory_sidecar.store.errors import (
    KeyExistsError,
    KeyNotFoundError,
    OutcomeUnknownError,
    StaleError,
    StoreError,
    UnavailableError,
    UnreadableError,
)
from memory_sidecar.store.rules import MAX_ENTRIES
from memory_sidecar.store.scope import Scope
from memory_sidecar.system import files
from memory_sidecar.system.digest import digest

WORKER = "tests.support.file_worker"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def store(notes: Path) -> Store:
    return opened(notes)


def opened(directory: Path, *, guard: bool = False) -> Store:
    return open_file(FileOptions(str(directory), guard), "agent", None).store


def names(directory: Path) -> list[str]:
    return sorted(set(os.listdir(directory)) - {FILE_NAME})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Where, and with which rights


def test_info_tells_no_path(store: Store) -> None:
    assert store.info() == Info("file", "")


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_notes_are_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        store = opened(tmp_path / "deep" / "er" / "notes")
        store.create("created", "words", "text")
        store.update("updated", "words", "text")
        store.update("created", "words", "more")
    finally:
        os.umask(before)
    assert [mode(tmp_path / path) for path in ("deep", "deep/er", "deep/er/notes")] == [0o700] * 3
    assert {path.name: mode(path) for path in (tmp_path / "deep/er/notes").iterdir()} == {
        FILE_NAME: 0o600,
        "created.md": 0o600,
        "updated.md": 0o600,
    }


def test_an_existing_directory_is_left_as_its_operator_made_it(notes: Path) -> None:
    notes.mkdir(mode=0o750)
    opened(notes)
    assert mode(notes) == 0o750


@pytest.mark.parametrize(
    ("directory", "identity", "base", "expected"),
    [
        (None, "agent", None, "{cwd}/memory/agent"),
        (None, "agent", "/base", "/base/memory/agent"),
        (None, "agent", "base", "{cwd}/base/memory/agent"),
        ("notes", "agent", None, "{cwd}/notes"),
        ("notes", "agent", "/base", "/base/notes"),
        ("notes", "not/a key", "/base", "/base/notes"),
        ("notes", None, None, "{cwd}/notes"),
        ("/notes", "agent", "/base", "/notes"),
        ("../notes", "agent", "/base/deep", "/base/notes"),
    ],
)
def test_where_the_directory_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    directory: str | None,
    identity: str | None,
    base: str | None,
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_directory(FileOptions(directory), identity, base) == expected.format(cwd=tmp_path)


def test_two_identities_have_two_memories_and_one_directory_is_shared(tmp_path: Path) -> None:
    one = open_file(FileOptions(), "one", str(tmp_path)).store
    two = open_file(FileOptions(), "two", str(tmp_path)).store
    one.create("key", "words", "text")
    assert two.list() == []
    assert open_file(FileOptions("memory/one"), "two", str(tmp_path)).store.list() == [Item("key", "words")]


@pytest.mark.parametrize("identity", ["", "..", ".", "a/b", "../escape", "my agent", "a\n", "x" * 201, "ümlaut", None])
def test_an_identity_that_cannot_be_a_directory_is_refused_with_the_option_to_set(
    tmp_path: Path, identity: str | None
) -> None:
    with pytest.raises(BackendError, match=r"set harness\.memory\.options\.directory") as refused:
        open_file(FileOptions(), identity, str(tmp_path))  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
    assert names(tmp_path) == []


@pytest.mark.parametrize("directory", ["", "a\0b"])
def test_an_impossible_directory_is_refused(directory: str) -> None:
    with pytest.raises(BackendError, match=r"harness\.memory\.options\.directory"):
        open_file(FileOptions(directory), "agent", None)


@pytest.mark.parametrize("kind", ["file", "under a file", "dangling link"])
def test_a_place_that_cannot_be_a_directory_is_refused_at_start(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "notes"
    if kind == "dangling link":
        place.symlink_to(tmp_path / "nowhere")
    else:
        place.write_text("a file")
    with pytest.raises(BackendError, match=r"cannot use the memory directory .*; make it a directory"):
        opened(place / "deeper" if kind == "under a file" else place)


def test_the_fingerprint_tells_stores_apart_and_reveals_no_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "one", target_is_directory=True)
    one = open_file(FileOptions(str(tmp_path / "one")), "agent", None).fingerprint
    assert open_file(FileOptions(str(tmp_path / "one")), "other", None).fingerprint == one
    assert open_file(FileOptions(str(tmp_path / "link")), "agent", None).fingerprint == one
    assert open_file(FileOptions(str(tmp_path / "two")), "agent", None).fingerprint != one
    assert "one" not in one
    assert "/" not in one


def test_a_directory_that_is_replaced_is_found_again(notes: Path, store: Store, tmp_path: Path) -> None:
    store.create("old", "words", "text")
    notes.rename(tmp_path / "moved")
    with pytest.raises(UnavailableError, match="missing"):
        store.list()
    notes.mkdir()
    assert store.list() == []
    store.create("new", "words", "text")
    assert names(notes) == ["new.md"]


# Planted things


def test_the_directory_may_be_reached_through_the_operators_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    store = opened(tmp_path / "link")
    store.create("key", "words", "text")
    assert store.list() == [Item("key", "words")]
    assert names(tmp_path / "real") == ["key.md"]


def _link(place: Path) -> None:
    target = place.parent.parent / "outside"
    target.write_bytes(b"---\ndescription: secret\n---\n\nsecret")
    place.symlink_to(target)


def _link_to_note(place: Path) -> None:
    (place.parent / "good.md").touch()
    place.symlink_to("good.md")


def _directory(place: Path) -> None:
    place.mkdir()
    (place / "inner.md").write_text("inside")


def _socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        # The name of a socket has little room: bind it from near by.
        before = os.getcwd()
        os.chdir(place.parent)
        try:
            listening.bind(place.name)
        finally:
            os.chdir(before)


PLANTS: dict[str, Callable[[Path], Any]] = {
    "link": _link,
    "link to a note": _link_to_note,
    "dangling link": lambda place: place.symlink_to(place.parent.parent / "nowhere"),
    "link to itself": lambda place: place.symlink_to(place.name),
    "link to a directory": lambda place: place.symlink_to("/"),
    "link to a device": lambda place: place.symlink_to("/dev/zero"),
    "directory": _directory,
    "fifo": os.mkfifo,
    "socket": _socket,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("kind", PLANTS)
def test_what_is_no_regular_file_is_invisible_and_never_touched(
    notes: Path, tmp_path: Path, kind: str, guard: bool
) -> None:
    store = opened(notes, guard=guard)
    store.create("other", "words", "text")
    PLANTS[kind](notes / "planted.md")
    looked = os.lstat(notes / "planted.md")
    before = names(notes)
    listed = [item.key for item in store.list()]
    assert "planted" not in listed
    assert "other" in listed
    scope = Scope({"planted": "1"})
    for call in (
        lambda: store.read("planted", scope=Scope()),
        lambda: store.create("planted", "words", "text"),
        lambda: store.update("planted", "words", "text", scope=scope),
        lambda: store.delete("planted", scope=scope),
    ):
        with pytest.raises(UnreadableError) as refused:
            call()
        assert "/" not in str(refused.value)
    assert names(notes) == before
    assert os.lstat(notes / "planted.md") == looked
    if kind == "link":
        assert (tmp_path / "outside").read_bytes().endswith(b"secret")
    assert not (tmp_path / "nowhere").exists()


def test_illegal_names_are_invisible_and_stay(notes: Path, store: Store) -> None:
    store.create("good", "words", "text")
    planted = [
        b".md",
        b".hidden.md",
        b"..md",
        b"a..b.md",
        b"end..md",
        b"a b.md",
        b"new\nline.md",
        "ümlaut.md".encode(),
        b"\xff.md",
        b"x" * 201 + b".md",
        b"note.txt",
        b"note.md~",
        b"note.MD",
        b".note.md.swp",
        b"#note.md#",
        b"README",
    ]
    for name in planted:
        (Path(os.fsdecode(os.fsencode(notes))) / os.fsdecode(name)).write_text("planted")
    assert store.list() == [Item("good", "words")]
    assert opened(notes).list() == [Item("good", "words")]
    assert sorted(os.listdir(os.fsencode(notes))) == sorted([*planted, b"good.md", os.fsencode(FILE_NAME)])


def test_what_is_invisible_does_not_count(notes: Path, store: Store) -> None:
    for number in range(MAX_ENTRIES):
        (notes / f"not a note {number}.md").touch()
    store.create("key", "words", "text")


# What cannot be read


def test_a_note_that_may_not_be_read_is_listed_and_left(notes: Path, store: Store) -> None:
    store.create("closed", "words", "text")
    store.create("good", "words", "text")
    (notes / "closed.md").chmod(0)
    (output,) = run_python(WORKER, [["forbidden", notes, "closed"]])
    results = json.loads(output)
    assert results["list"] == repr([Item("closed", UNREADABLE), Item("good", "words")])
    assert results["read"].startswith("unreadable: ")
    assert "not permitted" in results["read"]
    assert results["create"].startswith("exists: ")
    assert results["update"].startswith("unreadable: ")
    assert results["delete"].startswith("unreadable: ")
    assert not [text for text in results.values() if "/" in text or "\n" in text]
    (notes / "closed.md").chmod(0o600)
    assert store.read("closed") == Entry("words", "text")


def test_a_bad_block_under_one_note_hides_no_other(notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create("bad", "words", "text")
    store.create("good", "words", "text")
    really = files.open_with_status

    def on_a_bad_block(name: str, *where: Any) -> tuple[int, os.stat_result] | None:
        opened = really(name, *where)
        if opened is not None and name == "bad.md":
            unreadable = os.open("/proc/self/mem", os.O_RDONLY)  # whose first page reads as EIO
            os.dup2(unreadable, opened[0])
            os.close(unreadable)
        return opened

    monkeypatch.setattr(files, "open_with_status", on_a_bad_block)
    assert store.list() == [Item("bad", UNREADABLE), Item("good", "words")]
    with pytest.raises(UnavailableError) as told:
        store.read("bad")
    assert "/" not in str(told.value)
    monkeypatch.undo()
    assert store.list() == [Item("bad", "words"), Item("good", "words")]


def test_a_directory_that_may_not_be_used_is_said_without_its_path(notes: Path) -> None:
    (output,) = run_python(WORKER, [["forbidden_later", notes, "key"]])
    for result in json.loads(output).values():
        assert result.startswith("unavailable: The memory store refused access.")
        assert "/" not in result


def test_a_listing_does_not_read_bodies(notes: Path, store: Store) -> None:
    """A note may be damaged far behind its header: the listing tells its description, a read tells the damage."""
    (notes / "damaged.md").write_bytes(b"---\ndescription: words\n---\n\n" + b"x" * 9000 + b"\xff")
    assert store.list() == [Item("damaged", "words")]
    with pytest.raises(UnreadableError, match="UTF-8"):
        store.read("damaged")


def test_a_huge_file_costs_nothing(notes: Path, store: Store) -> None:
    (notes / "huge.md").touch()
    os.truncate(notes / "huge.md", 1 << 40)
    assert store.list() == [Item("huge", UNREADABLE)]
    with pytest.raises(UnreadableError, match="larger"):
        store.read("huge")
    with pytest.raises(UnreadableError):
        store.delete("huge")
    assert (notes / "huge.md").stat().st_size == 1 << 40


# People


def test_a_persons_note_without_a_header_is_used_like_any_other(notes: Path) -> None:
    store = opened(notes, guard=True)
    (notes / "todo.md").write_bytes(b"\xef\xbb\xbfbuy milk\r\n")
    assert store.list() == [Item("todo", "")]
    scope = Scope()
    assert store.read("todo", scope=scope) == Entry("", "buy milk\r\n", "\ufeff")
    store.update("todo", "shopping", "buy bread", scope=scope)
    assert (notes / "todo.md").read_bytes() == b"---\ndescription: shopping\n---\n\nbuy bread"
    assert store.delete("todo") is True


@pytest.mark.parametrize("way", ["in place", "replaced", "same bytes rewritten"])
def test_an_edit_in_between_is_noticed_even_with_its_old_times(notes: Path, way: str) -> None:
    store = opened(notes, guard=True)
    store.create("key", "words", "text", scope=(scope := Scope()))
    path = notes / "key.md"
    status = path.stat()
    document = path.read_bytes()
    if way == "replaced":
        path.unlink()
    path.write_bytes(document if way == "same bytes rewritten" else document.replace(b"text", b"TEXT"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    if way == "same bytes rewritten":
        store.update("key", "words", "mine", scope=scope)
        return
    with pytest.raises(StaleError) as refused:
        store.update("key", "words", "mine", scope=scope)
    assert refused.value.reason == "changed"
    assert store.read("key") == Entry("words", "TEXT")


def test_a_listing_shows_an_edit_of_the_same_size_and_time(
    notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("key", "words", "text")
    path = notes / "key.md"
    # Long after, as far as the store can tell: what it sees now it may keep.
    settled = listing.time.time_ns() + 10**10
    monkeypatch.setattr(listing.time, "time_ns", lambda: settled)
    assert store.list() == [Item("key", "words")]
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # until the file system's clock has ticked
        with open(path, "r+b") as file:
            file.write(b"---\ndescription: WORDS\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert store.list() == [Item("key", "WORDS")]


@pytest.mark.parametrize("step", [1_000_000_000, 2_000_000_000])
def test_a_listing_shows_an_edit_within_one_step_of_a_clock_that_counts_seconds(
    notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """A file system whose stamps are whole seconds, or FAT's two: an edit at the same size changes none of them."""

    def coarse(status: os.stat_result) -> Any:
        kept = {name: getattr(status, name) for name in ("st_ino", "st_size", "st_mode", "st_dev")}
        kept |= {name: getattr(status, name) // step * step for name in ("st_mtime_ns", "st_ctime_ns")}
        return SimpleNamespace(**kept)

    monkeypatch.setattr(listing, "_stamp", lambda status, stamp=listing._stamp: stamp(coarse(status)))
    path = notes / "key.md"
    store.create("key", "words", "text")
    made = path.stat().st_ctime_ns // step * step
    now = made + step - 1  # just before the clock ticks, which is long after on a clock of fractions
    monkeypatch.setattr(listing.time, "time_ns", lambda: now)
    assert store.list() == [Item("key", "words")]
    with open(path, "r+b") as file:
        file.write(b"---\ndescription: WORDS\n")
    if path.stat().st_ctime_ns // step * step != made:
        pytest.skip("the clock has ticked meanwhile")
    assert store.list() == [Item("key", store.read("key").description)] == [Item("key", "WORDS")]


def test_a_deleted_note_leaves_the_listing_and_may_come_back(notes: Path, store: Store) -> None:
    (notes / "key.md").write_text("by hand")
    assert store.list() == [Item("key", "")]
    (notes / "key.md").unlink()
    assert store.list() == []
    with pytest.raises(KeyNotFoundError):
        store.read("key")
    store.create("key", "words", "text")
    assert store.list() == [Item("key", "words")]


def test_a_listing_kept_from_before_is_the_one_that_a_new_process_makes(
    notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever comes and goes between two listings, beside notes that are settled and notes that are not."""
    now = listing.time.time_ns()
    late = [now]
    monkeypatch.setattr(listing.time, "time_ns", lambda: late[0])
    chance = random.Random(19)
    sizes = itertools.count()  # no two files are of one size: the stamps of this test are all within one tick
    present: set[str] = set()
    for _ in range(150):
        late[0] = now + chance.choice([0, 10**10])
        key = f"key-{chance.randrange(5)}"
        if key in present and chance.random() < 0.5:
            (notes / f"{key}.md").unlink()
            present.remove(key)
        elif chance.random() < 0.9:
            (notes / f"{key}.md").write_text(f"---\ndescription: {'x' * next(sizes)}\n---\n\n")
            present.add(key)
        expected = opened(notes).list()
        assert store.list() == expected
        assert {item.key for item in expected} == present


def test_a_caller_may_change_the_list_that_it_got(notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create("key", "words", "text")
    settled = listing.time.time_ns() + 10**10
    monkeypatch.setattr(listing.time, "time_ns", lambda: settled)
    for _ in range(3):
        found = store.list()
        assert found == [Item("key", "words")]
        found[0] = Item("other", "words")


def test_a_revision_is_the_digest_of_the_bytes_whatever_was_asked_before() -> None:
    documents = [b"", b"one", b"two", b"three", b"one more"]
    for document in itertools.chain(*itertools.permutations(documents)):
        assert entry.revision_of(document) == digest(document)


# Other processes


@pytest.fixture
def line(tmp_path: Path) -> Path:
    """Where workers of `file_worker` meet."""
    path = tmp_path / "line"
    path.write_bytes(bytes(64))
    return path


@pytest.mark.parametrize(
    ("links", "rounds"), [("yes", 300), ("no", 300), pytest.param("yes", 1000, marks=pytest.mark.long)]
)
def test_two_processes_racing_to_create_one_key(notes: Path, line: Path, links: str, rounds: int) -> None:
    outputs = run_python(WORKER, [["create", notes, line, me, 2, rounds, links] for me in range(2)])
    first, second = (json.loads(output) for output in outputs)
    for said in zip(first, second, strict=True):
        winners = [me for me in range(2) if said[me]["written"]]
        assert len(winners) == 1, said
        winner = winners[0]
        lost = said[1 - winner]
        assert lost["code"] == "exists"
        assert f'described as "by {winner}"' in lost["reason"]
        assert [each["winner"] for each in said] == [str(winner)] * 2
        assert [each["whole"] for each in said] == [True] * 2
    assert len(first) == rounds
    assert names(notes) == sorted(f"k{number}.md" for number in range(rounds))


def test_two_processes_that_read_then_overwrite_lose_no_update(notes: Path, line: Path, store: Store) -> None:
    store.create("count", "a number", "0")
    run_python(WORKER, [["count", notes, line, me, 2, 150] for me in range(2)])
    assert store.read("count").content == "300"


def test_the_cap_is_exact_with_many_processes_creating_at_once(notes: Path, line: Path, store: Store) -> None:
    for number in range(MAX_ENTRIES - 25):
        (notes / f"fill-{number}.md").touch()
    outputs = run_python(WORKER, [["fill", notes, line, me, 4, 20] for me in range(4)])
    results = [json.loads(output) for output in outputs]
    assert sum(result["created"] for result in results) == 25
    assert sum(result["full"] for result in results) == 55
    assert len(names(notes)) == MAX_ENTRIES
    assert len(store.list()) == MAX_ENTRIES


def test_a_busy_store_says_so_instead_of_waiting_for_ever(
    notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("key", "words", "text")
    monkeypatch.setattr(files, "LOCK_TIMEOUT", 0.02)
    with files.open_directory(str(notes)) as other, files.locked(other):
        for call in (
            lambda: store.create("new", "words", "text"),
            lambda: store.update("key", "other words", "text"),
            lambda: store.delete("key"),
        ):
            with pytest.raises(UnavailableError, match="busy"):
                call()
        assert store.list() == [Item("key", "words")]
    assert names(notes) == ["key.md"]
    store.create("new", "words", "text")


# Temporary files


def test_what_a_dead_writer_left_is_swept_at_start_and_a_living_writers_is_not(notes: Path) -> None:
    notes.mkdir()
    with python(WORKER, "stage", notes) as writer:
        assert writer.stdout is not None
        staged = writer.stdout.readline().strip()
        assert opened(notes).list() == [], "it is no note yet"
        assert names(notes) == [staged], "its writer lives"
        writer.kill()
        writer.wait()
        opened(notes)
        assert names(notes) == []


def test_the_sweep_takes_only_what_is_the_products_own(notes: Path) -> None:
    notes.mkdir()
    (notes / ".tmp-0123456789abcdef").write_text("a dead writer's")
    kept = [".tmp-notes", ".tmp-0123456789abcdef.md", ".tmp-0123456789ABCDEF", "x.tmp-0123456789abcdef"]
    for name in kept:
        (notes / name).write_text("someone's")
    (notes / ".tmp-1111111111111111").symlink_to(notes / kept[0])
    (notes / ".tmp-2222222222222222").mkdir()
    os.mkfifo(notes / ".tmp-3333333333333333")
    before = {*names(notes)} - {".tmp-0123456789abcdef"}
    opened(notes)
    assert {*names(notes)} == before


def test_a_temporary_file_of_another_user_is_no_reason_not_to_start(notes: Path) -> None:
    notes.mkdir()
    (notes / ".tmp-0123456789abcdef").touch(mode=0)
    (output,) = run_python(WORKER, [["forbidden", notes, "key"]])
    assert json.loads(output)["list"] == "[]"
    assert json.loads(output)["create"] == "None"


def test_a_sidecar_that_starts_at_the_wrong_moment_costs_a_writer_nothing(
    notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making a temporary file and locking it, it looks like a dead writer's."""
    real = files.create_exclusively
    starts = iter([True, True])

    def slow(name: str, directory: int | None, flags: int = os.O_RDWR) -> int:
        descriptor = real(name, directory, flags)
        if next(starts, False):
            opened(notes)
            assert name not in names(notes)
        return descriptor

    monkeypatch.setattr(files, "create_exclusively", slow)
    store.create("key", "words", "text")
    assert next(starts, None) is None
    assert names(notes) == ["key.md"]


# Failing disks


Fail = Callable[[int], None]


@pytest.fixture
def failing_fsync(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[int], bool]], None]]:
    """Lets fsync fail for the files of some mode."""
    real = os.fsync

    def arm(hits: Callable[[int], bool]) -> None:
        def fsync(descriptor: int) -> None:
            if hits(os.fstat(descriptor).st_mode):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)

    return arm  # type: ignore[return-value]


@pytest.mark.parametrize("guard", [False, True])
def test_a_change_whose_directory_cannot_be_flushed_has_an_unknown_outcome(
    notes: Path, failing_fsync: Callable[[Callable[[int], bool]], None], guard: bool
) -> None:
    store = opened(notes, guard=guard)
    scope = Scope()
    store.create("updated", "words", "old", scope=scope)
    store.create("deleted", "words", "old", scope=scope)
    failing_fsync(stat.S_ISDIR)
    for key, call in {
        "created": lambda: store.create("created", "words", "new", scope=scope),
        "updated": lambda: store.update("updated", "words", "new", scope=scope),
        "deleted": lambda: store.delete("deleted", scope=scope),
    }.items():
        before = digest((notes / f"{key}.md").read_bytes()) if key == "deleted" else None
        scope.drain()
        with pytest.raises(OutcomeUnknownError, match="Read the key"):
            call()
        assert scope.revision(key) is None
        (change,) = scope.drain()
        # What came or went, if it did: told apart from a refusal.
        assert (change.why, change.met) == ("unknown", before or digest((notes / f"{key}.md").read_bytes()))
    assert names(notes) == ["created.md", "updated.md"]
    assert store.read("updated").content == "new"


def _disk_full_on_write(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    real = os.write
    calls = iter([1])

    def write(descriptor: int, data: Any) -> int:
        if next(calls, None):
            return real(descriptor, bytes(data)[: len(data) // 2])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", write)


FAILURES: dict[str, tuple[int, str]] = {
    "write": (errno.ENOSPC, "no space left"),
    "write ": (errno.EDQUOT, "no space left"),
    "write  ": (errno.EIO, "failed"),
    "fsync": (errno.EIO, "failed"),
    "open": (errno.EROFS, "refused access"),
    "open ": (errno.EMFILE, "too many files are open"),
    "publish": (errno.EIO, "failed"),
    "publish ": (errno.ENOSPC, "no space left"),
}


@pytest.mark.parametrize("step", FAILURES)
@pytest.mark.parametrize("method", ["create", "update"])
def test_a_write_that_fails_stores_nothing_and_leaves_nothing(
    notes: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    failing_fsync: Callable[[Callable[[int], bool]], None],
    step: str,
    method: str,
) -> None:
    store.create("key", "words", "old")
    before = (notes / "key.md").read_bytes()
    number, said = FAILURES[step]

    def fail(*_arguments: Any, **_named: Any) -> Any:
        raise OSError(number, os.strerror(number), str(notes))

    with monkeypatch.context() as patched:
        match step.strip():
            case "write":
                _disk_full_on_write(patched, number)
            case "fsync":
                failing_fsync(stat.S_ISREG)
            case "open":
                patched.setattr(files, "create_exclusively", fail)
            case "publish":
                patched.setattr(os, "link", fail)
                patched.setattr(os, "rename", fail)
        scope = Scope({"key": "1"})
        write, key = (store.create, "new") if method == "create" else (store.update, "key")
        with pytest.raises(UnavailableError, match=said) as failed:
            write(key, "words", "new")
        assert "/" not in str(failed.value)
        assert scope.snapshot() == {"key": "1"}
    assert names(notes) == ["key.md"]
    assert (notes / "key.md").read_bytes() == before


def test_a_write_that_the_system_cuts_short_stores_nothing(notes: Path, store: Store) -> None:
    store.create("note", "words", "old")
    (output,) = run_python(WORKER, [["too_long", notes, 10_000]])
    for result in json.loads(output).values():
        assert result.startswith("unavailable: The memory store has no space left.")
    assert names(notes) == ["note.md"]
    assert store.read("note") == Entry("words", "old")


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
def test_without_hard_links_a_create_still_refuses_a_taken_key(
    notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_arguments: Any, **_named: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    store.create("key", "words", "text")
    with pytest.raises(KeyExistsError):
        store.create("key", "other", "other")
    # Also where the key is taken only after the first look.
    monkeypatch.setattr(backend_notes, "require", lambda *_arguments: False)
    with pytest.raises(KeyExistsError):
        store.create("key", "other", "other")
    os.mkfifo(notes / "fifo.md")
    with pytest.raises(UnreadableError):
        store.create("fifo", "other", "other")
    assert store.read("key") == Entry("words", "text")
    assert names(notes) == ["fifo.md", "key.md"]


def test_what_is_acknowledged_was_flushed_in_order(notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file, then its name, then the directory: the order that survives power loss."""
    steps: list[str] = []
    for name in ("fsync", "link", "rename", "unlink"):
        real = getattr(os, name)

        def noted(*arguments: Any, name: str = name, real: Callable[..., Any] = real, **named: Any) -> Any:
            what = ""
            if name == "fsync":
                what = " directory" if stat.S_ISDIR(os.fstat(arguments[0]).st_mode) else " file"
            if name != "unlink" or not arguments[0].startswith(".tmp-"):
                steps.append(name + what)
            return real(*arguments, **named)

        monkeypatch.setattr(os, name, noted)
    store.create("key", "words", "text")
    assert steps == ["fsync file", "link", "fsync directory"]
    steps.clear()
    store.update("key", "words", "new")
    assert steps == ["fsync file", "rename", "unlink", "fsync directory"]
    steps.clear()
    store.delete("key")
    assert steps == ["rename", "unlink", "fsync directory"]


def test_no_error_of_the_system_escapes(notes: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create("key", "words", "text")

    def fail(*_arguments: Any, **_named: Any) -> Any:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(notes))

    monkeypatch.setattr(files, "open_with_status", fail)
    for call in (
        store.list,
        lambda: store.read("key"),
        lambda: store.update("key", "a", "b"),
        lambda: store.delete("key"),
    ):
        with pytest.raises(StoreError) as failed:
            call()
        assert "/" not in str(failed.value)
