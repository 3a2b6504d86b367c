"""For tests outside of this project: of programs that use the library, and of backends.

A program's tests have `FakeMemory`, which needs nothing, and the pytest fixtures of `memory_sidecar.testing.fixtures`.

The tests of a backend have the suite that every backend runs, ours and yours: each obligation of
`memory_sidecar.store.contract`. It needs pytest and nothing else. To plug a backend
in, write in a test file of your own:

1. a `Subject`: one empty backing store, and how to open a backend on it (see the class: four methods and a name);
2. three classes, which hold it to the contract, and the one store over it to what runs are promised:

       class _Provided:
           @pytest.fixture
           def subject(self, tmp_path):
               return MySubject(tmp_path)           # fresh for each test

       class TestBackend(_Provided, BackendContract): ...
       class TestGuarded(_Provided, GuardedContract): ...   # read before update is required
       class TestBlind(_Provided, BlindContract): ...       # and here it is not

For failures that show their values, put into your conftest.py:

       pytest.register_assert_rewrite("memory_sidecar.testing")

Nothing that serves imports this package.
"""

from typing import TYPE_CHECKING, Any

from .fake import FakeMemory

if TYPE_CHECKING:
    from .backend import BackendContract
    from .modes import BlindContract, GuardedContract
    from .subject import Subject

__all__ = ["BackendContract", "BlindContract", "FakeMemory", "GuardedContract", "Subject"]

_SUITE = {"BackendContract": "backend", "BlindContract": "modes", "GuardedContract": "modes", "Subject": "subject"}


def __getattr__(name: str) -> Any:
    """Load the suite when it is asked for: it imports pytest, and a test of another kind may do without."""
    from importlib import import_module

    if name not in _SUITE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_SUITE[name]}", __name__), name)
