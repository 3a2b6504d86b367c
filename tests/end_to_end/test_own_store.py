"""A program that brings its own store is a sidecar like any other: the SQLite example, launched by real harnesses."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.sidecar import Sidecar, launched

from memory_sidecar.harness import MemorySidecar, StartError, sync

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples" / "sqlite_store.py"
NOTE = {"key": "k", "description": "d", "content": "c"}


@pytest.fixture
def launch(tmp_path: Path) -> Any:
    def launch(options: str, memory: str = "", program: Path = EXAMPLE) -> Any:
        config = tmp_path / "memory.yaml"
        config.write_text(f"harness: {{memory: {{enabled: true, {memory} options: {options}}}}}\n")
        command = [sys.executable, "-P", str(program)]
        return MemorySidecar.launch(command=command, config=config, identity="me", store_dir=tmp_path)

    return launch


async def test_it_serves_with_authority_and_journals(launch: Any, tmp_path: Path) -> None:
    options = f"{{file: {tmp_path}/notes.db}}"
    async with launch(options) as memory, memory.run("r") as run:
        await run.call("memory_write", NOTE)
    async with launch(options, "backend: sqlite,") as memory, memory.run("r") as run:
        assert run.resumed
        assert (await run.call("memory_write", {**NOTE, "content": "2", "overwrite": True})).structured["written"]
        assert run.scope["store"].startswith("sqlite:")
    # Another database in its place is another store: nothing that was read in the first one counts.
    (tmp_path / "notes.db").unlink()
    async with launch(options) as memory:
        async with memory.run("other") as run:
            await run.call("memory_write", NOTE)
        async with memory.run("r") as run:
            refused = await run.call("memory_write", {**NOTE, "overwrite": True})
            assert refused.structured["code"] == "not_read"


@pytest.mark.usefixtures("both_eras")
def test_it_speaks_both_eras(tmp_path: Path) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text(f"harness: {{memory: {{enabled: true, options: {{file: {tmp_path}/notes.db}}}}}}\n")

    def serve() -> Sidecar:
        return launched(tmp_path, "--config", str(config), command=[sys.executable, "-P", str(EXAMPLE)])

    with serve() as sidecar:
        assert sidecar.open("r")["backend"]["name"] == "sqlite"
        assert sidecar.write("k", "1", "r")["written"]
        assert sidecar.leave() == 0
    with serve() as sidecar:
        assert sidecar.open("r")["resumed"] is True
        assert sidecar.write("k", "2", overwrite=True)["code"] == "not_read"
        assert sidecar.write("k", "2", "r", overwrite=True)["written"]


async def test_the_configuration_holds(launch: Any, tmp_path: Path) -> None:
    options = f"{{file: {tmp_path}/notes.db}}"
    async with launch(options, "read_only: true,") as memory, memory.run("r") as run:
        assert [tool["name"] for tool in run.tools] == ["memory_list", "memory_read"]
    for wrong, says in (
        (f"{{fil: {tmp_path}/x}}", "did you mean file"),
        ("{}", "file is missing"),
        ("{file: 3}", "file"),
    ):
        with pytest.raises(StartError, match=says):
            async with launch(wrong):
                pass
    with pytest.raises(StartError, match=r"'file'.*'sqlite'"):
        async with launch(options, "backend: file,"):
            pass


def test_a_misspelt_argument_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--identitty", "x"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "--identitty" in done.stderr) == (64, True)


PROGRAM = """
import os, sys
sys.path.insert(0, {examples!r})
from memory_sidecar.own_store import OpenedStore, OwnStore, main
from memory_sidecar.store.contract import Info
from sqlite_store import SqliteBackend, SqliteOptions

class Odd(SqliteBackend):
    def info(self):
        return Info("odd", {location!r})
    def get(self, key, *, after=None):
        raise ValueError("secret /path")

def opened(options, place):
    return OpenedStore(Odd(options.file), "id", directories=(os.path.dirname(options.file),))

sys.exit(main(OwnStore("odd", SqliteOptions, opened)))
"""


async def test_a_fault_of_the_store_reaches_the_model_in_words(
    launch: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "odd.py"
    program.write_text(PROGRAM.format(examples=str(EXAMPLE.parent), location="plain"))
    async with launch(f"{{file: {tmp_path}/n.db}}", program=program) as memory, memory.run("r") as run:
        answer = await run.call("memory_read", {"key": "k"})
        assert answer.text.startswith("The memory store failed. ")
        assert "secret" not in answer.text
    assert "ValueError" in capfd.readouterr().err


@pytest.mark.parametrize("location", ["redis://user:pass@host", "/var/lib/notes", "user@host"])
async def test_a_location_that_tells_too_much_is_refused(launch: Any, tmp_path: Path, location: str) -> None:
    program = tmp_path / "odd.py"
    program.write_text(PROGRAM.format(examples=str(EXAMPLE.parent), location=location))
    with pytest.raises(StartError, match="looks like a path, an address or a credential") as refused:
        async with launch(f"{{file: {tmp_path}/n.db}}", program=program):
            pass
    assert location not in str(refused.value)


PAGE = Path(__file__).parents[2] / "docs" / "own-store.md"
MANY = """
import os, sys
sys.path.insert(0, {examples!r})
from memory_sidecar.own_store import Fact, OpenedStore, OpenedStores, OwnStore, Place, main
from sqlite_store import SqliteOptions, describe_sqlite, open_sqlite

