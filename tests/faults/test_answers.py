"""What comes of each answer that a file system may give to each call of the store: one row a call, played with a real
sidecar that meets it at every such call.

Whatever the answer is, reading and listing go on, nothing is half-written, no path is shown, and the session ends in
order. The words of the rows: `works`; `refused` (nothing was changed, and why is said); `unknown`; `no start`.
"""

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.shim import spoiled
from tests.support.sidecar import SERVE, Frame, Sidecar, configured, guarded, launched

from memory_sidecar.system import disk

from .answers import NO_START, cases, started

Row = tuple[str, str, str]

WORKS: Final[Row] = ("works",) * 3
AGAIN: Final = {"EINTR": WORKS}
CANNOT_FLUSH: Final = dict.fromkeys(("EINVAL", "ENOSYS", "EOPNOTSUPP", "EINTR"), WORKS)
NO_LINKS: Final = dict.fromkeys(("EACCES", "ENOSYS", "EOPNOTSUPP", "EMLINK", "EPERM"), WORKS)

# What creating, overwriting and deleting come to, and the answers for which it is another thing.
TABLE: Final[dict[str, tuple[Row, dict[str, Row]]]] = {
    "flock": ((NO_START,) * 3, AGAIN),
    "link": (("refused", "works", "works"), NO_LINKS),
    "fsync": (("refused", "refused", "works"), CANNOT_FLUSH),
    "fsyncdir": ((NO_START,) * 3, CANNOT_FLUSH),
    "rename": (("works", "refused", "refused"), {"EINTR": ("works", "refused", "works")}),
    "unlink": (("works", "works", "refused"), AGAIN),
    "create": (("refused", "refused", "works"), AGAIN),
    "write": (("refused", "refused", "works"), AGAIN),
    "ftruncate": (WORKS, {}),
    "mkdir": (WORKS, {}),
}


def played(sidecar: Sidecar, name: str, **arguments: Any) -> tuple[str, Frame]:
    answer = sidecar.call(name, arguments)
    assert "/" not in answer["content"][0]["text"].replace("://", ""), "a path is shown to the model"
    if not answer.get("isError"):
        return "works", answer
    text = answer["content"][0]["text"]
    return ("unknown" if "outcome" in text else "refused"), answer


@pytest.mark.parametrize(("call", "name", "expected"), list(cases(TABLE)))
def test_an_answer_at_every_call(call: str, name: str, expected: Row, prepared: Path) -> None:
    with started(prepared, "memory", call, name, expected, "cannot use") as sidecar:
        if sidecar is None:
            return
        about = {"description": "d", "content": "new"}
        outcomes = [
            played(sidecar, "memory_write", key="new", **about),
            played(sidecar, "memory_write", key="old", overwrite=True, **about),
            played(sidecar, "memory_delete", key="gone"),
        ]
        found = tuple(outcome for outcome, _ in outcomes)
        if call == "fsyncdir":  # met after the start alone: whether it is on disk, nobody knows
            assert set(found) <= {"unknown", "works"}
        else:
            assert found == expected
        for outcome, told in outcomes:
            assert outcome != "refused" or "Nothing was changed" in told["content"][0]["text"]
        new, old, gone = found
        if call != "fsyncdir":
            assert sidecar.read("old")["content"] == ("new" if old == "works" else "text")
            assert sidecar.read("new")["found"] == (new == "works")
            assert sidecar.read("gone")["found"] == (gone != "works")
        assert sidecar.leave() == 0


def cli(command: str, env: dict[str, str], *options: str) -> str:
    words = [*SERVE[:-1], command, *options]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", ["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
