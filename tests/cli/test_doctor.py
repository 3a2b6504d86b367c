"""`doctor` for a monitor: stable codes, `--strict`, several configurations in one call."""

import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.run.test_retention import made
from tests.support.sidecar import ROOT

from memory_sidecar.assemble import Arguments
from memory_sidecar.backend.description import Looked
from memory_sidecar.backend.file import FileBackend
from memory_sidecar.backend.jetstream import client, connect, inspection, kept_secrets
from memory_sidecar.backend.jetstream.api import StreamInfo
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.row import ROW as JETSTREAM
from memory_sidecar.backend.opened import BackendError, Opened, Running
from memory_sidecar.backend.row import Place as RowPlace
from memory_sidecar.cli.review import directories, doctor, journals
from memory_sidecar.cli.review.check import CODES
from memory_sidecar.cli.shared.failure import Failure
from memory_sidecar.harness import Run, StartError
from memory_sidecar.run import records
from memory_sidecar.run.ledger import Journaled
from memory_sidecar.store.authority import Store
from memory_sidecar.system import disk, staging
from memory_sidecar.system.exchange import ASIDE_PREFIX

from .conftest import Cli, Place


def codes(cli: Cli, place: Place, *more: str | Path) -> dict[str, str]:
    """The state of each code that is told."""
    told = json.loads(cli("doctor", "--json", *place.options, *more).out)
    assert {*(one["code"] for one in told["checks"])} <= CODES.keys()
    return {one["code"]: one["state"] for one in told["checks"]}


def test_the_document_lists_each_code_and_what_it_tells() -> None:
    text = (ROOT / "docs" / "operating.md").read_text().partition("| code | tells |")[2].partition("\n## ")[0]
    assert dict(re.findall(r"(?m)^\| `([a-z-]+)` \| (.*) \|$", text)) == CODES


def test_each_code_is_told_in_a_test() -> None:
    tested = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [code for code in CODES if f'"{code}"' not in tested] == []


def test_a_memory_without_fault(cli: Cli, place: Place) -> None:
    place.write("a")
    assert codes(cli, place) == {
        "program": "ok",
        "ticket-none": "note",
        "config": "ok",
        **({"lockdown": "ok"} if "lockdown" in codes(cli, place) else {"lockdown-partial": "note"}),
        "identity": "ok",
        "directory": "ok",
        "notes": "ok",
        "journals": "ok",
    }


def rotated(place: Place) -> None:
    """A run lists, reads and deletes a note; then its journal is renamed under it, and it goes on."""
    place.write("poison", run="writer")

    async def work(run: Run) -> None:
        await run.call("memory_list", {})
        await run.call("memory_read", {"key": "poison"})
        await run.call("memory_delete", {"key": "poison"})
        (place.runs / "lost.jsonl").rename(place.runs / "lost.jsonl.1")
        await run.call("memory_list", {})

    place.within("lost", work)


def test_a_journal_that_was_rotated_away_leaves_the_ledger_open_and_its_piece_answers(
    cli: Cli, place: Place, tmp_path: Path
) -> None:
    rotated(place)
    done = cli("runs", "--saw", "poison", *place.options)
    assert done.status == 1
    assert "run lost of bot: its journal does not keep all that was before" in done.err
    (check,) = [
        one
        for one in json.loads(cli("doctor", "--json", *place.options).out)["checks"]
        if one["code"] == "journal-saved-anew"
    ]
    assert "lost.jsonl.1" in check["mend"]
    assert cli("doctor", "--strict", *place.options).status == 1
    apart = tmp_path / "apart" / "bot"
    apart.mkdir(parents=True)
    (place.runs / "lost.jsonl.1").rename(apart / "lost.jsonl")
    both = ("--journal-dir", place.journals, "--journal-dir", apart.parent)
    answer = json.loads(cli("runs", "--saw", "poison", "--json", *both).out)
    assert ("lost", "deleted") in [(one["run"], one["what"]) for one in answer["seen"]]


