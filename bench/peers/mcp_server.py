"""The same four tools as an ordinary server on the official `mcp` SDK: what most people would write first.

One file a key, written beside its place and renamed into it. It flushes nothing to the disk, keeps no journal, has
no guard, no limits and no index, so it does less than the product does.
"""

import os
import sys
from typing import Any

from mcp.server.mcpserver import MCPServer

ROOT = sys.argv[1]
server = MCPServer("bench-memory")


def _path(key: str) -> str:
    if not key or "/" in key or key.startswith("."):
        raise ValueError("not a key")
    return os.path.join(ROOT, key + ".md")


def _load(path: str) -> tuple[str, str]:
    with open(path, encoding="utf-8") as file:
        description = file.readline().rstrip("\n")
        return description, file.read()


@server.tool()
def memory_list() -> dict[str, Any]:
    """List the keys and descriptions of all memories."""
    found = []
    for name in sorted(os.listdir(ROOT)):
        if name.endswith(".md"):
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                found.append({"key": name.removesuffix(".md"), "description": file.readline().rstrip("\n")})
    return {"memories": found}


@server.tool()
def memory_read(key: str) -> dict[str, Any]:
    """Read one memory by its key."""
    try:
        description, content = _load(_path(key))
    except FileNotFoundError:
        return {"found": False, "key": key}
    return {"found": True, "key": key, "description": description, "content": content}


@server.tool()
def memory_write(key: str, description: str, content: str, overwrite: bool = False) -> dict[str, Any]:
    """Save a memory under a key. Refuses a key that is taken, unless overwrite is true."""
    path = _path(key)
    if not overwrite and os.path.exists(path):
        return {"written": False, "key": key, "code": "exists"}
    stage = f"{path}.{os.getpid()}.tmp"
    with open(stage, "w", encoding="utf-8") as file:
        file.write(f"{description}\n{content}")
    os.replace(stage, path)
    return {"written": True, "key": key}


@server.tool()
def memory_delete(key: str) -> dict[str, Any]:
    """Remove one memory by its key."""
    try:
        os.unlink(_path(key))
    except FileNotFoundError:
        return {"deleted": False, "key": key}
    return {"deleted": True, "key": key}


server.run()
