"""Reading what is there, whatever is told of it."""

import os
from pathlib import Path

import pytest

from memory_sidecar.system import files


@pytest.mark.parametrize("told", [None, 0, 1, 2999, 3000, 3001, 1 << 30])
@pytest.mark.parametrize("limit", [0, 1, 2999, 3000, 3001, 1 << 20])
def test_all_is_read_up_to_the_limit_also_where_the_size_was_told_wrong(
    tmp_path: Path, told: int | None, limit: int
) -> None:
    """The size of a file that somebody writes to is old at once, and some file systems tell none."""
    content = os.urandom(3000)
    (tmp_path / "file").write_bytes(content)
    with open(tmp_path / "file", "rb", buffering=0) as file:
        read = files.read_up_to(file.fileno(), limit, told)
    assert read == content[:limit]
