"""What `make demo` shows: the main job from end to end, on files, in a directory that is removed afterwards."""

import json
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import anyio

from memory_sidecar.harness import MemorySidecar, Run

CONFIG = """\
identity: demo-agent
harness:
  memory:
    enabled: true
    options:
      require_read_before_update: true
"""


def say(text: str) -> None:
    print(f"\n{textwrap.fill(text, 100)}")


async def model_calls(run: Run, name: str, **arguments: object) -> None:
    """Stands for a model's tool call; shows both sides as the harness sees them."""
    print(f"  model  -> {name} {json.dumps(arguments, ensure_ascii=False)}")
    print(
        textwrap.fill(
            (await run.call(name, arguments)).text, 110, initial_indent="  memory <- ", subsequent_indent=" " * 12
        )
    )


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        config = Path(place, "memory.yaml")
        config.write_text(CONFIG)

        say("1. Monday. A harness launches the sidecar as its subprocess and opens a run. Its model gets four tools:")
        async with MemorySidecar.launch(config=config, store_dir=place) as memory:
            async with memory.run("research") as run:
                print("  " + ", ".join(tool["name"] for tool in run.tools))
                say("   The model keeps what it found out, and can't clobber a note by accident:")
                layout = {"key": "repo-layout", "description": "Where things are in the repository"}
                await model_calls(run, "memory_write", **layout, content="The parser is in src/parse.")
                await model_calls(run, "memory_write", **layout, content="I forgot that I knew this.")
                await model_calls(run, "memory_write", key="scratch", description="Temporary", content="1 2 3")
                await model_calls(run, "memory_delete", key="scratch")
                say("   The harness is done for today. Leaving the block suspends the run.")

        say("2. It is a markdown file that you can read, and a journal of what the run has seen:")
        note = Path(place, "memory", "demo-agent", "repo-layout.md")
        print(textwrap.indent(note.read_text(), "  | "))
        for line in Path(place, "runs", "research.jsonl").read_text().splitlines():
            record = json.loads(line)
            print(
                "  | " + json.dumps({k: v for k, v in record.items() if k in ("seq", "type", "key", "why", "reason")})
            )

        say(
            "3. Friday. A new process. The run resumes with the authority it earned on Monday, so this overwrite passes:"
        )
        async with MemorySidecar.launch(config=config, store_dir=place) as memory, memory.run("research") as run:
            print(textwrap.indent(run.instructions[run.instructions.index("<memory-index>") :], "  "))
            await model_calls(run, "memory_write", **layout, content="The parser moved to src/syntax.", overwrite=True)
            say("   A person edits the file meanwhile. The run no longer knows what it says, and is told to look:")
            note.write_text(note.read_text().replace("src/syntax", "lib/syntax"))
            await model_calls(run, "memory_write", **layout, content="The parser is fine.", overwrite=True)
            await model_calls(run, "memory_read", key="repo-layout")
            await model_calls(run, "memory_write", **layout, content="The parser is in lib/syntax.", overwrite=True)
            await run.finish("completed")

        say(
            "4. A stranger. Any MCP client may start the same command; without the harness's launch ticket it gets nothing:"
        )
        stranger = [
            sys.executable,
            "-P",
            "-m",
            "memory_sidecar",
            "serve",
            "--config",
            str(config),
            "--store-dir",
            place,
        ]
        print("  $ memory-sidecar serve")
        refused = subprocess.run(stranger, input=b"", capture_output=True, check=False)
        print(textwrap.indent(textwrap.fill(refused.stderr.decode(), 100), "  "))
        print(f"  exit status {refused.returncode}, and not one byte on its stdout")


if __name__ == "__main__":
    anyio.run(main)