ROTATED: dict[str, Callable[[Path], object]] = {
    "renamed": lambda path: path.rename(f"{path}.1"),
    "renamed by date and packed": lambda path: (
        Path(f"{path}-20260101.gz").write_bytes(gzip.compress(path.read_bytes())),
        path.unlink(),
    ),
    "renamed, and made anew": lambda path: (path.rename(f"{path}.1"), path.touch(0o600)),
    "renamed as logrotate's extension": lambda path: path.rename(path.with_name("lost.1.jsonl")),
    "in a synchroniser's way": lambda path: path.rename(path.with_name("lost.sync-conflict-1.jsonl")),
    "with its directory": lambda path: shutil.copytree(path.parent, path.parent.with_name("bot (copy)")),
    "copied and cut": lambda path: (Path(f"{path}.1").write_bytes(path.read_bytes()), os.truncate(path, 0)),
}


@pytest.mark.parametrize("how", ROTATED)
def test_a_journal_that_was_rotated_while_nobody_had_it_is_named_until_it_is_back(
    cli: Cli, place: Place, how: str
) -> None:
    place.write("poison", run="lost")
    whole = (place.runs / "lost.jsonl").read_bytes()
    ROTATED[how](place.runs / "lost.jsonl")
    (moved,) = [*place.runs.glob("lost.?*jsonl"), *place.runs.glob("lost.jsonl?*"), *place.journals.glob("* *")]
    done = cli("runs", "--saw", "poison", *place.options)
    assert (done.status, moved.name in done.err) == (1, True)
    listed = cli("runs", *place.options)
    assert (listed.status, "aside" in listed.out, moved.name in listed.err) == (1, True, True)
    assert codes(cli, place)["journal-aside"] == "wrong"
    place.write("other", run="lost")  # the run goes on, without the authority that it had
    assert moved.name in cli("runs", "--saw", "poison", *place.options).err
    shutil.rmtree(moved) if moved.is_dir() else moved.unlink()
    (place.runs / "lost.jsonl").write_bytes(whole)
    answer = json.loads(cli("runs", "--saw", "poison", "--json", *place.options).out)
    assert (answer["complete"], [one["run"] for one in answer["seen"]]) == (True, ["lost"])


def journal(text: bytes, name: str = "r") -> Callable[[Place], object]:
    return lambda place: (place.runs / f"{name}.jsonl").write_bytes(text)


def planted(path: str, text: str = "x", mode: int = 0o600) -> Callable[[Place], object]:
    def plant(place: Place) -> None:
        (place.path / path).write_text(text)
        (place.path / path).chmod(mode)

    return plant


SPOILT: dict[str, tuple[Callable[[Place], object], str]] = {
    "directory-open-to-others": (lambda place: place.notes.chmod(0o755), "note"),
    "directory-writable-by-others": (lambda place: place.journals.chmod(0o777), "wrong"),
    "notes-open-to-others": (lambda place: (place.notes / "a.md").chmod(0o666), "note"),
    "strays": (planted("memory/bot/list.txt"), "note"),
    "displaced-saves": (planted(f"memory/bot/{ASIDE_PREFIX}0123456789abcdef.a.md"), "note"),
    "note-unreadable": (lambda place: (place.notes / "b.md").write_bytes(b"\xff"), "wrong"),
    "journal-damaged": (journal(b'{"seq":1,"type":"meta"}\n'), "wrong"),
    "journal-foreign": (journal(b"a list\n"), "wrong"),
    "journal-empty": (journal(b""), "wrong"),
    "journal-aside": (lambda place: (place.runs / "r.jsonl.1.gz").touch(), "wrong"),
    "journal-blocked": (lambda place: (place.runs / "r.jsonl").mkdir(), "wrong"),
    "journal-misplaced": (lambda place: made(place.runs, "r", 1, "completed", identity="other"), "wrong"),
    "journal-saved-anew": (rotated, "note"),
    "older-journals": (lambda place: made(place.journals, "old", 1, "completed", identity="bot"), "note"),
    "older-journal-stuck": (lambda place: made(place.journals, "old", 1, "completed", identity="a/b"), "wrong"),
}