{page}

sys.exit(main({own}))
"""


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """The program of the page's section on many identities."""
    section = PAGE.read_text().partition("## Many identities\n")[2].partition("\n## ")[0]
    *page, own = [line[4:] for line in section.splitlines() if line.startswith("    ") or not line]
    own = next(line for line in [*page, own] if line.startswith("OwnStore("))
    page = page[: page.index(own)]  # below it is what to type
    program = tmp_path / "many.py"
    program.write_text(MANY.format(examples=str(EXAMPLE.parent), page="\n".join(page), own=own))
    return program


def launch_many(tmp_path: Path, program: Path) -> sync.MemorySidecar:
    config = tmp_path / "memory.yaml"
    config.write_text("harness: {memory: {enabled: true, backend: sqlite, options: {file: notes}}}\n")
    command = [sys.executable, "-P", str(program)]
    return sync.MemorySidecar.launch(command=command, config=config, store_dir=tmp_path, many_identities=True)


def test_each_identity_has_a_store_of_its_own(tmp_path: Path, many: Path) -> None:
    with launch_many(tmp_path, many) as memory:
        with memory.run("main", identity="a") as one, memory.run("main", identity="b") as two:
            assert one.call("memory_write", {**NOTE, "content": "of a"}).structured == {"written": True, "key": "k"}
            assert not (two.call("memory_read", {"key": "k"}).structured or {})["found"]
            assert two.call("memory_write", {**NOTE, "content": "of b"}).structured == {"written": True, "key": "k"}
            scope = one.scope
        with memory.run("main", identity="a") as one, memory.run("new", identity="b", scope=scope) as two:
            assert one.resumed
            written = one.call("memory_write", {**NOTE, "content": "again", "overwrite": True}).structured or {}
            refused = two.call("memory_write", {**NOTE, "content": "again", "overwrite": True}).structured or {}
            assert (written["written"], refused["code"]) == (True, "not_read")
    assert sorted(path.name for path in (tmp_path / "notes").glob("*.db")) == ["a.db", "b.db"]


def test_commands_find_the_store_of_an_identity(tmp_path: Path, many: Path) -> None:
    """What is served to many identities is what an operator's commands mean, and a launch for one of them."""
    with launch_many(tmp_path, many) as memory, memory.run("main", identity="u1") as run:
        run.call("memory_write", {**NOTE, "description": "of u1"})
    config = tmp_path / "memory.yaml"

    def program(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-P", str(many), *words, "--config", str(config), "--store-dir", str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert "of u1" in program("list", "--identity", "u1").stdout
    looked = program("info", "--check", "--identity", "u1").stdout
    assert (f"{tmp_path}/notes/u1.db\n" in looked, "notes                    1\n" in looked) == (True, True)
    for wrong, says in (("u2", "there is no database"), ("../notes/u1", "cannot name notes in the store 'sqlite'")):
        refused = program("list", "--identity", wrong)
        assert (refused.returncode, says in refused.stderr) == (78, True), refused.stderr
    assert program("list").returncode != 0  # whose memory is meant has to be said
    command = [sys.executable, "-P", str(many)]
    with (
        sync.MemorySidecar.launch(command=command, config=config, store_dir=tmp_path, identity="u1") as memory,
        memory.run("main", resume="require") as run,
    ):
        assert run.call("memory_write", {**NOTE, "overwrite": True}).structured == {"written": True, "key": "k"}
    assert sorted(path.name for path in (tmp_path / "notes").glob("*.db")) == ["u1.db"]


def test_identities_that_would_share_a_store_are_refused(tmp_path: Path, many: Path) -> None:
    (tmp_path / "notes").mkdir(mode=0o700)
    (tmp_path / "notes" / "B.db").symlink_to("a.db")
    with launch_many(tmp_path, many) as memory, memory.run("main", identity="a"):
        with (
            pytest.raises(sync.RequestRefusedError, match="gives the identities 'a' and 'B' one memory"),
            memory.run("main", identity="B"),
        ):
            pytest.fail("it opened")
        with memory.run("main", identity="c") as run:
            assert run.identity == "c"


def test_a_store_that_says_nothing_of_many_identities_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(StartError, match=r"'sqlite' is opened for one identity; leave out --many-identities"),
        launch_many(tmp_path, EXAMPLE),
    ):
        pytest.fail("it started")


