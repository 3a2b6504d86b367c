"""A model API on 127.0.0.1 that says what a test wrote down, to the real SDKs.

It speaks Anthropic Messages, OpenAI Responses and OpenAI Chat Completions, and refuses a request that the real API
would refuse: a tool that is not well formed, a call that is left without its answer.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

__all__ = ["Call", "Request", "Result", "ScriptedModel", "scripted_model"]


class Call(NamedTuple):
    """A tool call by the model. Arguments given as text go out as they are."""

    name: str
    arguments: dict[str, Any] | str


class Result(NamedTuple):
    """What the harness answered a call. Only Anthropic's API has a flag for an error."""

    text: str
    is_error: bool | None


class Request(NamedTuple):
    """One request, as far as the APIs are alike."""

    system: str
    tools: list[dict[str, Any]]
    results: list[Result]
    body: dict[str, Any]


Turn = str | list[Call] | Callable[[Request], str]
"""A text, some calls, or a text made from the request (to show what the model was told)."""


class BadRequestError(Exception):
    pass


class ScriptedModel:
    """`turns` are played one a request, whatever it asks. `requests` holds what was asked."""

    def __init__(self, url: str, turns: list[Turn]) -> None:
        self.url = url
        self.turns = turns
        self.requests: list[Request] = []
        self._threads: dict[str, dict[str, Any]] = {}

    @property
    def environment(self) -> dict[str, str]:
        """What points the SDKs here."""
        return {
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": self.url,
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{self.url}/v1",
        }

    @property
    def results(self) -> list[Result]:
        """All answers to calls so far; each request carries only those to the last turn's calls."""
        return [result for request in self.requests for result in request.results]

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        api = _APIS.get(path)
        if api is None:
            raise BadRequestError(f"no such path: {path}")
        read, reply = api
        thread = body.get("thread")
        if thread and thread["type"] == "continue":
            held = self._threads[thread["previous_message_id"]]
            body = {**held, **body, "messages": [*held["messages"], *body["messages"]]}
        request = read(body)
        self.requests.append(request)
        if not self.turns:
            raise BadRequestError("the script has ended")
        turn = self.turns.pop(0)
        number = len(self.requests)
        answer = reply(number, turn(request) if callable(turn) else turn)
        if thread:  # Anthropic's: the API holds the conversation, and the SDK then sends only what is new
            said = {"role": "assistant", "content": answer["content"]}
            self._threads[answer["id"]] = {**body, "messages": [*body["messages"], said]}
        return answer