@pytest.mark.parametrize("code", SPOILT)
def test_what_is_wrong_has_its_code(cli: Cli, place: Place, code: str) -> None:
    place.write("a")
    spoilt, state = SPOILT[code]
    spoilt(place)
    assert codes(cli, place).get(code) == state


@pytest.mark.parametrize("number", [1, 3, 5])
def test_the_mend_of_open_notes_can_be_pasted(cli: Cli, place: Place, number: int) -> None:
    place.write("closed")
    for name in range(number):
        (place.notes / f"it's {name}.md").write_text("no key")
        (place.notes / f"k{name}.md").write_text("x")
        (place.notes / f"k{name}.md").chmod(0o666)
    told = json.loads(cli("doctor", "--json", *place.options).out)["checks"]
    (mend,) = [one["mend"] for one in told if one["code"] == "notes-open-to-others"]
    assert "..." not in mend
    subprocess.run(["sh", "-c", mend], check=True)
    assert "notes-open-to-others" not in codes(cli, place)


def test_what_is_seen_of_credentials_is_told_where_the_broker_is_out_of_reach(
    cli: Cli, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = tmp_path / "nats" / "context"
    contexts.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(connect, "REFUSED_SECONDS", 0.0)
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"nats://127.0.0.1:{taken.getsockname()[1]}"
        (contexts / "local.json").write_text(json.dumps({"url": address, "token": "t"}))
        (contexts / "local.json").chmod(0o644)
        config = tmp_path / "c.yaml"
        config.write_text(
            "nats_context: local\nharness: {memory: {enabled: true, backend: jetstream, options: {bucket: b}}}\n"
        )
        found = codes(cli, place, "--config", config)
    assert (found["store-unusable"], found["credentials-open-to-others"]) == ("wrong", "note")


def test_a_missing_extra_is_named_before_a_context_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ImportError

    monkeypatch.setattr(client, "load", missing)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(
        BackendError, match=r'needs nats-py; install it with: pip install "memory-sidecar\[jetstream\]"'
    ):
        JETSTREAM.open(JetStreamOptions("b"), RowPlace("bot"))


def test_of_the_configuration(cli: Cli, place: Place, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"

    def told(text: str, *more: str) -> dict[str, str]:
        config.write_text(text)
        checks = json.loads(cli("doctor", "--json", "--config", config, "--store-dir", place.path, *more).out)["checks"]
        return {one["code"]: one["state"] for one in checks}

    assert told("harness: {memory: {enbled: true}}")["config-unusable"] == "wrong"
    assert told("harness: {memory: {}}")["memory-off"] == "wrong"
    assert told("harness: {memory: {enabled: true}}")["identity-none"] == "note"
    found = told("{identity: a/b, harness: {memory: {enabled: true}}}")
    assert (found["identity-illegal"], found["store-unusable"]) == ("note", "wrong")
    on = "{identity: bot, harness: {memory: {enabled: true, options: {directory: %s}}}}"
    assert told(on % "never/made")["directory-missing"] == "ok"
    (tmp_path / "file").touch()
    assert told(on % (tmp_path / "file"))["directory-unusable"] == "wrong"
    together = told(on % (place.path / "x"), "--journal-dir", str(place.path / "x"))
    assert together["shared-directory"] == "wrong"
    # Each identity has a directory of journals; a directory for all of them is that of somebody's notes too.
    for notes in ("runs", "runs/bot", "runs/other"):
        (place.path / notes).mkdir(parents=True, exist_ok=True)
        assert told(on % notes)["shared-directory"] == "wrong", notes
    for notes in ("memory/bot", ".", "runs/bot/deeper/still", "notes"):
        assert "shared-directory" not in told(on % notes), notes
    assert told("{identity: bot, harness: {memory: {enabled: true}}}", "--journal-dir", str(place.path / "memory"))[
        "shared-directory"
    ]
    assert told(on % "x", "--journal-dir", "~nobody-there/x")["config-unusable"] == "wrong"
    assert told(on % "x", "--run", "a b")["run-unusable"] == "wrong"
    assert told(on % "x", "--run", "new")["run"] == "ok"


def test_of_the_ticket(cli: Cli, place: Place, tmp_path: Path) -> None:
    ticket = tmp_path / "ticket"
    ticket.touch(mode=0o600)
    ticket.write_text("x" * 43)

    def told() -> list[str]:
        done = cli("doctor", "--json", *place.options, env={"MEMORY_SIDECAR_TICKET": str(ticket)})
        return [one["code"] for one in json.loads(done.out)["checks"] if one["check"] == "launch"]

    assert told() == ["ticket"]
    assert told() == ["ticket"]  # looking at it is no use of it
    for mode in (0o644, 0o400, 0o700):
        ticket.chmod(mode)
        assert told() == ["ticket-unusable"]
    ticket.chmod(0o600)
    for text in ("", "no token"):
        ticket.write_text(text)
        assert told() == ["ticket-unusable"]


def test_a_directory_that_all_programs_share_is_never_to_be_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    for directory in ("/", str(tmp_path)):
        one = directories._privacy("store", directory, "--store-dir")
        assert "chmod" not in one.mend
        assert one.state == "ok" or one.mend == "use a directory of its own: set --store-dir"


def test_of_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = os.statvfs(tmp_path)

    def told(**changed: Any) -> set[str]:
        fields = {name: getattr(status, name) for name in dir(status) if name.startswith("f_")} | changed
        monkeypatch.setattr(os, "statvfs", lambda _: type("Status", (), fields))
        return {one.code for one in directories.check_directory("store", str(tmp_path), "--store-dir")}

    assert "disk-read-only" in told(f_flag=os.ST_RDONLY)
    assert "disk-nearly-full" in told(f_bavail=1)
    assert "disk-full" in told(f_bavail=0)
    found = disk.inspect(str(tmp_path))
    monkeypatch.setattr(disk, "inspect", lambda _: found._replace(flushes=False, no_locks="there are none"))
    assert {"disk-cannot-flush", "disk-unfit"} <= told()


def test_of_a_bucket() -> None:
    told = doctor._looked("broker", Looked([], names=5000, compact="nats kv compact b"), 10)
    assert [(one.code, one.state) for one in told] == [("deletion-marks", "note")]


def jwt(expires: float | None) -> str:
    return signed(json.dumps({"name": "bot"} | ({} if expires is None else {"exp": int(time.time() + expires)})))


def signed(claims: str) -> str:
    import base64

    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b"{}", claims.encode(), b"s"))


