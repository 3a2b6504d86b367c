"""On a disk that does not tell upper from lower case, nobody gets another's run, journal or memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.folding import mounted, simulated
from tests.support.sidecar import configured

from memory_sidecar.assemble import Arguments, prepare
from memory_sidecar.backend.opened import BackendError
from memory_sidecar.exits import StartError
from memory_sidecar.run.session import Run
from memory_sidecar.run.terms import JournalError
from memory_sidecar.system import files
from memory_sidecar.wire.service import Service


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path | None]:
    with mounted(tmp_path_factory.mktemp("disk")) as folding:
        yield folding


@pytest.fixture
def place(disk: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """On a real disk where there is one, as on many a developer's machine; else one that is played."""
    place = (disk or tmp_path) / tmp_path.name
    place.mkdir()
    return place if disk is not None else simulated(place, monkeypatch)


def started(place: Path, **arguments: str) -> Service:
    guard = "options: {require_read_before_update: true}"
    config = configured(place, guard)[1]
    return prepare(Arguments(config=config, store_dir=str(place), lockdown="off", **arguments)).start()


def test_the_disk_folds(place: Path) -> None:
    (place / "Task-A").write_text("x")
    assert (place / "task-a").exists()


def write(run: Run, text: str, *, overwrite: bool = False) -> bool:
    note = {"key": "plan", "description": "d", "content": text, "overwrite": overwrite}
    return bool((run.call("memory_write", note).outcome.structured or {})["written"])


def opened(service: Service, name: str, identity: str | None = None) -> Run:
    run = Run(name, service.setting(identity))
    run.open()
    run.begin()
    return run


def test_a_run_is_not_the_one_of_the_same_letters(place: Path) -> None:
    service = started(place, identity="agent")
    first = opened(service, "Task-A")
    assert write(first, "one")
    first.end("suspended")
    before = (place / "runs" / "agent" / "Task-A.jsonl").read_bytes()
    with pytest.raises(JournalError, match=r"is not this run's.*run Task-A of identity agent"):
        opened(service, "task-a")
    assert (place / "runs" / "agent" / "Task-A.jsonl").read_bytes() == before
    again = opened(service, "Task-A")
    assert again.resumed
    assert write(again, "two", overwrite=True)
    again.end("suspended")


def test_an_identity_is_not_the_one_of_the_same_letters(place: Path) -> None:
    service = started(place, many_identities="yes")
    run = opened(service, "main", "Tenant")
    assert write(run, "of Tenant")
    for other in ("tenant", "TENANT"):
        with pytest.raises(BackendError, match=r"does not tell .*name identities that differ in more than case"):
            service.setting(other)
    assert opened(service, "main", "tenant-2").scope()["keys"] == {}
    run.end("suspended")
    assert opened(service, "main", "Tenant").resumed


def test_of_two_that_are_opened_at_one_moment_one_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other's directory is made when no spelling was found yet."""
    service = started(place, many_identities="yes")
    make = files.make_private_directory

    def late(path: str) -> None:
        if path.endswith("tENANT"):
            make(path.replace("tENANT", "Tenant"))
        make(path)

    monkeypatch.setattr(files, "make_private_directory", late)
    with pytest.raises(BackendError, match=r"does not tell .*name identities that differ in more than case"):
        service.setting("tENANT")
    assert service.setting("Tenant").identity == "Tenant"


def test_nor_is_that_of_another_process(place: Path) -> None:
    started(place, identity="Agent")
    with pytest.raises(StartError, match=r"does not tell .*name identities that differ in more than case"):
        started(place, identity="agent")
    assert started(place, identity="Agent").setting(None).identity == "Agent"
