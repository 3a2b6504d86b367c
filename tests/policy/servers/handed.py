"""Real servers on the official SDK over stdio, without a launch of the SDK for each.

Loading the SDK takes a second. A command that runs this file is a process of its own, which hands its stdin and
stdout to the tests' process, where the SDK is loaded already; a thread there serves them until they are closed.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def handing(place: Path, build: Callable[[str], Any]) -> Iterator[Callable[[str], list[str]]]:
    """The command that launches a server, by the name of what it offers."""
    import threading

    path = str(place / "handed")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)

        threads: list[threading.Thread] = []

        def accept() -> None:
            with suppress(OSError):  # it is shut down
                while True:
                    connection, _ = listener.accept()
                    threads.append(threading.Thread(target=take, args=(connection,), daemon=True))
                    threads[-1].start()

        def take(connection: socket.socket) -> None:
            with connection:
                name, descriptors, _, _ = socket.recv_fds(connection, 100, 2)
                _serve(build(name.decode()), *descriptors)

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield lambda name: [sys.executable, "-I", "-S", __file__, path, name]
        listener.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *threads):
            thread.join(60)
            assert not thread.is_alive(), "a server goes on though its stdin is closed"


def _serve(server: Any, stdin: int, stdout: int) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    low = getattr(server, "_lowlevel_server", server)

    async def main() -> None:
        with open(stdin, encoding="utf-8") as source, open(stdout, "w", encoding="utf-8") as sink:
            async with stdio_server(anyio.wrap_file(source), anyio.wrap_file(sink)) as (read, write):
                await low.run(read, write, low.create_initialization_options())

    anyio.run(main)


def _hand(path: str, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [name.encode()], [0, 1])
        for descriptor in (0, 1):
            os.close(descriptor)
        connection.recv(1)  # the server ends, and this process with it


if __name__ == "__main__":
    _hand(*sys.argv[1:])
