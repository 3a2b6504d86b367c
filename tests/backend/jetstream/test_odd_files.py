"""What a configuration or a NATS context names in place of a file is refused at once, by the field that names it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from memory_sidecar.backend.jetstream.context import MAX_FILE_BYTES, ContextError, NatsContext, load
from memory_sidecar.backend.jetstream.credentials import options_of
from memory_sidecar.config import ConfigError
from memory_sidecar.config import load as load_config


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 * MAX_FILE_BYTES)


ODD: Final[dict[str, Callable[[Path], object]]] = {
    "a FIFO": os.mkfifo,
    "a device that never ends": lambda path: path.symlink_to("/dev/zero"),
    "an empty device": lambda path: path.symlink_to("/dev/null"),
    "a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a directory": Path.mkdir,
    "a huge file": huge,
    "a link to itself": lambda path: path.symlink_to(path),
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("field", ["ca", "cert", "key", "creds", "nkey"])
def test_a_file_that_a_context_names(field: str, what: str, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    ODD[what](odd)
    fields = {"cert": str(tmp_path / "good"), "key": str(tmp_path / "good")} if field in ("cert", "key") else {}
    (tmp_path / "good").write_text("text")
    with pytest.raises(ContextError, match=f'the (cert or )?{field}.* file of the NATS context "here"') as refused:
        options_of(NatsContext("here", **{**fields, field: str(odd)}))
    assert str(tmp_path) not in str(refused.value)


@pytest.mark.parametrize("what", ODD)
def test_a_context(what: str, tmp_path: Path) -> None:
    place = tmp_path / "nats" / "context"
    place.mkdir(parents=True)
    ODD[what](place / "here.json")
    with pytest.raises(ContextError, match='the NATS context "here"'):
        load("here", {"XDG_CONFIG_HOME": str(tmp_path)})


@pytest.mark.parametrize("what", ODD)
def test_a_configuration(what: str, tmp_path: Path) -> None:
    ODD[what](tmp_path / "memory.yaml")
    with pytest.raises(ConfigError, match="check --config"):
        load_config(str(tmp_path / "memory.yaml"))
