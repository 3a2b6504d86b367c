"""What every test may use. Async tests run on both event loops, unless a file says it needs only one."""

import signal

import pytest
from tests.support.mounts import keep_to_this_process
from tests.support.properties import load_profile, pytest_runtest_makereport
from tests.support.tally import pytest_addoption, pytest_terminal_summary, tally

__all__ = ["anyio_backend", "pytest_addoption", "pytest_runtest_makereport", "pytest_terminal_summary", "tally"]

load_profile()
keep_to_this_process()

# What is ignored stays ignored in the product too: a suite that runs in the background of a script, or under nohup,
# would send its programs signals that they never notice.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# The contract's asserts are in the package: let their failures show their values too.
pytest.register_assert_rewrite("memory_sidecar.testing")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop of an async test. A file or class that needs one in particular overrides this fixture."""
    return str(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A long test is given the time it takes on a busy machine, whichever command runs it."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(1800))
