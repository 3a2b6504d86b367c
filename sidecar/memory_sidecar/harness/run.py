"""An open run: the model's calls, and the run's end. What is written here are steps (see `steps`)."""

import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn

from exposure_policy.serving import ask

from . import bounds
from .errors import OutcomeUnknownError, RequestRefusedError, SidecarDiedError, SidecarError
from .frames import PARSE_ERROR, FrameTooLargeError
from .requests import Request
from .result import NO_OBJECT, NOT_JSON, TOO_LARGE, UNKNOWN, ToolResult, for_model
from .steps import Steps, Wait, answer
from .unanswered import tell_unanswered

if TYPE_CHECKING:
    from .core import Launched

__all__ = ["Bound", "Ending", "Name", "OpenRun"]

_INVALID_PARAMS: Final = -32602
_RUN: Final = "memory-sidecar/run"
_IDENTITY: Final = "memory-sidecar/identity"
_UNSAVED: Final = "memory-sidecar/unsaved"

Ending = Literal["completed", "error", "budget", "max_iterations"]


class Name(NamedTuple):
    """What tells a run of a launch from all others. `identity` is None where the launch has one for all."""

    identity: str | None
    run: str

    def params(self) -> dict[str, str]:
        """As the methods for runs take it."""
        return {"run": self.run} if self.identity is None else {"run": self.run, "identity": self.identity}

    def meta(self) -> dict[str, str]:
        """As a call takes it."""
        return {_RUN: self.run} if self.identity is None else {_RUN: self.run, _IDENTITY: self.identity}


class Bound:
    """What is bound to a process and so cannot be copied. Its copies would end what the original still uses."""

    __memory_private__: Final = True

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is bound to the sidecar's process and cannot be copied or pickled; share the one "
            "there is, or open a run of its own where another is needed"
        )


