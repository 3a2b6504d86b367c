"""Started in place of the product's own program: does the same, and tells on stderr when each stage began and ended.

For `bench.launch`. The product has nothing of it: its functions are wrapped from here, once they are loaded.
"""

import sys
from time import perf_counter

STAGES = {
    "open": ("memory_sidecar.assemble", "Plan._open"),
    "prepare": ("memory_sidecar.cli.serve", "prepare"),
    "lockdown": ("memory_sidecar.assemble", "lock_down"),
    "session": ("memory_sidecar.cli.serve", "serve"),
    "index": ("memory_sidecar.run.session", "Run.instructions"),
    "serve": ("memory_sidecar.cli.serve", "serve_harness"),
}
stamps = {"modules": [perf_counter()]}
before = set(sys.modules)

from memory_sidecar import __main__ as program  # noqa: E402
from memory_sidecar.cli import serve  # noqa: E402, F401

stamps["modules"].append(perf_counter())


def stamp(stage, module, name):  # type: ignore[no-untyped-def]
    *path, last = name.split(".")
    holder = sys.modules[module]
    for part in path:
        holder = getattr(holder, part)
    wrapped = getattr(holder, last)

    def timed(*args, **kwargs):  # type: ignore[no-untyped-def]
        stamps[stage] = [perf_counter()]
        try:
            return wrapped(*args, **kwargs)
        finally:
            stamps[stage].append(perf_counter())

    setattr(holder, last, timed)


for stage, (module, name) in STAGES.items():
    stamp(stage, module, name)
try:
    status = program.main()
finally:
    for stage, (begin, end) in stamps.items():
        sys.stderr.write(f"stamp {stage} {begin:.9f} {end:.9f}\n")
raise SystemExit(status)