@contextmanager
def scripted_model(*turns: Turn) -> Iterator[ScriptedModel]:
    """Serve `turns`, and check at the end that all of them were played."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            try:
                status, answer = 200, model.answer(self.path.partition("?")[0], body)
            except BadRequestError as error:
                status, answer = 400, {"type": "error", "error": {"type": "bad_request", "message": str(error)}}
            streamed = status == 200 and body.get("stream") is True
            data = _streamed(answer) if streamed else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if streamed else "application/json")
            self.send_header("content-length", str(len(data)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model = ScriptedModel(f"http://127.0.0.1:{server.server_port}", list(turns))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
    assert not model.turns, "the harness stopped before the script ended"


def _require(condition: object, problem: str) -> None:
    if not condition:
        raise BadRequestError(problem)


def _check_tool(tool: dict[str, Any], schema: Any, *, name_length: int) -> None:
    name = tool.get("name")
    _require(isinstance(name, str) and re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{name_length}}}", name), f"name {name!r}")
    _require(isinstance(tool.get("description"), str), "the description is no text")
    _require(isinstance(schema, dict) and schema.get("type") == "object", "the schema is no object")
    _require("properties" in schema, "an object schema without properties")
    _require(not schema.keys() & {"oneOf", "anyOf", "allOf"}, "a choice at the top of a schema")
    Draft202012Validator.check_schema(schema)


def _check_answered(calls: list[str], answers: list[str]) -> None:
    _require(sorted(calls) == sorted(answers), f"calls {calls} were answered by {answers}")


# --- Anthropic Messages --------------------------------------------------------------------------------------------


def _read_messages(body: dict[str, Any]) -> Request:
    _require(body["model"] and body["max_tokens"] > 0, "model and max_tokens are needed")
    for tool in body.get("tools", []):
        known = {"name", "description", "input_schema", "type", "cache_control", "defer_loading"}
        _require(tool.keys() <= known, f"{tool.keys()}")
        _check_tool(tool, tool["input_schema"], name_length=128)
    calls: list[str] = []
    results: list[Result] = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        answers = [block for block in blocks if block["type"] == "tool_result"]
        _check_answered(calls, [block["tool_use_id"] for block in answers])
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        results = [Result(_text(block["content"]), bool(block.get("is_error"))) for block in answers]
    return Request(_text(body.get("system", "")), body.get("tools", []), results, body)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def _reply_message(number: int, turn: str | list[Call]) -> dict[str, Any]:
    content: list[dict[str, Any]]
    if isinstance(turn, str):
        content = [{"type": "text", "text": turn}]
    else:
        content = [
            {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": call.name, "input": call.arguments}
            for index, call in enumerate(turn)
        ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": "end_turn" if isinstance(turn, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


# --- OpenAI Responses ----------------------------------------------------------------------------------------------


def _read_response(body: dict[str, Any]) -> Request:
    for tool in body.get("tools", []):
        _require(tool["type"] == "function", "a tool that is no function")
        _check_function(tool)
    items = body["input"] if isinstance(body["input"], list) else []
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answers = [item for item in items if item.get("type") == "function_call_output"]
    _check_answered(calls, [item["call_id"] for item in answers])
    last = 0
    for index, item in enumerate(items):
        if item.get("type") == "function_call":
            last = index
    results = [
        Result(_text(item["output"]), None) for item in items[last:] if item.get("type") == "function_call_output"
    ]
    return Request(body.get("instructions") or "", body.get("tools", []), results, body)


def _check_function(function: dict[str, Any]) -> None:
    schema = function["parameters"]
    _check_tool(function, schema, name_length=64)
    _require(len(function["description"]) <= 1024, "the description is too long")
    if function.get("strict", True):
        _require(schema.get("additionalProperties") is False, "strict: additionalProperties must be false")
        _require(set(schema["properties"]) == set(schema.get("required", ())), "strict: all properties are required")


def _arguments(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _reply_response(number: int, turn: str | list[Call]) -> dict[str, Any]:
    output: list[dict[str, Any]]
    if isinstance(turn, str):
        part = {"type": "output_text", "text": turn, "annotations": []}
        output = [
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
        ]
    else:
        output = [
            {
                "type": "function_call",
                "id": f"fc_{number}_{index}",
                "call_id": f"call_{number}_{index}",
                "name": call.name,
                "arguments": _arguments(call),
                "status": "completed",
            }
            for index, call in enumerate(turn)
        ]
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "scripted",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


# --- OpenAI Chat Completions ---------------------------------------------------------------------------------------


def _read_chat(body: dict[str, Any]) -> Request:
    tools = [tool["function"] for tool in body.get("tools", [])]
    for function in tools:
        _check_function({"strict": False, **function})
    system = ""
    calls: list[str] = []
    results: list[Result] = []
    answers: list[str] = []
    for message in body["messages"]:
        if message["role"] in ("system", "developer"):
            system += _text(message["content"])
        elif message["role"] == "tool":
            answers.append(message["tool_call_id"])
            results.append(Result(_text(message["content"]), None))
        else:
            _check_answered(calls, answers)
            calls = [call["id"] for call in message.get("tool_calls") or ()]
            answers, results = [], []
    _check_answered(calls, answers)
    return Request(system, tools, results, body)


def _reply_chat(number: int, turn: str | list[Call]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
    if not isinstance(turn, str):
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for index, call in enumerate(turn)
        ]
    finish = "stop" if isinstance(turn, str) else "tool_calls"
    return {
        "id": f"chatcmpl_{number}",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _streamed(answer: dict[str, Any]) -> bytes:
    """The answer as a stream: of Chat Completions, or of Messages."""
    if answer.get("type") == "message":
        return b"".join(
            b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in _events(answer)
        )
    _require(answer.get("object") == "chat.completion", "Responses are not streamed here")
    chunks = _chunks(answer)
    return b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in chunks) + b"data: [DONE]\n\n"


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message of Anthropic's as its events: each block whole in one delta, then why it stopped."""
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty, delta = (
                {**block, "input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
            )
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {name: message[name] for name in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": ended, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _chunks(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """An answer of Chat Completions as its chunks: all in one, then the usage."""
    (choice,) = answer["choices"]
    delta = choice["message"]
    for index, call in enumerate(delta.get("tool_calls", ())):
        call["index"] = index
    chunk = {**answer, "object": "chat.completion.chunk", "usage": None}
    return [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**chunk, "choices": [], "usage": answer["usage"]},
    ]


_APIS: dict[str, tuple[Callable[[dict[str, Any]], Request], Callable[[int, str | list[Call]], dict[str, Any]]]] = {
    "/v1/messages": (_read_messages, _reply_message),
    "/v1/responses": (_read_response, _reply_response),
    "/v1/chat/completions": (_read_chat, _reply_chat),
}
