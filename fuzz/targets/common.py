"""What the targets share: choices that hang on the input alone, and what a message for people may look like."""

import atexit
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from typing import Any, Final
from zlib import crc32

__all__ = ["chance", "is_text", "lengthened", "linear", "one_line", "scratch", "strict"]


def chance(data: bytes) -> Random:
    """Choices that a target makes: always the same ones for the same input."""
    return Random(crc32(data))


def one_line(text: str) -> None:
    """A message for people is one line that says less than what it is about, in whole characters."""
    assert len(text.splitlines()) == 1, f"not one line: {text!r}"
    assert len(text) < 1000, "a message as long as what it is about"
    text.encode()


def is_text(text: str) -> bool:
    """Whether it holds no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def strict(data: bytes) -> Any:
    """What the input is as JSON; None if it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


@cache
def _directory(_process: int) -> str:
    # In memory where there is such a place: a disk would have each of them before the next is written.
    made = tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def scratch(name: str, data: bytes) -> str:
    """The path of a file of this name that holds `data`, for readers that open what they read. The next call with the
    name writes over it."""
    path = os.path.join(_directory(os.getpid()), name)
    with open(path, "wb") as file:
        file.write(data)
    return path


_LENGTH: Final = 65_536
_SECONDS: Final = 3.0
"""Of the processor. What is linear takes a hundredth of it for such a text, under the fuzzer too."""


def lengthened(data: bytes) -> bytes:
    """The input over and over: what is slow by the length of its text shows it then. Of one in 256; else empty."""
    return data * (_LENGTH // len(data)) if data and crc32(data) % 256 == 0 else b""


@contextmanager
def linear() -> Iterator[None]:
    """What is done in the block with a long text may not take time in the square of its length."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    assert took < _SECONDS, f"{took:.1f} s for {_LENGTH} bytes"
