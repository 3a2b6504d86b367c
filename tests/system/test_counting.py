"""How many names end in a certain way: as many as `os.listdir` shows, whatever they are."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sidecar.system import counting, exchange, files

ENDS = st.sampled_from([".md", ".md.md", ".mdx", ".MD", "md", "", ".md~"])


@given(st.sets(st.tuples(st.text("abm.d", min_size=1, max_size=5), ENDS).map("".join), max_size=30))
@settings(max_examples=40)
def test_what_is_counted_is_what_a_listing_shows(tmp_path_factory: pytest.TempPathFactory, names: set[str]) -> None:
    directory = tmp_path_factory.mktemp("counted")
    for name in names - {".", ".."}:
        (directory / name).touch()
    assert _counted(directory) == sum(name.endswith(".md") for name in os.listdir(directory))


def test_more_names_than_the_kernel_tells_at_once_are_all_counted_and_can_be_listed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_BUFFER", 512)
    monkeypatch.setattr(counting, "_spare", [])
    for number in range(100):
        (tmp_path / f"{'n' * (number % 40)}-{number}.md").touch()
    with files.open_directory(str(tmp_path)) as opened:
        for _ in range(2):
            assert counting.count_ending(opened, ".md") == 100
            assert len(os.listdir(opened)) == 100


def test_where_the_call_cannot_be_made_the_names_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one.md", "two.md", "three.txt"):
        (tmp_path / name).touch()

    class Kernel:
        buffer = staticmethod(lambda content: content)
        call = staticmethod(lambda *_arguments: -38)

    def without_ctypes() -> None:
        raise ImportError

    monkeypatch.setattr(counting, "_spare", [])
    for kernel in (lambda: None, Kernel, without_ctypes):
        monkeypatch.setattr(exchange, "kernel", kernel)
        assert _counted(tmp_path) == 2


def test_threads_that_count_at_once_share_no_buffer(tmp_path: Path) -> None:
    """As the runs of many identities do, each in a directory of its own."""
    counts = {size: tmp_path / str(size) for size in (0, 1, 300)}
    for size, directory in counts.items():
        directory.mkdir()
        for number in range(size):
            (directory / f"{number}.md").touch()
    wrong = []

    def count(size: int) -> None:
        wrong.extend(found for _ in range(200) if (found := _counted(counts[size])) != size)

    threads = [threading.Thread(target=count, args=(size,)) for size in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _counted(directory: Path) -> int:
    with files.open_directory(str(directory)) as opened:
        return counting.count_ending(opened, ".md")
