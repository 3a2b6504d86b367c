"""What commands once left unsaid, or said of the wrong thing."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.support.broker import add_bucket, connected, put, run_broker

from memory_sidecar.assemble import Arguments
from memory_sidecar.backend.jetstream.refused import AWAY
from memory_sidecar.cli.shared.failure import told
from memory_sidecar.cli.shared.memory import opened
from memory_sidecar.store.errors import UnavailableError

from .conftest import Cli, Place


def written(path: Path, **memory: object) -> Path:
    path.write_text(json.dumps({"identity": "bot", "harness": {"memory": {"enabled": True, **memory}}}))
    return path


def test_what_the_broker_refuses_while_copying_is_told_to_the_operator(
    cli: Cli, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("a")
    users = [
        {"user": "admin", "password": "a"},
        {"user": "reader", "password": "a", "permissions": {"publish": "$JS.API.>", "subscribe": "_INBOX.>"}},
    ]
    contexts = tmp_path / "config" / "nats" / "context"
    contexts.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with run_broker(tmp_path / "broker", config=f"authorization: {json.dumps({'users': users})}") as broker:

        async def make() -> None:
            async with connected(broker.url, user="admin", password="a") as nc:
                await add_bucket(nc, "b")
                await put(nc, "b", "bot.k", b"---\ndescription: k\n---\n\nx")

        asyncio.run(make())
        (contexts / "local.json").write_text(json.dumps({"url": broker.url, "user": "reader", "password": "a"}))
        config = tmp_path / "fleet.yaml"
        config.write_text(
            json.dumps(
                {
                    "identity": "bot",
                    "nats_context": "local",
                    "harness": {"memory": {"enabled": True, "backend": "jetstream", "options": {"bucket": "b"}}},
                }
            )
        )
        note = '{"key": "n", "description": "d", "content": "e"}'
        files = written(tmp_path / "files.yaml")
        for words in (
            ("copy", "--from", files, "--from-store-dir", place.path, "--to", config),
            ("import", "-", "--config", config),
            ("quarantine", "k", "--config", config, "--store-dir", tmp_path / "q"),
        ):
            done = cli(*words, stdin=note)
            told = done.out + done.err
            assert done.status == 1
            assert "does not permit this user to publish to $KV.b.bot." in told
            assert "memory-sidecar permissions --config FILE" in told
            assert "Go on without it" not in told


def raises(error: Exception) -> None:
    raise error


def test_a_store_out_of_reach_names_the_doctor_of_this_memory(place: Place) -> None:
    place.write("a")
    with opened(Arguments(store_dir=str(place.path), identity="bot")) as memory:
        place.notes.rename(place.notes.with_suffix(".away"))
        with pytest.raises(UnavailableError) as refused:
            memory.list()
        assert f"memory-sidecar doctor --identity bot --store-dir {place.path} looks for" in told(refused.value)
        away = UnavailableError(AWAY)
        with pytest.raises(UnavailableError):
            memory.ask(lambda: raises(away))
    assert "go on without memory" in str(away)  # a model can do that, and an operator cannot
    assert told(away).startswith("The memory store cannot be reached now\nmemory-sidecar doctor ")


@pytest.mark.parametrize("end", ["from", "to"])
def test_copy_says_which_end_is_meant(cli: Cli, tmp_path: Path, end: str) -> None:
    (tmp_path / "base" / "memory" / "bot").mkdir(parents=True)
    there = written(tmp_path / "there.yaml", options={"directory": str(tmp_path / "base" / "memory" / "bot")})
    ends = {"from": there, "to": there, end: tmp_path / "missing.yaml"}
    done = cli("copy", "--from", ends["from"], "--to", ends["to"])
    assert done.status == 78
    assert f"check --{end}\n" in done.err
    assert "--config" not in done.err


@pytest.mark.parametrize("memory", [{"enabled": False}, {"read_only": True}], ids=str)
def test_writing_into_a_memory_that_runs_do_not_get_is_noted(
    cli: Cli, place: Place, tmp_path: Path, memory: dict[str, bool]
) -> None:
    place.write("a")
    target = written(tmp_path / "target.yaml", options={"directory": "to"}, **memory)
    note = '{"key": "n", "description": "d", "content": "e"}'
    word = "disabled" if "enabled" in memory else "read_only"
    done = cli("import", "-", "--config", target, stdin=note)
    assert (done.status, done.out) == (0, "1 created\n")
    assert word in done.err
    source = written(tmp_path / "source.yaml", options={"directory": str(place.notes)})
    done = cli("copy", "--from", source, "--to", target)
    assert (done.status, done.out) == (0, "1 created\n")
    assert word in done.err


@pytest.mark.parametrize(
    "line",
    [
        '{"key": "a", "key": "b", "description": "d", "content": "e"}',
        '{"key": "a", "description": "d", "content": "e", "content": "e"}',
        '{"format": "memory-sidecar/export", "version": 1, "notes": 0, "notes": 0}',
    ],
)
def test_a_name_that_stands_twice_in_a_line_is_refused(cli: Cli, place: Place, line: str) -> None:
    done = cli("import", "-", *place.options, stdin=line)
    assert done.status == 1
    assert "stands twice in it; remove one" in done.err
    assert not place.path.exists()


def test_an_empty_target_is_wrong_usage(cli: Cli, place: Place) -> None:
    place.write("a")
    done = cli("export", "--to=", *place.options)
    assert (done.status, done.out) == (64, "")
    assert "--to is empty" in done.err


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("journals", ["damaged", "no directory"])
def test_quarantine_is_done_and_says_that_the_list_of_runs_is_incomplete(
    cli: Cli, place: Place, form: tuple[str, ...], journals: str
) -> None:
    place.write("a")
    options = place.options
    if journals == "damaged":
        (place.runs / "broken.jsonl").write_text("{}\n")
    else:
        (place.path / "file").write_text("")
        options = (*options, "--journal-dir", str(place.path / "file"))
    done = cli("quarantine", "a", *form, *options)
    assert done.status == 1
    assert "a is quarantined, but the list of runs is incomplete" in done.err
    assert "memory-sidecar runs --saw a --identity bot --store-dir" in done.err
    assert not (place.notes / "a.md").exists()
    if form:
        assert json.loads(done.out)["complete"] is False


def test_info_shows_no_raw_control_character(cli: Cli, tmp_path: Path) -> None:
    done = cli("info", "--check", "--identity", "bot", "--store-dir", tmp_path / "a\x1b[2J\nenabled no")
    assert "\x1b" not in done.out
    assert "a\\x1b[2J\\x0aenabled no" in done.out
    missing = cli("info", "--config", tmp_path / "no\x1b[2J")
    assert missing.status == 78
    assert "\x1b" not in missing.err


def test_doctor_tells_that_notes_and_journals_share_a_directory(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir(mode=0o700)
    os.symlink("one", tmp_path / "other")
    config = written(tmp_path / "m.yaml", options={"directory": "one"})
    done = cli("doctor", "--config", config, "--journal-dir", tmp_path / "other")
    assert done.status == 1
    assert "notes and journals are in one directory" in done.out
    assert "one directory" not in cli("doctor", "--config", config, "--journal-dir", tmp_path / "runs").out


def test_a_directory_with_a_nul_is_not_called_empty(cli: Cli, tmp_path: Path) -> None:
    done = cli("info", "--config", written(tmp_path / "m.yaml", options={"directory": "a\0b"}))
    assert done.status == 78
    assert "holds a NUL character" in done.err
