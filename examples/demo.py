"""What `make demo` shows: the main job from end to end, on files, in a directory that is removed afterwards."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from memory_sidecar.harness import MemorySidecar, Run

CONFIG = """\
identity: demo-agent
harness:
  memory:
    enabled: true
    options:
      require_read_before_update: true
"""
LAYOUT = {"key": "repo-layout", "description": "Where things are in the repository"}


def say(text: str) -> None:
    print(f"\n{textwrap.fill(text, 100, subsequent_indent='   ')}")


def show(label: str, text: str) -> None:
    print(textwrap.fill(text, 100, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False))


async def model_calls(run: Run, name: str, **arguments: object) -> None:
    """Stands for a model's tool call; shows both sides as the harness sees them."""
    show("  model  -> ", f"{name} {json.dumps(arguments)}")
    show("  memory <- ", (await run.call(name, arguments)).text)


async def monday(config: Path, place: Path) -> None:
    say("1. Monday. A harness launches the sidecar as its subprocess and opens a run. Its model gets these tools:")
    async with MemorySidecar.launch(config=config, store_dir=place) as memory, memory.run("research") as run:
        print("  " + ", ".join(tool["name"] for tool in run.tools))
        say("   The model keeps what it found out, and can't clobber a note by accident:")
        await model_calls(run, "memory_write", **LAYOUT, content="The parser is in src/parse.")
        await model_calls(run, "memory_write", **LAYOUT, content="I forgot that I knew this.")
        await model_calls(run, "memory_write", key="scratch", description="Temporary", content="1 2 3")
        await model_calls(run, "memory_delete", key="scratch")
        say("   The harness is done for today. Leaving the block suspends the run.")


def on_disk(place: Path) -> None:
    say("2. On disk: a note is a markdown file that you can read, and a journal tells what the run has seen.")
    note = place / "memory" / "demo-agent" / "repo-layout.md"
    journal = place / "runs" / "demo-agent" / "research.jsonl"
    print(f"  {note.relative_to(place)}")
    print(textwrap.indent(note.read_text(), "  | ", lambda _: True))
    print(f"  {journal.relative_to(place)}")
    for line in journal.read_text().splitlines():
        record = json.loads(line)
        print(
            "  | " + " ".join(str(record[name]) for name in ("seq", "type", "key", "why", "reason") if name in record)
        )


async def friday(config: Path, place: Path) -> None:
    say("3. Friday. A new process resumes the run with the authority it earned on Monday, so an overwrite passes:")
    async with MemorySidecar.launch(config=config, store_dir=place) as memory, memory.run("research") as run:
        print(textwrap.indent(run.instructions[run.instructions.index("<memory-index>") :], "  "))
        await model_calls(run, "memory_write", **LAYOUT, content="The parser is in src/syntax.", overwrite=True)
        say("   A person edits the file meanwhile. The run no longer knows what it says, and is told to look:")
        note = place / "memory" / "demo-agent" / "repo-layout.md"
        note.write_text(note.read_text().replace("src/syntax", "lib/syntax"))
        await model_calls(run, "memory_write", **LAYOUT, content="The parser is fine.", overwrite=True)
        await model_calls(run, "memory_read", key="repo-layout")
        await model_calls(run, "memory_write", **LAYOUT, content="The parser is in lib/syntax.", overwrite=True)
        await run.finish("completed")


def stranger(config: Path, place: Path) -> None:
    say("4. A stranger. Any MCP client may start the same command. Without a launch ticket it gets nothing:")
    serve = [sys.executable, "-P", "-m", "memory_sidecar", "serve", "--config", str(config), "--store-dir", str(place)]
    refused = subprocess.run(serve, input=b"", capture_output=True, check=False)
    show("  stderr <- ", refused.stderr.decode())
    print(f"  exit status {refused.returncode}, and {len(refused.stdout)} bytes on its stdout")

    say("   And one that makes up a ticket, or uses an old one, gets the policy's refusal:")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "stranger", "version": "1"}}
    frame = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
    environment = {**os.environ, "MEMORY_SIDECAR_TICKET": str(place / "made-up")}
    refused = subprocess.run(serve, input=frame, capture_output=True, check=False, env=environment)
    show("  answer <- ", json.loads(refused.stdout)["error"]["message"])
    print(f"  exit status {refused.returncode}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        config = place / "memory.yaml"
        config.write_text(CONFIG)
        asyncio.run(monday(config, place))
        on_disk(place)
        asyncio.run(friday(config, place))
        stranger(config, place)


if __name__ == "__main__":
    main()