class OpenRun(Bound):
    """An open run: what to tell the model, and where to send its calls.

    A memory tool is private to its harness; `__memory_private__` lets the guards of `exposure_policy` recognise a
    run that someone is about to publish. While a guard says that a stranger is being served, nothing here answers
    (ExposureRefused).
    """

    def __init__(self, launched: "Launched", opened: Mapping[str, Any]) -> None:
        self._launched = launched
        self._opened = opened
        self._name = Name(opened.get("_meta", {}).get(_IDENTITY), opened["run"])
        self._scope: dict[str, Any] = opened["scope"]
        self._ended = False
        self._ending: _Ending | None = None
        self.unsaved: str | None = opened.get("_meta", {}).get(_UNSAVED)
        """Why the newest authority is not on disk (a full disk), or None. Memory works all the same."""
        self._abandon = weakref.finalize(self, launched._abandoned.append, self._name)  # noqa: SLF001 - one room
        self._abandon.atexit = False

    @property
    def id(self) -> str:
        """The run's id."""
        return self._name.run

    @property
    def identity(self) -> str | None:
        """Whose memory it has, where the launch serves many identities; None where it serves one."""
        return self._name.identity

    @property
    def resumed(self) -> bool:
        """Whether this run goes on from an earlier one, with the authority that had earned."""
        return bool(self._opened["resumed"])

    @property
    def read_only(self) -> bool:
        """Whether there are no tools that change anything."""
        return bool(self._opened["read_only"])

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Definitions in MCP's form: name, description, inputSchema, ...

        Raises:
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        ask("run.tools")
        tools: list[dict[str, Any]] = self._opened["tools"]
        return tools

    @property
    def instructions(self) -> str:
        """Text for the system prompt: how to use memory, and the index of what it holds.

        Raises:
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        ask("run.instructions")
        text: str = self._opened["instructions"]
        return text

    @property
    def scope(self) -> dict[str, Any]:
        """The authority as it was when the run opened or ended: `{store, keys: {key: revision}}`.

        Raises:
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        ask("run.scope")
        return self._scope

    def _call(self, name: str, arguments: Mapping[str, Any] | None) -> Steps[ToolResult]:
        ask("run.call")
        if not isinstance(name, str):
            raise RequestRefusedError(
                _INVALID_PARAMS,
                f"the name of a tool is a text, not {type(name).__name__}; give one of those that run.tools names",
            )
        given: object = {} if arguments is None else arguments
        if not isinstance(given, Mapping):
            return for_model(NO_OBJECT)
        params = {"name": name, "arguments": dict(given), "_meta": self._name.meta()}
        try:
            asked = self._launched._ask("tools/call", params, again=_changes_nothing(self._opened["tools"], name))  # noqa: SLF001
            result = ToolResult((yield from asked))
        except OutcomeUnknownError:
            return for_model(UNKNOWN)
        except FrameTooLargeError:
            return for_model(TOO_LARGE)
        except RequestRefusedError as error:
            if error.code != PARSE_ERROR:
                raise _refused(error, self._name, self._ended) from error.__cause__
            return for_model(NOT_JSON)
        self.unsaved = result.get("_meta", {}).get(_UNSAVED)
        return result

    def _finish(self, reason: Ending, message: str | None) -> Steps[dict[str, Any]]:
        ask("run.finish")
        params: dict[str, Any] = {"reason": reason}
        if message is not None:
            params["message"] = message
        return (yield from self._end("memory-sidecar/run/finish", params))

    def _suspend(self) -> Steps[dict[str, Any]]:
        ask("run.suspend")
        return (yield from self._end("memory-sidecar/run/suspend", {}))

    def _end(self, method: str, params: dict[str, Any], seconds: float | None = None) -> Steps[dict[str, Any]]:
        """End the run, and return its scope. An end that was begun is never withdrawn: it is waited for anew."""
        ending = self._ending
        if ending is not None and not ending.done.done() and ending.asked != (method, params):
            yield Wait(ending.done)
            ending = None
        if ending is None or ending.asked != (method, params) or ending.done.done():
            request = self._launched._connection.request(  # noqa: SLF001
                method, {**self._name.params(), **params}, seconds=seconds
            )
            ending = self._ending = _Ending((method, params), request, Future())
            request.add_done_callback(self._note)
        elif seconds is not None:
            self._launched._connection.limit(ending.request, seconds)  # noqa: SLF001
        connection = self._launched._connection  # noqa: SLF001
        try:
            return (yield from answer(ending.done, insistent=seconds is not None))
        except RequestRefusedError as error:
            raise _refused(error, self._name, self._ended) from error.__cause__
        except SidecarDiedError as error:
            yield from self._launched._replace(connection, error, insistent=seconds is not None)
        return (yield from self._end(method, params, seconds))

    def _note(self, request: Future[dict[str, Any]]) -> None:
        """Keep what the sidecar says at the run's end, also if nobody waits for it any more."""
        ending = self._ending
        if ending is None or ending.request is not request:
            return
        error = request.exception()
        if error is not None:
            ending.done.set_exception(error)
            return
        ended = request.result()
        self.unsaved = ended.get("_meta", {}).get(_UNSAVED)
        self._scope = ended["scope"]
        self._release()
        ending.done.set_result(self._scope)

    def _release(self) -> None:
        self._ended = True
        if self._abandon.detach():
            self._launched._release(self._name)  # noqa: SLF001

    def _leave(self, failure: BaseException | None) -> Steps[None]:
        """Suspend the run unless it has ended, even while being cancelled; but not for ever."""
        unanswered = False
        try:
            if self._ending is not None and not self._ended:  # begun by somebody who then was cancelled
                with suppress(SidecarError, TimeoutError):
                    yield from self._end(*self._ending.asked, seconds=bounds.STOP_SECONDS)
            if not self._ended and not self._launched._connection.silent:  # noqa: SLF001
                yield from self._end("memory-sidecar/run/suspend", {}, seconds=bounds.STOP_SECONDS)
        except TimeoutError:
            unanswered = True  # its launch will end it
        except SidecarError:
            if failure is None:  # else what made the block fail says more
                raise
        finally:
            if not self._ended and (unanswered or self._launched._connection.silent):  # noqa: SLF001
                tell_unanswered(f"run {self._name.run} was left and not suspended")
            self._release()


def _refused(error: RequestRefusedError, name: Name, ended: bool) -> RequestRefusedError:
    """What a refusal means to a program that holds a run: of one that has ended the sidecar tells in MCP's words."""
    if not ended or error.code != _INVALID_PARAMS:
        return error
    return RequestRefusedError(
        error.code,
        f"run {name.run} is not open any more: it was ended, or its block was left; open it again with "
        f'memory.run("{name.run}") unless it was finished as completed',
    )


def _changes_nothing(tools: list[dict[str, Any]], name: str) -> bool:
    return any(tool["name"] == name and tool["annotations"].get("readOnlyHint") for tool in tools)


class _Ending(NamedTuple):
    asked: tuple[str, dict[str, Any]]
    request: Request
    done: Future[dict[str, Any]]
