"""The TypeScript harness, installed and run as a reader would, with this machine's Node."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "typescript"

EXPECTED = """\
Monday's tools: memory_list, memory_read, memory_write, memory_delete
Monday writes: {"written":true,"key":"layout"}
Monday writes it again, refused: exists
Monday is suspended, with authority over: layout
Friday resumes, with authority over: layout
Friday's index: - layout: Where things are
Friday overwrites: {"written":true,"key":"layout"}
Friday reads: It is in lib/parse.
A stranger is refused: Connection closed
  and the log says: memory-sidecar: memory-sidecar serve is started by an agent harness
A stranger is refused: refused by the exposure policy
"""


# What goes wrong, on the same library: each ends in one clear error, and nothing waits for ever.
TROUBLE = """\
import { MemorySidecar } from "./dist/memory.js";

const mode = process.argv[2];
const command = [...process.env.MEMORY_SIDECAR.split(" "), "serve", "--store-dir", "state", "--identity", mode];
const said = (promise) => promise.then((result) => result.content[0].text, (error) => error.message);
const memory = await MemorySidecar.launch(command, mode);
const [one, two] = await Promise.all([memory.open("one"), memory.open("two")]);
const note = { key: "k", description: "d", content: "c" };
const deep = JSON.parse("[".repeat(5000) + "]".repeat(5000));
console.log(await said(one.call("memory_write", { ...note, content: "\u00e9".repeat(600_000) })));
console.log(await said(one.call("memory_write", { ...note, content: deep })));
const less = JSON.parse("[".repeat(1200) + "]".repeat(1200));
console.log(await said(one.call("memory_write", { ...note, content: less })));
console.log((await one.call("memory_write", { ...note, content: JSON.parse("1e999") })).isError);
console.log(await said(one.call("memory_write", note)));
console.log((await Promise.all([one, two].map((run) => said(run.call("memory_read", { key: "k" }))))).join(" "));
process.kill(memory.pid, "SIGSTOP");
const cancel = new AbortController();
const cancelled = said(two.call("memory_list", {}, cancel.signal));
cancel.abort("the harness changed its mind");
console.log(await cancelled);
const pending = [one, two].map((run) => said(run.call("memory_list")));
process.kill(memory.pid, "SIGKILL");
console.log((await Promise.all(pending)).join(" | "));
console.log(await said(one.call("memory_list")));
await memory.close();
const again = await MemorySidecar.launch(command, mode);
console.log((await again.open("one", { resume: "require" })).scope.keys.k.length);
await again.close();
const full = await MemorySidecar.launch([...command, "--identity", "full"], mode);
console.log(JSON.parse(await said((await full.open("full")).call("memory_list"))).memories.length);
await full.close();
await MemorySidecar.launch(["/nowhere/memory-sidecar"]).catch((error) => console.log(error.message));
await MemorySidecar.launch([...command, "--config", "none.yaml"]).catch((error) => console.log(error.message));
"""

TROUBLE_SAID = [
    "The arguments are larger than a call may be. Nothing was changed. ",
    "The arguments hold lists and objects nested too deeply",
    "The arguments hold lists and objects nested too deeply",
    "true",
    '{"written":true,"key":"k"}',
    '{"found":true,"key":"k","description":"d","content":"c"} {"found":true,"key":"k","description":"d","content":"c"}',
    "the harness changed its mind",
    "Connection closed | Connection closed",
    "Not connected",
    "32",
    "1024",
    "spawn /nowhere/memory-sidecar ENOENT",
    "cannot read the configuration none.yaml",
]


@pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="Node and npm are not installed")
@pytest.mark.long
@pytest.mark.timeout(300)
def test_typescript_harness(tmp_path: Path) -> None:
    copy = tmp_path / "typescript"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    run(["npm", "ci", "--no-audit", "--no-fund"], copy)
    for mode in ("pinned", "auto", "default"):
        output = run(["node", "dist/harness.js", mode], copy)
        lines = output.splitlines()
        assert len(lines) >= len(EXPECTED.splitlines()), output
        said = zip(lines, EXPECTED.splitlines(), strict=False)
        assert all(line.startswith(expected) for line, expected in said), output
        assert "must not happen" not in output
    (copy / "trouble.mjs").write_text(TROUBLE)
    notes = copy / "state" / "memory" / "full"
    notes.mkdir(parents=True)
    for number in range(1024):  # the longest list there can be
        (notes / f"k{number}.md").write_text("---\ndescription: " + "\U0001f600" * 500 + "\n---\n\n")
    for mode in ("pinned", "default"):
        lines = run(["node", "trouble.mjs", mode], copy).splitlines()
        assert [line[: len(told)] for line, told in zip(lines, TROUBLE_SAID, strict=True)] == TROUBLE_SAID


def test_the_lock_file_names_no_registry() -> None:
    """It pins what is installed, not where from; so it works behind any mirror."""
    lock = (EXAMPLE / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    packages = re.findall(r'"node_modules/[^"]+": \{\n\s+"version": "[^"]+",\n\s+"(\w+)"', lock)
    assert packages
    assert set(packages) == {"integrity"}


def run(words: list[str], place: Path) -> str:
    done = subprocess.run(
        words,
        cwd=place,
        env={**os.environ, "MEMORY_SIDECAR": f"{sys.executable} -P -m memory_sidecar"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
