"""Loads the product's own modules for `serve` from where they surely are, without looking for them.

Python's own finder lists directories, tries five endings for each name and asks three times for the state of a file:
that is half of what loading a small module takes, and a launch loads a hundred. Here the place follows from the
package, and what is compiled there is taken if it was made of the source beside it, by Python's own rule (the time of
its last change, and its size). Whatever is not as expected is left to Python's own finder, which comes next.
"""

import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, PathFinder, SourceFileLoader
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from collections.abc import Sequence
from types import CodeType

__all__ = ["install"]

_OURS = ("memory_sidecar", "exposure_policy")

_LARGEST = 1 << 16
"""Bytes of a compiled module that is read here."""


class _Loader(SourceFileLoader):
    """Python's own, with the code at hand that was read when the module was found."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code: CodeType | None = code

    def get_code(self, fullname: str) -> CodeType | None:
        code, self._code = self._code, None
        return super().get_code(fullname) if code is None else code


class _Finder:
    """Knows modules of our packages; their packages themselves are found as any other."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: object = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        if not path or package.partition(".")[0] not in _OURS:
            return None
        place = f"{path[0]}/{module}"
        for source, is_package in ((f"{place}.py", False), (f"{place}/__init__.py", True)):
            code = _compiled(source)
            if code is not None:
                spec = ModuleSpec(name, _Loader(name, source, code), origin=source, is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [place]
                return spec
        return None


def _compiled(source: str) -> CodeType | None:
    """The code that was compiled of this source as it is now; None if there is none, or none that is in order."""
    directory, _, file = source.rpartition("/")
    try:
        descriptor = os.open(
            f"{directory}/__pycache__/{file[:-3]}.{sys.implementation.cache_tag}.pyc", os.O_RDONLY | os.O_CLOEXEC
        )
        try:
            data = os.read(descriptor, _LARGEST)
        finally:
            os.close(descriptor)
        status = os.stat(source)
        made_of = b"".join(
            (number & 0xFFFFFFFF).to_bytes(4, "little") for number in (0, int(status.st_mtime), status.st_size)
        )
        if len(data) == _LARGEST or data[:16] != MAGIC_NUMBER + made_of:
            return None
        code: CodeType = marshal.loads(data[16:])  # noqa: S302 - as Python itself does with this file
    except (OSError, EOFError, ValueError, TypeError):
        return None
    if code.co_filename != source:  # compiled under another path, which would be shown in a traceback
        _fix_co_filename(code, source)
    return code


def install() -> None:
    """Have modules of ours be loaded so from now on. What others have put before Python's own finder stays first."""
    usual = not sys.flags.optimize and sys.pycache_prefix is None  # else they are compiled to another place
    if usual and _Finder not in sys.meta_path and PathFinder in sys.meta_path:
        sys.meta_path.insert(sys.meta_path.index(PathFinder), _Finder)
