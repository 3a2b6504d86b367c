"""What every test may use. Async tests run on both event loops, unless a file says it needs only one."""

import signal

import hypothesis
import pytest
from tests.support.tally import pytest_addoption, pytest_terminal_summary, tally

__all__ = ["anyio_backend", "pytest_addoption", "pytest_terminal_summary", "tally"]

# The time of an example says how busy the machine is, and nothing of the product.
hypothesis.settings.register_profile("suite", deadline=None)
if hypothesis.settings.get_current_profile_name() in ("default", "ci"):  # the mutants bring one of their own
    hypothesis.settings.load_profile("suite")

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