@pytest.mark.parametrize(
    ("expires", "code"),
    [(None, None), (15 * 86400, None), (86400, ("jwt-expires", "note")), (-60, ("jwt-expired", "wrong"))],
)
@pytest.mark.parametrize("kept_in", ["context", "file"])
def test_of_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expires: float | None, code: tuple[str, str] | None, kept_in: str
) -> None:
    contexts = tmp_path / "nats" / "context"
    contexts.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    creds, context = tmp_path / "bot.creds", contexts / "local.json"
    token = jwt(expires)
    creds.write_text(f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n")
    context.write_text(
        json.dumps({"creds": str(creds)} if kept_in == "file" else {"user_jwt": token, "user_seed": "SU"})
    )
    kept = creds if kept_in == "file" else context
    for mode, told in ((0o600, False), (0o640, True), (0o604, True)):
        kept.chmod(mode)
        found = [(one.code, one.state) for one in kept_secrets.looked_at("local")]
        assert found == [("credentials-open-to-others", "note")] * told + ([code] if code else [])
        assert not any(token in one.found + one.mend for one in kept_secrets.looked_at("local"))


@pytest.mark.parametrize(
    "claims",
    [f'{{"exp": {exp}}}' for exp in ("0", "-1e30", "1e400", "Infinity", "NaN", '"9"', "[1]", "{}", "null", "9" * 5000)]
    + ["[" * 50_000, "[]", "7", ""],
    ids=lambda text: text[:20],
)
def test_a_time_that_no_clock_tells_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claims: str) -> None:
    contexts = tmp_path / "nats" / "context"
    contexts.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    context = contexts / "local.json"
    context.write_text(json.dumps({"user_jwt": signed(claims), "user_seed": "SU"}))
    context.chmod(0o600)
    assert [one.code for one in kept_secrets.looked_at("local")] == (["jwt-expired"] if '"9"' in claims else [])


