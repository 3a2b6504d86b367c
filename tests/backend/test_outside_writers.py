"""Programs that people really use beside a memory, each saving as it does: what one saved is never lost unseen.

Each saves twice: while nobody else is at work, and in the instant between our look at the note and our change. A
program that is not installed is skipped; `make other-writers` says which.
"""

import os
import pty
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.backend.test_file import opened

from memory_sidecar.backend.file import swap
from memory_sidecar.store.errors import StaleError
from memory_sidecar.store.scope import Scope
from memory_sidecar.system import exchange

# Nothing of a person's settings, and no place outside the test's own.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "TERM": "xterm",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "t@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def run(*command: str | Path, at: Path, keys: str = "") -> None:
    done = subprocess.run(
        command, cwd=at, env=ENVIRONMENT | {"HOME": str(at)}, input=keys.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def on_a_terminal(*command: str | Path, at: Path, keys: bytes) -> None:
    """A program that draws on a terminal. `keys` are typed once it has drawn, and then it ends by itself."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(at)
        os.execvpe(command[0], [str(word) for word in command], ENVIRONMENT | {"HOME": str(at)})
    os.read(terminal, 65536)
    os.write(terminal, keys)
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass  # the program closed it
    assert os.waitpid(child, 0)[1] == 0
    os.close(terminal)


def vim(how: str) -> Callable[[Path], None]:
    settings = f"set nocompatible writebackup noswapfile backupcopy={how}"
    return lambda file: run(
        "vim", "-u", "NONE", "-es", "-c", settings, "-c", "%s/old/saved/", "-c", "wq", file.name, at=file.parent
    )


def nano(file: Path) -> None:
    # Cuts the last line, types another, writes out and leaves.
    on_a_terminal("nano", "-I", "+5", file.name, at=file.parent, keys=b"\x0bsaved\x0f\r\x18")


def ed(file: Path) -> None:
    run("ed", "-s", file.name, at=file.parent, keys=",s/old/saved/\nw\nq\n")


def emacs(file: Path) -> None:
    replace = '(progn (while (search-forward "old" nil t) (replace-match "saved")) (save-buffer))'
    run("emacs", "-Q", "--batch", file.name, "--eval", replace, at=file.parent)


def sed(file: Path) -> None:
    run("sed", "-i", "s/old/saved/", file.name, at=file.parent)


def perl(file: Path) -> None:
    run("perl", "-pi", "-e", "s/old/saved/", file.name, at=file.parent)


def _edited(file: Path) -> Path:
    """The saved version, elsewhere."""
    elsewhere = file.parent.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    copy = elsewhere / file.name
    copy.write_bytes(file.read_bytes().replace(b"old", b"saved"))
    return copy


def rsync(*options: str) -> Callable[[Path], None]:
    return lambda file: run("rsync", "--checksum", *options, _edited(file), f"{file.parent}/", at=file.parent)


def sync_program(file: Path) -> None:
    """As Syncthing, Dropbox and others: into a hidden file beside, then renamed over."""
    hidden = file.parent / f".syncthing.{file.name}.tmp"
    shutil.copy(_edited(file), hidden)
    run("mv", hidden, file, at=file.parent)


def redirection(file: Path) -> None:
    run("sh", "-c", 'cat "$0" > "$1"', _edited(file), file, at=file.parent)


def git(*restore: str) -> Callable[[Path], None]:
    """Commits the saved version first, so that a later command of git brings it."""

    def act(file: Path) -> None:
        repository, current = file.parent, file.read_bytes()
        if not (repository / ".git").exists():
            run("git", "init", "--quiet", at=repository)
            file.write_bytes(current.replace(b"old", b"saved"))
            run("git", "add", file.name, at=repository)
            run("git", "commit", "--quiet", "-m", "saved", at=repository)
            file.write_bytes(current)
        run("git", *restore, at=repository)

    return act


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "vim renames": ("vim", vim("no")),
    "vim saves in place": ("vim", vim("yes")),
    "nano": ("nano", nano),
    "ed": ("ed", ed),
    "emacs": ("emacs", emacs),
    "sed -i": ("sed", sed),
    "perl -i": ("perl", perl),
    "rsync": ("rsync", rsync()),
    "rsync --inplace": ("rsync", rsync("--inplace")),
    "a sync program": ("mv", sync_program),
    "a shell's redirection": ("sh", redirection),
    "git checkout": ("git", git("checkout", "--quiet", "--", ".")),
    "git stash": ("git", git("stash", "--quiet")),
}


@pytest.fixture(params=WRITERS)
def save(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    program, act = WRITERS[request.param]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return act


def test_what_a_program_saved_is_met_as_changed(tmp_path: Path, save: Callable[[Path], None]) -> None:
    notes, scope = tmp_path / "notes", Scope()
    store = opened(notes, guard=True)
    store.create("key", "words", "old\n", scope=scope)
    save(notes / "key.md")
    with pytest.raises(StaleError):
        store.update("key", "words", "ours\n", scope=scope)
    assert store.read("key", scope=scope)[:2] == ("words", "saved\n")
    store.update("key", "words", "ours\n", scope=scope)
    assert [item.key for item in store.list()] == ["key"]
    assert (notes / "key.md").read_bytes().endswith(b"\nours\n")


def test_what_a_program_saves_between_look_and_change_stays(
    tmp_path: Path, save: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, scope = tmp_path / "notes", Scope()
    store = opened(notes, guard=True)
    store.create("key", "words", "old\n", scope=scope)
    real, saved = exchange.exchange, []

    def exchanged(*names: Any) -> bool:
        if not saved:
            saved.append(True)
            save(notes / "key.md")
        return real(*names)

    monkeypatch.setattr(swap.exchange, "exchange", exchanged)
    with pytest.raises(StaleError):
        store.update("key", "words", "ours\n", scope=scope)
    assert saved
    assert store.read("key")[:2] == ("words", "saved\n")
    assert not [name for name in os.listdir(notes) if name.startswith(exchange.ASIDE_PREFIX)]
