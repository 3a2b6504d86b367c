"""How a command tells who met a note: two tables, then what the answer leaves out. `runs --saw` and `quarantine`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...run.saw import Answer, Sought
from .failure import complain
from .journals import told
from .remedy import command
from .report import counted, moment, print_table, shown_revision

__all__ = ["NO_JOURNAL", "as_json", "print_answer"]

NO_JOURNAL: Final = "there is no journal to answer from; check --store-dir, --journal-dir and --identity"


def as_json(answer: Answer) -> dict[str, Any]:
    """The answer for programs."""
    return {
        "journals": answer.read,
        "complete": answer.complete,
        "seen": [sight._asdict() for sight in answer.seen],
        "listed": [one._asdict() for one in answer.listed],
        "left_out": [one._asdict() for one in answer.left_out],
        "other_stores": sum(answer.others.values()),
        "others": [{"identity": identity, "journals": count} for identity, count in sorted(answer.others.items())],
        "hosts": [{"host": host or None, "journals": count} for host, count in sorted(answer.hosts.items())],
    }


def print_answer(answer: Answer, sought: Sought, given: Mapping[str, Any]) -> None:
    """Both tables on stdout, and on stderr what leaves the answer open, with the remedies that `given` call for."""
    # Where all was on this machine there is nothing to tell apart.
    hosts = set(answer.hosts) - {os.uname().nodename}
    if answer.seen:
        _print_table(
            ("TIME (UTC)", "WHAT", "REVISION", "RUN", "STATE", "IDENTITY"),
            [
                ((moment(one.time), one.what, shown_revision(one.revision), one.run, one.state, one.identity), one.host)
                for one in answer.seen
            ],
            hosts=bool(hosts),
            styled=1,
        )
    else:
        tells = "journal tells" if answer.read == 1 else "journals tell"
        print(f"No run met this very note, as far as {answer.read} {tells}.")
    _print_listings(answer, hosts=bool(hosts))
    for left in answer.left_out:
        more = "; it mentions this key" if left.mentions else ""
        more += f"; it was written on {', '.join(left.hosts)}" if hosts and left.hosts else ""
        complain(told(left._replace(problem=left.problem + more)))
    if answer.elsewhere:
        # Whether such a store was this memory nobody can tell; but which of these runs met the key can be asked.
        anywhere = {name: given.get(name) for name in ("store_dir", "journal_dir")}
        complain(f"  to ask those of other stores too: {command(anywhere, 'runs', '--saw', sought.key)}")
    if answer.left_out:
        complain(
            f"incomplete: {counted(len(answer.left_out), 'journal')} may tell of {sought.key} and could not be asked"
        )
    if hosts:
        shown = [f"{number} of {host or 'no host that is told'}" for host, number in sorted(answer.hosts.items())]
        complain(f"note: journals of several hosts were asked, or of another one than this: {', '.join(shown)}")
    if answer.others:
        count = sum(answer.others.values())
        whose = ", ".join(sorted(answer.others))
        complain(f"note: not asked: {counted(count, 'journal')} of other memories, of the agents {whose}")


def _print_listings(answer: Answer, *, hosts: bool) -> None:
    if not answer.listed:
        print("\nNo run was shown a listing.")
        return
    print("\nShown all descriptions of that time, in the index or by memory_list:")
    _print_table(
        ("FIRST (UTC)", "LAST (UTC)", "TIMES", "RUN", "STATE", "IDENTITY"),
        [
            (
                (moment(one.first), moment(one.last), str(one.times or "many"), one.run, one.state, one.identity),
                ", ".join(one.hosts),
            )
            for one in answer.listed
        ],
        hosts=hosts,
        styled=4,
    )


def _print_table(
    titles: tuple[str, ...], rows: Sequence[tuple[tuple[str, ...], str]], *, hosts: bool, styled: int
) -> None:
    """A table of these rows, each with its host if `hosts`."""
    print_table(
        (*titles, "HOST") if hosts else titles,
        [(*cells, host or "unknown") if hosts else cells for cells, host in rows],
        styled=styled,
    )
