"""Memory for the OpenAI API (`openai`): for Responses and for Chat Completions.

    response = await client.responses.create(..., instructions=run.instructions, tools=memory_tools(run))
    outputs = [await memory_call_output(run, item) for item in response.output if item.type == "function_call"]

    completion = await client.chat.completions.create(..., tools=memory_chat_tools(run))
    messages += [await memory_chat_message(run, call) for call in completion.choices[0].message.tool_calls]

The tools are not strict: strict mode would make the model always send the optional `overwrite`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .answer import answer

if TYPE_CHECKING:
    from openai.types.chat import (
        ChatCompletionFunctionToolParam,
        ChatCompletionMessageToolCallUnion,
        ChatCompletionToolMessageParam,
    )
    from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall
    from openai.types.responses.response_input_param import FunctionCallOutput

    from .sidecar import Run

__all__ = ["memory_call_output", "memory_chat_message", "memory_chat_tools", "memory_tools"]


def memory_tools(run: Run) -> list[FunctionToolParam]:
    """The run's tools for `responses.create(tools=...)`.

    Raises:
        ExposureRefused: a stranger is being served (`exposure_policy.serving`).
    """
    return [
        {
            "type": "function",
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["inputSchema"],
            "strict": False,
        }
        for tool in run.tools
    ]


async def memory_call_output(run: Run, call: ResponseFunctionToolCall) -> FunctionCallOutput:
    """Serve a `function_call` item; the answer goes into the next input.

    A name that is no tool of the run is answered as an error, so a harness with tools of its own looks there first.

    Raises:
        SidecarError: the run has ended, or the sidecar's process has.
        ExposureRefused: a stranger is being served (`exposure_policy.serving`).
    """
    output = await _output(run, call.name, call.arguments)
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


def memory_chat_tools(run: Run) -> list[ChatCompletionFunctionToolParam]:
    """The run's tools for `chat.completions.create(tools=...)`.

    Raises:
        ExposureRefused: a stranger is being served (`exposure_policy.serving`).
    """
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["inputSchema"],
                "strict": False,
            },
        }
        for tool in run.tools
    ]


async def memory_chat_message(run: Run, call: ChatCompletionMessageToolCallUnion) -> ChatCompletionToolMessageParam:
    """Serve a message's tool call; the answer is the next message. As `memory_call_output` otherwise.

    Raises:
        SidecarError: the run has ended, or the sidecar's process has.
        ExposureRefused: a stranger is being served (`exposure_policy.serving`).
    """
    if call.type == "function":
        output = await _output(run, call.function.name, call.function.arguments)
    else:  # a custom tool, and memory has none
        output = await _output(run, call.custom.name, "")
    return {"role": "tool", "tool_call_id": call.id, "content": output}


async def _output(run: Run, name: str, arguments: str) -> str:
    """The answer as JSON. The API has no flag for an error, so the text says that it is one."""
    result = await answer(run, name, arguments)
    return json.dumps({"error": result.text}, ensure_ascii=False) if result.is_error else result.text
