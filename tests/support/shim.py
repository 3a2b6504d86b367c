"""A file system that answers some calls with an error: `shim.c`, compiled once, for a process started with it."""

import errno
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from tests.support.sidecar import environment

__all__ = ["spoiled"]


@cache
def _library() -> str | None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = Path(tempfile.mkdtemp(prefix="shim-")) / "shim.so"
    source = Path(__file__).with_name("shim.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
    done = subprocess.run(command, capture_output=True, check=False)
    return str(library) if done.returncode == 0 else None


def spoiled(under: Path, rules: Mapping[str, int | str], **more: str) -> dict[str, str]:
    """An environment in which calls of these names, on what is below `under`, answer with these errors.

    An error may be given as text, with when it comes: `f"{errno.ENOLCK}@2+1"` is the second such call alone. Skips the
    test where no compiler is.
    """
    library = _library()
    if library is None:
        pytest.skip("needs a C compiler, and a system that has LD_PRELOAD")
    known = ",".join(f"{call}={code}" for call, code in rules.items())
    assert all(not isinstance(code, int) or code in errno.errorcode for code in rules.values())
    return environment(LD_PRELOAD=library, SHIM_RULES=known, SHIM_UNDER=str(under), **more)