def test_no_locks_at_all_is_the_same_word_everywhere(name: str, tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        sidecar.leave()
    env = spoiled(tmp_path / "memory", {"flock": getattr(errno, name)})
    said = f"its file system has no locks ({os.strerror(getattr(errno, name))})"
    places = ("--store-dir", str(tmp_path), "--identity", "tester")
    assert said in cli("doctor", env, *places)
    assert said in cli("info", env, "--check", *places)
    with Sidecar(tmp_path, env=env) as sidecar:
        hello = sidecar.hello()
        sidecar.send(hello)
        assert said in sidecar.answer(hello)["error"]["message"]


def test_a_disk_that_cannot_flush_is_told_once_each_by_info_doctor_and_the_log(tmp_path: Path) -> None:
    env = spoiled(tmp_path / "memory", {"fsyncdir": errno.EINVAL})
    with launched(tmp_path, env=env) as sidecar:
        for number in range(3):
            assert sidecar.write(f"k{number}", "text")["written"]
        assert sidecar.leave() == 0
        assert sidecar.stderr.count("cannot be flushed") == 1
    places = ("--store-dir", str(tmp_path), "--identity", "tester")
    for command in ("info", "doctor"):
        assert cli(command, env, *places).count(disk.CANNOT_FLUSH) == 1
    assert json.loads(cli("info", env, "--json", *places))["memory"]["disk"]["flushes"] is False


def test_a_lock_that_was_refused_once_is_no_reason_to_lose_the_journal(tmp_path: Path) -> None:
    """The second lock taken below the journals' directory is that of the new journal."""
    env = spoiled(tmp_path / "runs", {"flock": f"{errno.ENOLCK}@2+1"})
    with launched(tmp_path, env=env) as sidecar:
        sidecar.call("memory_list")
        sidecar.write("a", "text")
        answer = sidecar.call("memory_write", {"key": "b", "description": "d", "content": "text"})
        assert "memory-sidecar/unsaved" not in answer.get("_meta", {})
        assert sidecar.leave() == 0
    assert [path.name for path in (tmp_path / "runs").rglob("*.jsonl")]


def test_names_may_be_shorter_here(tmp_path: Path) -> None:
    """eCryptfs: names end at 143 bytes, though a key may have 200."""
    with launched(tmp_path, env=spoiled(tmp_path / "memory", {"link": errno.ENAMETOOLONG})) as sidecar:
        answer = sidecar.call("memory_write", {"key": "k" * 190, "description": "d", "content": "c"})
        assert answer["isError"]
        assert "This key is too long for the file system" in answer["content"][0]["text"]


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "virtiofs", "fuse", "fuse.sshfs"])
def test_the_guard_needs_locks_that_all_machines_see(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memory_sidecar.backend.file import FileOptions, open_file
    from memory_sidecar.backend.opened import BackendError

    monkeypatch.setattr(disk, "_kind", lambda *_: kind)
    open_file(FileOptions(), "me", str(tmp_path))
    with pytest.raises(BackendError, match=f"network file system \\({kind}\\).*single_machine: true"):
        open_file(FileOptions(require_read_before_update=True), "me", str(tmp_path))
    open_file(FileOptions(require_read_before_update=True, single_machine=True), "me", str(tmp_path))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "ceph", "fuse.fuse-overlayfs", ""])
def test_the_guard_works_on_disks_of_this_machine(kind: str) -> None:
    assert disk.refusal("/somewhere", disk.Disk(kind, "", True), vouch="x") is None


def test_what_the_kernel_calls_a_disk_is_found_without_proc_too() -> None:
    assert disk._magic_kind("/proc") == "", "no network file system"
    assert disk.inspect("/dev/shm").kind == "tmpfs"


def test_one_machine_is_vouched_for_in_the_configuration(tmp_path: Path) -> None:
    block = "backend: file, options: {require_read_before_update: true, single_machine: true}"
    with launched(tmp_path, *configured(tmp_path, block)) as sidecar:
        assert sidecar.write("a", "x")["written"]
    assert "this machine alone writes there" in cli(
        "info", spoiled(tmp_path, {}), *configured(tmp_path, block), "--identity", "me"
    )
    assert guarded(tmp_path)


def test_litter_that_cannot_be_removed_is_told(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        sidecar.leave()
    notes = tmp_path / "memory" / "tester"
    (notes / (".tmp-" + "0" * 16)).write_text("half")
    env = spoiled(tmp_path / "memory", {"unlink": errno.EPERM})
    with launched(tmp_path, env=env) as sidecar:
        assert sidecar.write("a", "x")["written"]
        assert sidecar.leave() == 0
    told = cli("doctor", env, "--store-dir", str(tmp_path), "--identity", "tester")
    assert "temporary files of writers that died" in told
    assert f"rm {notes}/.tmp-" in told