def test_strict_counts_notes_and_several_configurations_are_told_apart(cli: Cli, place: Place, tmp_path: Path) -> None:
    place.write("a")
    good, noted, bad = (tmp_path / f"{name}.yaml" for name in ("good", "noted", "bad"))
    good.write_text(f"{{identity: bot, harness: {{memory: {{enabled: true, options: {{directory: {place.notes}}}}}}}}}")
    noted.write_text(good.read_text().replace("identity: bot, ", ""))
    bad.write_text("harness: [")
    options = ("--store-dir", place.path)

    def status(*words: str | Path) -> int:
        return cli("doctor", *options, *words).status

    partly = "lockdown-partial" in codes(cli, place)
    assert status("--config", good, "--strict") == int(partly)
    assert (status("--config", noted), status("--config", noted, "--strict")) == (0, 1)
    assert status("--config", good, "--config", bad) == 1
    told = json.loads(cli("doctor", *options, "--json", "--config", good, "--config", bad).out)
    assert [(one["config"], one["ok"]) for one in told["configurations"]] == [(str(good), True), (str(bad), False)]
    assert told["ok"] is False
    shown = cli("doctor", *options, "--config", good, "--config", noted).out
    assert shown.index(str(good)) < shown.index(f"\n{noted}\n")


def test_of_journals_that_this_user_may_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("a")
    given = Arguments(store_dir=str(place.path), identity="bot")

    def told() -> dict[str, str]:
        return {one.code: one.state for one in journals.check_journals(given, None, "bot")}

    unreadable = Journaled(str(place.runs / "r.jsonl"), "r", "bot", "unreadable", problem="cannot be read")
    monkeypatch.setattr(journals, "all_journals", lambda _: iter([unreadable]))
    assert told()["journal-unreadable"] == "wrong"

    def refused(_: object) -> None:
        raise Failure("cannot read the journal directory")

    monkeypatch.setattr(journals, "all_journals", refused)
    assert told()["journal-unusable"] == "wrong"


def test_of_a_newer_journal(cli: Cli, place: Place) -> None:
    place.write("a")
    path = made(place.runs, "r", 1, "completed", identity="bot")
    path.write_bytes(records.of_version(99, path.read_bytes()))
    assert codes(cli, place)["journal-newer"] == "wrong"


def test_of_what_a_store_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(store: Store) -> list[tuple[str, str]]:
        running = Running(Opened(store, "x"), lambda: None, lambda: None)
        return [(one.code, one.state) for one in doctor._notes(running, "store", None, {}, doctor.Counted())]

    store = Store(FileBackend(str(tmp_path)))
    assert told(store) == [("notes", "ok")]
    monkeypatch.setattr(doctor, "_NEARLY_FULL", 0)
    assert told(store) == [("memory-nearly-full", "note")]
    monkeypatch.setattr(doctor, "MAX_ENTRIES", 0)
    assert told(store) == [("memory-full", "wrong")]
    tmp_path.rename(tmp_path.with_name("away"))
    assert told(store) == [("store-failed", "wrong")]
    tmp_path.with_name("away").rename(tmp_path)
    monkeypatch.setattr(staging, "stale", lambda _: [".tmp-1"])
    assert [one.code for one in directories.litter("store", str(tmp_path))] == ["temporary-files"]
    names = [f".tmp-{number}" for number in range(6)]
    monkeypatch.setattr(staging, "stale", lambda _: names)
    (told_of,) = directories.litter("store", str(tmp_path))
    assert told_of.mend == " ".join(["rm", *(str(tmp_path / name) for name in names)])  # can be pasted