def test_a_store_that_cannot_be_opened_for_one_is_that_ones_alone(tmp_path: Path, many: Path) -> None:
    (tmp_path / "notes" / "bad.db").mkdir(parents=True)
    with launch_many(tmp_path, many) as memory:
        with (
            pytest.raises(sync.RequestRefusedError, match="the database cannot be used: unable to open") as refused,
            memory.run("main", identity="bad"),
        ):
            pytest.fail("it opened")
        assert str(tmp_path) not in str(refused.value)
        with memory.run("main", identity="good") as run:
            assert not run.resumed


def test_every_command_knows_it(tmp_path: Path) -> None:
    """The program is the whole command line: what it serves can be looked at, copied, and taken out of reach."""
    (tmp_path / "memory.yaml").write_text(
        "identity: me\nharness: {memory: {enabled: true, backend: sqlite, options: {file: notes.db}}}\n"
    )
    (tmp_path / "files.yaml").write_text("identity: me\nharness: {memory: {enabled: true, backend: file}}\n")
    places = ("--config", "memory.yaml", "--store-dir", "state")

    def program(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-P", str(EXAMPLE), *words], capture_output=True, text=True, check=False, cwd=tmp_path
        )

    shown = program("info", *places).stdout
    assert f"  file         {tmp_path}/state/notes.db\n  guard        an overwrite needs a read" in shown
    assert json.loads(program("info", "--json", *places).stdout)["memory"]["where"] == {
        "file": f"{tmp_path}/state/notes.db",
        "require_read_before_update": True,
    }
    # What only looks makes nothing.
    looked = program("info", "--check", *places)
    assert (looked.returncode, "there is no database" in looked.stdout) == (1, True)
    assert program("list", *places).returncode == 78
    assert not (tmp_path / "state").exists()
    (tmp_path / "state").mkdir()
    # A start would make it, which is no refusal.
    looked = program("info", "--check", *places)
    assert (looked.returncode, "will be made at the first start" in looked.stdout) == (0, True), looked.stdout
    told = program("doctor", "--json", *places)
    codes = {one["code"]: one["state"] for one in json.loads(told.stdout)["checks"]}
    assert (told.returncode, codes["store-missing"]) == (0, "ok")
    assert program("list", *places).returncode == 78
    assert not list((tmp_path / "state").iterdir())

    (tmp_path / "notes").write_text('{"key": "plan", "description": "About plan", "content": "The plan."}\n')
    assert program("import", "notes", *places).stdout == "1 created\n"
    assert "About plan" in program("list", *places).stdout
    assert "notes                    1\n" in program("info", "--check", *places).stdout
    told = program("doctor", *places).stdout
    assert "ok     store        1 of 1024 notes" in told
    assert f"-> {sys.executable} {EXAMPLE} try --config memory.yaml --store-dir state" in told
    copied = program("copy", "--from", "memory.yaml", "--to", "files.yaml", *AT)
    assert (copied.stdout, copied.stderr) == ("1 created\n", "")
    assert (tmp_path / "state" / "memory" / "me" / "plan.md").exists()
    tried = subprocess.run(
        [sys.executable, "-P", str(EXAMPLE), "try", *places],
        input="read plan\nquit\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "The plan." in tried.stdout, tried.stderr


AT = ("--from-store-dir", "state", "--to-store-dir", "state")


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", "a b", "ä"])
async def test_any_path_can_be_the_database(launch: Any, tmp_path: Path, name: str) -> None:
    async with launch(f'{{file: "{name}.db"}}') as memory, memory.run("r") as run:
        assert (await run.call("memory_write", NOTE)).structured["written"]
        assert (await run.call("memory_read", {"key": "k"})).structured["content"] == "c"
    assert {path.name for path in tmp_path.glob("*.db")} == {f"{name}.db"}


@pytest.mark.parametrize(
    ("there", "said"),
    [(b"no database, but a text of somebody's\n" * 9, "the database cannot be used"), (b"", "no database")],
)
def test_a_command_that_only_looks_leaves_what_is_no_database(tmp_path: Path, there: bytes, said: str) -> None:
    file = tmp_path / "notes.db"
    file.write_bytes(there)
    config = tmp_path / "memory.yaml"
    config.write_text(f"harness: {{memory: {{enabled: true, options: {{file: {file}}}}}}}\n")
    command = [sys.executable, "-P", str(EXAMPLE), "list", "--config", str(config), "--identity", "me"]
    looked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert looked.returncode == 78
    assert said in looked.stderr
    assert file.read_bytes() == there
