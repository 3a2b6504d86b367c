"""Plays the transcripts of a document against the real process, and writes them down as they then read.

A transcript is a fenced block marked `transcript`. All blocks of a document are played in order, in one new
directory. Its lines, of which a long one goes on in lines that are indented by three spaces:

    $ command          the harness launches the process; <path> is a new ticket, <used> one that is used up
    -> frame           the harness sends a line, or does what stands in parentheses: (close), (SIGTERM), (SIGKILL)
    <- frame           the process answers with a line, or ends: (exit N), (killed)
    !! line            what a process that refuses to start (exit 64) says on stderr

Everything is compared byte for byte, but for values that differ from run to run. They are written <name>: `ticket`,
`store`, `version`, `time` and `run` (a generated id). Longer ones stand for text that the document shows in full
before: <tools>, the last answer to tools/list; <note>, the instructions without their index; <server>, the member of
`_meta` that names the server; and, in requests, <meta>, the two members that a modern request must have there.

Run as a program, this rewrites the document it is given: `python -m tests.support.transcripts docs/transcripts.md`.
"""

import base64
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["META", "frames", "rewrite"]

META = (
    '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{'
    '"extensions":{"memory-sidecar/harness":{"ticket":"<ticket>"}}}'
)
"""What <meta> stands for."""

_WIDTH = 116
_BLOCK = re.compile(r"^```transcript\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^```yaml (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SERVER = "io.modelcontextprotocol/serverInfo"
_NOTE_END = "\n\nThe notes when this run started"


def rewrite(document: str) -> str:
    """`document` with each transcript as the process answers today."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in _FILE.findall(document):
            (Path(directory) / name).write_text(text)
        player = _Player(directory)
        try:
            return _BLOCK.sub(lambda block: f"```transcript\n{_render(player, block[1])}```", document)
        finally:
            player.end()


def frames(document: str) -> list[Any]:
    """Every frame that the transcripts of `document` show, either way, with its placeholders as texts."""
    lines = [line for block in _BLOCK.findall(document) for line in block.replace("\n   ", "").splitlines()]
    found = []
    for line in lines:
        if line.startswith(("-> {", "<- {")):
            text = line[3:].replace("<meta>", META).replace("<server>", '"<server>":""')
            found.append(json.loads(text.replace(":<tools>", ':"<tools>"')))
    return found


def _render(player: "_Player", block: str) -> str:
    lines: list[str] = []
    for line in block.replace("\n   ", "").splitlines():
        if line.startswith(("$ ", "-> ")):
            lines.append(line)
            lines += player.launch(line[2:]) if line.startswith("$ ") else player.act(line[3:])
        elif not line.startswith(("<- ", "!! ")):
            lines.append(line)
    return "".join(_wrap(line) for line in lines)


def _wrap(line: str) -> str:
    parts = []
    width = _WIDTH
    while len(line) > width:
        # After a comma or a bracket, or before a space: an editor would strip one at the end.
        cuts = [found.start() for found in re.finditer(r"(?<=[,{\[(])(?! )|(?<! )(?= )", line[:width]) if found.start()]
        cut = cuts[-1] if cuts and cuts[-1] > width // 2 else width
        parts.append(line[:cut])
        line, width = line[cut:], _WIDTH - 3
    return "\n   ".join([*parts, line]) + "\n"


class _Player:
    """The harness of a document: at most one process at a time, and the values that differ from run to run."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._values: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._used = ""
        self._has_served = False

    def launch(self, command: str) -> Iterator[str]:
        assert self._process is None, f"the process before is still running: {command}"
        environment = {name: value for name, value in os.environ.items() if name != "MEMORY_SIDECAR_TICKET"}
        if "<path>" in command:
            self._used = self._ticket()
        self._has_served = False
        words = shlex.split(command.replace("<path>", self._used).replace("<used>", self._used))
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        assert words[0] == "memory-sidecar"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "memory_sidecar", *words[1:]],
            cwd=self._directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if "MEMORY_SIDECAR_TICKET" not in environment:
            yield from self._exit()

    def _ticket(self) -> str:
        token = base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode()
        self._values["<ticket>"] = token
        descriptor, path = tempfile.mkstemp(dir=self._directory)
        with os.fdopen(descriptor, "w") as file:
            file.write(token)
        return path

    def act(self, line: str) -> Iterator[str]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        if line == "(close)":
            yield from self._exit()
            return
        if re.fullmatch(r"\(SIG[A-Z]+\)", line):
            process.send_signal(getattr(signal, line[1:-1]))
            yield from self._exit(close=False)
            return
        for name, value in {"<meta>": META, **self._values, **self._texts}.items():
            line = line.replace(name, value)
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        if _is_notification(line):
            return
        frame = process.stdout.readline()
        assert frame.endswith(b"\n"), self._stderr()
        answer = json.loads(frame)
        yield f"<- {self._shown(frame.decode().rstrip(), answer, line)}"
        if self._ends(line, answer):
            yield from self._exit(close=False)

    def _ends(self, request: str, answer: dict[str, Any]) -> bool:
        """Whether the process ends after this answer: the policy's refusal, and a start that failed."""
        is_probe = '"server/discover"' in request
        self._has_served = self._has_served or ("result" in answer and not is_probe)
        return answer.get("error", {}).get("code") in (-32021, 1000) and not self._has_served and not is_probe

    def _shown(self, frame: str, answer: dict[str, Any], request: str) -> str:
        result = answer.get("result", {})
        for key, value in _walk(result):
            if key in ("store", "version") and isinstance(value, str) and value != "none":
                self._values[f"<{key}>"] = value
        for text, value in self._texts.items():
            frame = frame.replace(value, text)
        if "tools/list" in request and "tools" in result:
            self._texts["<tools>"] = json.dumps(result["tools"], separators=(",", ":"))
        if _NOTE_END in result.get("instructions", ""):
            self._texts["<note>"] = json.dumps(result["instructions"].partition(_NOTE_END)[0])[1:-1]
        if server := result.get("_meta", {}).get(_SERVER):
            self._texts["<server>"] = f'"{_SERVER}":{json.dumps(server, separators=(",", ":"))}'
        for name in ("<store>", "<version>"):
            if name in self._values:
                frame = frame.replace(f'"{self._values[name]}"', f'"{name}"')
        frame = re.sub(r'"\d{4}-\d\d-\d\dT[0-9:.]+Z"', '"<time>"', frame)
        return re.sub(r'"run-\d{8}T\d{6}Z-[0-9a-f]{8}"', '"<run>"', frame)

    def _exit(self, *, close: bool = True) -> Iterator[str]:
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if close:
            process.stdin.close()
        assert process.stdout.read() == b""
        errors = process.stderr.read().decode()
        status = process.wait(30)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
        if status == 64:
            for line in errors.splitlines():
                yield f"!! {line}"
        yield "<- (killed)" if status < 0 else f"<- (exit {status})"

    def _stderr(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        self._process.kill()
        return self._process.stderr.read().decode()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            list(self._exit())


def _is_notification(line: str) -> bool:
    try:
        message = json.loads(line)
    except ValueError:
        return False
    return isinstance(message, dict) and "method" in message and "id" not in message


def _walk(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from _walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewrite(path.read_text()))
