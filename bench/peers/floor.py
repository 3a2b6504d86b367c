"""The floor: what no memory server in Python can be below. A pipe echo, and one durable file write per `create`.

Reads lines and writes each back; a line that says create or overwrite first becomes a file: written, flushed,
renamed into place, its directory flushed. No JSON is parsed and nothing is checked.
"""

import os
import sys

directory = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
rest = b""
while data := os.read(0, 1 << 18):
    *lines, rest = (rest + data).split(b"\n")
    for line in lines:
        if b'"create"' in line or b'"overwrite"' in line:
            stage = os.open("stage", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)
            os.write(stage, line)
            os.fsync(stage)
            os.close(stage)
            os.rename("stage", "note", src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
        answer = line.replace(b'"method":', b'"result":{"tools":[]},"was":') + b"\n"
        while answer:
            answer = answer[os.write(1, answer) :]
