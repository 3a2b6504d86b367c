"""How `serve` loads modules of ours: as Python itself would, without looking for them; and all else is left to it."""

import importlib.util
import inspect
import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from memory_sidecar.loading import _Finder

SOURCE = "def where():\n    return __file__\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A module `x` that is compiled, in a directory that stands for a package of ours."""
    path = tmp_path / "x.py"
    path.write_text(SOURCE)
    py_compile.compile(str(path), doraise=True)
    return path


def compiled(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(source)))


def loaded(source: Path) -> ModuleType:
    spec = _Finder.find_spec("memory_sidecar.x", [str(source.parent)])
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def test_a_module_is_as_python_would_have_made_it(source: Path) -> None:
    module = loaded(source)
    assert module.where() == module.__file__ == str(source)
    assert module.__cached__ == str(compiled(source))
    assert module.__package__ == "memory_sidecar"
    assert inspect.getsource(module.where) == SOURCE


def test_a_package_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "__init__.py").write_text(SOURCE)
    py_compile.compile(str(tmp_path / "x" / "__init__.py"), doraise=True)
    spec = _Finder.find_spec("memory_sidecar.x", [str(tmp_path)])
    assert spec is not None
    assert spec.submodule_search_locations == [str(tmp_path / "x")]
    assert spec.parent == "memory_sidecar.x"


def test_a_traceback_shows_the_source_wherever_it_was_compiled(source: Path) -> None:
    py_compile.compile(str(source), dfile="built/elsewhere/x.py", doraise=True)
    assert loaded(source).where.__code__.co_filename == str(source)


def _longer(source: Path) -> None:
    source.write_text(SOURCE + "\n")


def _later(source: Path) -> None:
    os.utime(source, (1, 1))


def _cut(source: Path) -> None:
    os.truncate(compiled(source), 30)


def _garbled(source: Path) -> None:
    data = compiled(source).read_bytes()
    compiled(source).write_bytes(data[:16] + b"?" * (len(data) - 16))


def _of_another_python(source: Path) -> None:
    compiled(source).write_bytes(b"\0\0\r\n" + compiled(source).read_bytes()[4:])


def _by_its_digest(source: Path) -> None:
    py_compile.compile(str(source), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


LEFT: tuple[Callable[[Path], None], ...] = (
    *(_longer, _later, _cut, _garbled, _of_another_python, _by_its_digest),
    lambda source: compiled(source).unlink(),
    lambda source: source.unlink(),
)


@pytest.mark.parametrize("change", LEFT)
def test_what_is_not_as_expected_is_left_to_python(source: Path, change: Callable[[Path], None]) -> None:
    change(source)
    assert _Finder.find_spec("memory_sidecar.x", [str(source.parent)]) is None


@pytest.mark.parametrize(("name", "path"), [("other.x", True), ("x", True), ("memory_sidecar", False)])
def test_no_other_module_is_touched(source: Path, name: str, path: bool) -> None:
    assert _Finder.find_spec(name, [str(source.parent)] if path else None) is None


@pytest.mark.parametrize("flags", [(), ("-O",)])
def test_serve_is_loaded_so_and_whoever_comes_first_stays_first(flags: tuple[str, ...]) -> None:
    program = """
import sys
asked = []
class Hook:
    def find_spec(name, path=None, target=None):
        asked.append(name)
sys.meta_path.insert(0, Hook)
sys.argv[1:] = ["serve"]
from memory_sidecar.__main__ import main
status = main()
print(status, "memory_sidecar.wire.serve" in asked, type(sys.modules["memory_sidecar.wire.serve"].__loader__).__name__)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [sys.executable, *flags, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["64", "True", "SourceFileLoader" if flags else "_Loader"]
