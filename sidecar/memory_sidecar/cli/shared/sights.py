"""How a command tells who met a note: two tables, then what the answer leaves out. `runs --saw` and `quarantine`."""

from collections.abc import Mapping
from typing import Any

from ...run.ledger import Answer, Sought
from .failure import complain
from .journals import told
from .report import counted, moment, print_table, shown_revision

__all__ = ["as_json", "print_answer"]


def as_json(answer: Answer) -> dict[str, Any]:
    """The answer for programs."""
    return {
        "journals": answer.read,
        "complete": answer.complete,
        "seen": [sight._asdict() for sight in answer.seen],
        "listed": [one._asdict() for one in answer.listed],
        "left_out": [one._asdict() for one in answer.left_out],
        "other_stores": answer.other,
    }


def print_answer(answer: Answer, sought: Sought, given: Mapping[str, Any]) -> None:
    """Both tables on stdout, and on stderr what leaves the answer open, with the remedies that `given` call for."""
    if answer.seen:
        print_table(
            ("TIME (UTC)", "WHAT", "REVISION", "RUN", "STATE", "IDENTITY"),
            [
                (moment(one.time), one.what, shown_revision(one.revision), one.run, one.state, one.identity)
                for one in answer.seen
            ],
            styled=1,
        )
    else:
        tells = "journal tells" if answer.read == 1 else "journals tell"
        print(f"No run met this very note, as far as {answer.read} {tells}.")
    _print_listings(answer)
    for left in answer.left_out:
        mentions = "; it mentions this key" if left.mentions else ""
        complain(told(left._replace(problem=left.problem + mentions), given))
    if answer.left_out:
        complain(
            f"incomplete: {counted(len(answer.left_out), 'journal')} may tell of {sought.key} and could not be asked"
        )
    if answer.other:
        complain(f"note: {counted(answer.other, 'journal')} of other memories, without this key, were not asked")


def _print_listings(answer: Answer) -> None:
    if not answer.listed:
        print("\nNo run was shown a listing.")
        return
    print("\nShown all descriptions of that time, in the index or by memory_list:")
    print_table(
        ("FIRST (UTC)", "LAST (UTC)", "TIMES", "RUN", "STATE", "IDENTITY"),
        [
            (moment(one.first), moment(one.last), str(one.times or "many"), one.run, one.state, one.identity)
            for one in answer.listed
        ],
        styled=4,
    )
