"""`runs export`: every record of every run as a line of JSON, for an operator's own log store."""

import argparse
import json

from ...exits import EX_FOUND
from ...run.replay import DamagedError
from ..shared.failure import complain
from ..shared.journals import all_journals, directories, told
from ..shared.report import counted
from .where import told_identity

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    left_out = 0
    where = directories(vars(arguments))
    for one in all_journals(where, told_identity(arguments, where)):
        try:
            records = one.records()
        except DamagedError as error:
            one = one._replace(state=error.state, problem=f"is damaged, {error}")
        if one.problem:
            left_out += 1
            complain(f"left out: {told(one)}")
            continue
        for record in records:
            # In ASCII, as in the journal: an escaped control character drives no terminal.
            print(json.dumps({"run": one.run, "identity": one.identity} | record, separators=(",", ":")))
    if left_out:
        complain(f"incomplete: {counted(left_out, 'journal')} left out")
    return EX_FOUND if left_out else 0
