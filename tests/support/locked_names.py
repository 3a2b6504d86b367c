"""A locked process that looks a name up, where the only name server speaks TCP. For test_lockdown.py.

Needs root: everything happens in a network of its own. What answers is a process from before locking.
"""

import ctypes
import fcntl
import os
import select
import socket
import struct
import sys

from memory_sidecar.system import lockdown

CLONE_NEWNS, CLONE_NEWNET, MS_PRIVATE_ALL, MS_BIND = 0x20000, 0x40000000, 0x44000, 0x1000
SERVER = "127.0.0.53"


def own_network(directory: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) or libc.mount(None, b"/", None, MS_PRIVATE_ALL, None):
        sys.exit(77)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
    with open(f"{directory}/resolv.conf", "w") as file:
        file.write(f"nameserver {SERVER}\noptions timeout:1 attempts:1\n")
    if libc.mount(f"{directory}/resolv.conf".encode(), b"/etc/resolv.conf", None, MS_BIND, None):
        sys.exit(77)


def serve_names(listener: socket.socket, end: int) -> None:
    """`broker.test` is 127.0.0.1; everything else has no address. Until `end` is closed elsewhere."""
    while select.select([listener.fileno(), end], [], [])[0] == [listener.fileno()]:
        peer, _ = listener.accept()
        with peer, peer.makefile("rwb") as stream:
            while size := stream.read(2):
                query = stream.read(int.from_bytes(size, "big"))
                question = query[12:]
                question = question[: question.index(b"\0") + 5]
                found = question.startswith(b"\6broker\4test\0") and question[-4:-2] == b"\0\1"
                answer = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\1" if found else b""
                header = query[:2] + b"\x81\x80" + struct.pack(">HHHH", 1, int(found), 0, 0)
                reply = header + question + answer
                stream.write(len(reply).to_bytes(2, "big") + reply)
                stream.flush()


def main() -> None:
    directory, prepared = sys.argv[1], sys.argv[2] == "prepared"
    own_network(directory)
    names = socket.create_server((SERVER, lockdown.DNS_PORT))
    broker = socket.create_server(("127.0.0.1", 4222))
    # Not ended by a signal: a locked process can send none, not even the one at the death of a parent.
    end, kept = os.pipe()
    if os.fork() == 0:
        os.close(kept)
        serve_names(names, end)
        os._exit(0)
    names.close()
    if prepared:
        lockdown.look_up_names_over_tcp()
        assert socket.getaddrinfo("broker.test", 4222)
    lockdown.lock([directory], [4222, lockdown.DNS_PORT], "require")
    try:
        socket.create_connection(("broker.test", 4222), 5).close()
        print("connected", flush=True)
    except socket.gaierror as error:
        print(f"no name: {error}", flush=True)
    broker.close()


if __name__ == "__main__":
    main()
