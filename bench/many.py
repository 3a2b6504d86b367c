"""What identities cost: the memory of one process that serves many, against a process each. Prints one table.

Each identity has a run open that has written one note, and is idle then. Measured is what the system counts as the
process's own share of memory (Pss in /proc/PID/smaps_rollup): pages that processes share count once among them. Private
memory alone is printed beside it. Linux tells these; elsewhere there is nothing to print.

Then the same number of identities is played at random in one process, each with keys, run ids, scopes and names that
would lead to another's notes if anything did. One that is told of another's ends the command with the proof.
"""

import argparse
import secrets
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.support.apart import MANY, Many, wander
from tests.support.sidecar import launched

from memory_sidecar.harness.sync import MemorySidecar, Run

__all__ = ["apart", "main", "one_process", "processes"]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.many", description=__doc__)
    parser.add_argument("--identities", type=int, default=200, metavar="N", help="default: 200")
    parser.add_argument("--moves", type=int, default=3000, metavar="N", help="random requests; default: 3000")
    parser.add_argument("--seed", type=int, metavar="N", help="of the moves; another one each time, by default")
    arguments = parser.parse_args(words)
    count: int = arguments.identities
    with tempfile.TemporaryDirectory() as place:
        idle = one_process(Path(place) / "none", 0)
        one = one_process(Path(place) / "one", count)
        each = processes(Path(place) / "each", count)
    print(f"{'':32} {'share, MiB':>11} {'private, MiB':>13}")
    print(f"{'one process, no identity yet':32} {idle[0]:11.1f} {idle[1]:13.1f}")
    print(f"{f'one process, {count} identities':32} {one[0]:11.1f} {one[1]:13.1f}")
    print(f"{f'{count} processes':32} {each[0]:11.1f} {each[1]:13.1f}")
    print(
        f"an identity more costs {(one[1] - idle[1]) * 1024 / count:.0f} KiB; a process more {each[1] / count:.1f} MiB"
    )
    apart(count, arguments.moves, secrets.randbelow(10**6) if arguments.seed is None else arguments.seed)
    return 0


def apart(count: int, moves: int, seed: int) -> None:
    """Play `count` identities, and print what came of it.

    Raises:
        AssertionError: one was told of what another one wrote.
    """
    with tempfile.TemporaryDirectory() as place, launched(Path(place), MANY, identity="") as sidecar:
        tally = wander(Many(sidecar), [f"user-{number}" for number in range(count)], moves, seed)
        sidecar.leave()
    print(
        f"{count} identities, {tally['calls']} requests that point to another's (seed {seed}): "
        f"{tally['answers']} answered, {tally['refused']} refused, 0 told of another's notes"
    )


def one_process(base: Path, count: int) -> tuple[float, float]:
    """Share and private memory, in MiB, of one process with a run open for each of `count` identities."""
    with MemorySidecar.launch(store_dir=base, many_identities=True) as memory, ExitStack() as stack:
        for number in range(count):
            _use(stack.enter_context(memory.run("main", identity=f"user-{number}")))
        return _memory(memory.pid)


def processes(base: Path, count: int) -> tuple[float, float]:
    """The same of `count` processes, one for each identity, together."""
    with ExitStack() as stack:
        launched = [
            stack.enter_context(MemorySidecar.launch(store_dir=base, identity=f"user-{number}"))
            for number in range(count)
        ]
        for memory in launched:
            _use(stack.enter_context(memory.run("main")))
        measured = [_memory(memory.pid) for memory in launched]
    return sum(share for share, _ in measured), sum(private for _, private in measured)


def _use(run: Run) -> None:
    answer = run.call("memory_write", {"key": "plan", "description": "The plan", "content": "text " * 400})
    if not (answer.structured or {}).get("written"):
        raise RuntimeError(answer.text)


def _memory(pid: int) -> tuple[float, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    kib = {name: int(rest.split()[0]) for name, rest in (line.split(":", 1) for line in lines)}
    return kib["Pss"] / 1024, (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024


if __name__ == "__main__":
    sys.exit(main())
