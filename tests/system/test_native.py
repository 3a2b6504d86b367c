"""Functions of the C library, called by their names."""

import os

import pytest

from memory_sidecar.system import native


def test_a_function_is_called_with_words() -> None:
    assert native.function("getpid", 0)() == os.getpid()
    assert native.function("labs", 1)(-(1 << 40)) == 1 << 40  # a whole word, and not the half of one


def test_a_function_fills_a_buffer_and_tells_its_error() -> None:
    filled = native.buffer(b"-----")
    native.function("memset", 3)(native.address(filled), ord("x"), 2)
    assert filled.raw == b"xx---"
    native.clear(filled, 3)
    assert filled.raw == b"\0\0\0--"
    assert filled[:4] == b"\0\0\0-"
    assert native.function("chdir", 1)(native.address(native.buffer(b"/nowhere/at/all\0"))) in (-1, 0xFFFFFFFF)
    assert os.strerror(native.error_number()) == os.strerror(2)


def test_what_is_not_there_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="no_such_function"):
        native.function("no_such_function", 1)
