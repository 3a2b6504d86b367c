"""The suite that every backend runs, ours and yours: each obligation of `memory_sidecar.store.contract`.

Needs pytest and nothing else. To plug a backend in, write in a test file of your own:

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

from .backend import BackendContract
from .modes import BlindContract, GuardedContract
from .subject import Subject

__all__ = ["BackendContract", "BlindContract", "GuardedContract", "Subject"]