def test_of_a_bucket_that_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The four kinds of what is wrong with a bucket, as the broker tells of it."""
    config = {"max_msg_size": 69600, "max_msgs_per_subject": 1, "max_bytes": 100_000, "max_msgs": 10}
    peers = [{"name": "n2", "offline": True, "current": False}]
    info = StreamInfo(config, "now", 1, 1, 1, frozenset(), messages=10, stored_bytes=95_000, peers=peers)

    class Answers:
        def __init__(self, *_: object, **__: object) -> None: ...

        async def info(self, *_: object, **__: object) -> StreamInfo:
            return info

    async def nothing(*_: object, **__: object) -> StreamInfo:
        return info

    monkeypatch.setattr(inspection, "Api", Answers)

    async def none(*_: object, **__: object) -> list[object]:
        return []

    monkeypatch.setattr(inspection, "bind_info", nothing)
    monkeypatch.setattr(inspection, "_lacking", none)
    monkeypatch.setattr(inspection.nats_connect, "connect", nothing)
    monkeypatch.setattr(inspection.nats_connect, "close", nothing)
    contexts = tmp_path / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "local.json").write_text('{"url": "nats://127.0.0.1:4222"}')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = JETSTREAM.check(JetStreamOptions("b"), RowPlace("bot", None, "local")).findings
    assert [(one.code, one.state) for one in found] == [
        ("bucket-full", "wrong"),
        ("bucket-nearly-full", "note"),
        ("replica-absent", "note"),
        ("bucket-may-lose", "note"),
    ]
    assert all(one.mend for one in found)


@pytest.mark.parametrize("spoilt", ["runs", "runs/bot", "memory", "memory/bot", "."], ids=lambda at: f"a file for {at}")
def test_info_says_that_a_run_would_not_start_where_it_does_not(cli: Cli, tmp_path: Path, spoilt: str) -> None:
    place = Place(tmp_path / "base")
    (place.path / spoilt).parent.mkdir(parents=True, exist_ok=True)
    (place.path / spoilt).write_text("a file in its place")
    done = cli("info", "--check", *place.options)
    with pytest.raises(StartError):
        place.calls("r", ("memory_list", {}))
    assert done.status == 1
    assert "a run would start here" not in done.out
    assert "is not a directory" in done.out
    assert cli("doctor", *place.options).status == 1


def test_info_says_that_a_run_would_start_where_it_does(cli: Cli, tmp_path: Path) -> None:
    place = Place(tmp_path / "base")
    assert "a run would start here" in cli("info", "--check", *place.options).out
    place.calls("r", ("memory_list", {}))
    place.journals.chmod(0o777)  # doctor's affair
    assert "a run would start here" in cli("info", "--check", *place.options).out


def test_what_is_accepted_is_a_known_code_and_never_what_is_wrong(cli: Cli, place: Place) -> None:
    assert cli("doctor", "--accept", "notes", *place.options).status == 64  # which only --strict counts
    assert cli("doctor", "--strict", "--accept", "no-such-code", *place.options).status == 64
    place.write("a")
    (place.notes / "bad.md").write_bytes(b"\xff")
    wrong = cli("doctor", "--strict", *(word for code in CODES for word in ("--accept", code)), *place.options)
    assert wrong.status == 1
