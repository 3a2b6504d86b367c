"""A program that is launched as an MCP server and breaks the rules. Its one argument says how."""

import json
import os
import signal
import subprocess
import sys
import time


def hangs() -> None:
    time.sleep(600)


def hangs_unkindly() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(600)


def floods_stderr() -> None:
    while True:
        os.write(2, b"memory_read \x1b[31m" * 1000)


def prints_junk() -> None:
    print("Starting up...\x1b[2J", flush=True)
    time.sleep(600)


def one_endless_line() -> None:
    while True:
        os.write(1, b'{"jsonrpc": "2.0", ' * 1000)


def exits() -> None:
    print("no such license", file=sys.stderr)
    sys.exit(3)


def closes_its_output() -> None:
    os.close(1)
    time.sleep(600)


def closes_its_input() -> None:
    os.close(0)
    time.sleep(600)


def answers_by_hand() -> None:
    """No SDK: it lists a tool with a field that the SDK's models drop."""
    for line in sys.stdin:
        request = json.loads(line)
        method, answer = request["method"], {"jsonrpc": "2.0", "id": request.get("id")}
        if method == "initialize":
            info = {"name": "by hand", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            answer["result"] = result
        elif method == "tools/list":
            tool = {"name": "add", "inputSchema": {"type": "object"}, "x-notes": "calls memory_read"}
            answer["result"] = {"tools": [tool]}
        elif "id" in request:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        if "id" in request:
            print(json.dumps(answer), flush=True)


def _answers(end: str) -> None:
    """Answers a listing with memory among much else, and goes wrong in the same breath."""
    for line in sys.stdin:
        request = json.loads(line)
        method, answer = request["method"], {"jsonrpc": "2.0", "id": request.get("id")}
        if method == "initialize":
            info = {"name": "last words", "version": "1"}
            answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        elif method == "tools/list":
            tools = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(300)]
            answer["result"] = {"tools": [*tools, {"name": "memory_read", "inputSchema": {"type": "object"}}]}
        elif "id" in request:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        if "id" in request:
            last = end if method == "tools/list" else ""
            os.write(1, json.dumps(answer).encode() + b"\n" + last.encode())
            if method == "tools/list":
                os._exit(0)


def answers_and_ends() -> None:
    _answers("")


def answers_then_junk() -> None:
    _answers("Bye!\n")


def answers_then_half_a_line() -> None:
    _answers('{"jsonrpc":')


def answers_then_floods() -> None:
    _answers(" " * 40_000)


def refuses_and_ends() -> None:
    """Answers each of two requests, the second with a refusal, and is gone."""
    for _ in range(2):
        request = json.loads(sys.stdin.readline())
        error = {"code": -32000, "message": "no seat is free"}
        if request["method"] != "initialize":
            error = {"code": -32601, "message": "Method not found"}
        os.write(1, json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode() + b"\n")
        if request["method"] == "initialize":
            break
    os._exit(0)


def leaves_children() -> None:
    for session in (False, True):
        subprocess.Popen([sys.executable, __file__, "hangs_unkindly"], start_new_session=session)
    hangs()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
