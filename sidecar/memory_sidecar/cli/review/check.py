"""One line of what `doctor` finds."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ...remedy import RemedyError

__all__ = ["CODES", "Check", "Checks", "wrong"]

CODES: Final = {
    "program": "which program and Python this is",
    "ticket": "a launch ticket is there, private and not yet used",
    "ticket-none": "no launch ticket: a harness writes one for each launch",
    "ticket-unusable": "the launch ticket is missing, used, or no file of this user with mode 0600 that holds a token",
    "config": "the configuration is read, and memory is on",
    "config-unusable": "the configuration cannot be used",
    "memory-off": "memory is not enabled",
    "lockdown": "every right that serving needs not is given up",
    "lockdown-partial": "this system does not offer all of the lockdown",
    "identity": "the identity is named",
    "identity-none": "no identity is named",
    "identity-illegal": "the identity cannot name a directory or a prefix",
    "store-unusable": "the store cannot be opened, or the broker not reached",
    "store-failed": "the store was opened, and does not answer",
    "notes": "how many notes there are",
    "memory-full": "as many notes as a memory may hold, or more: no new one can be stored",
    "memory-nearly-full": "nine tenths of the notes that a memory may hold",
    "note-unreadable": "a note cannot be read",
    "notes-open-to-others": "other users may read or change notes",
    "strays": "files in the memory's directory that are no notes",
    "displaced-saves": "saves of other programs that a killed sidecar had displaced",
    "temporary-files": "temporary files of writers that died",
    "bucket-full": "the bucket refuses new notes",
    "bucket-nearly-full": "the bucket soon refuses new notes",
    "bucket-may-lose": "under these settings an acknowledged note may be lost",
    "replica-absent": "a replica of the bucket is down or behind",
    "not-permitted": "the broker does not permit what a run asks for",
    "deletion-marks": "so many marks of deletions that calls are slow",
    "credentials-open-to-others": "other users may read the broker's credentials",
    "jwt-expired": "the user's JWT has expired",
    "jwt-expires": "the user's JWT expires within 14 days",
    "directory": "the directory is there, private and usable",
    "store-missing": "the store will be made at the first start",
    "directory-missing": "the directory will be made at the first start",
    "directory-unusable": "it is no directory, or this user cannot read or write it",
    "directory-open-to-others": "other users may read the directory, or it is another user's",
    "directory-writable-by-others": "any user may put files into the directory",
    "disk-read-only": "the disk is mounted read-only",
    "disk-unfit": "the disk has no locks that can be relied on",
    "disk-cannot-flush": "a power cut may cost the newest changes",
    "disk-nearly-full": "little room is left on the disk",
    "disk-full": "no room is left on the disk",
    "shared-directory": "notes and journals are in one directory",
    "journal-unusable": "the journal directory cannot be used",
    "journals": "how many runs there are in which state",
    "journal-damaged": "a journal is damaged",
    "journal-newer": "a newer version wrote the journal",
    "journal-foreign": "a file with a journal's name is none",
    "journal-blocked": "what has a journal's name is no file",
    "journal-misplaced": "a journal is of another run or identity",
    "journal-empty": "no record of a journal is whole",
    "journal-aside": "a name among journals that none has, as of one that was rotated, copied or synchronised",
    "journal-unreadable": "a journal cannot be read",
    "journal-saved-anew": "a journal was taken away or cut under its run, so its history is not whole",
    "older-journals": "an older version left journals that agents will take over",
    "older-journal-stuck": "a journal that an older version left cannot be taken over",
    "run": "the run of --run can be opened",
    "run-unusable": "the run of --run cannot be opened",
}
"""Every code that `doctor --json` may tell, and what it means. One that is there keeps its meaning."""


class Check(NamedTuple):
    """`code` is one of `CODES`; `state` is ok, note or wrong."""

    code: str
    check: str
    state: str
    found: str
    mend: str = ""


Checks = Iterator[Check]


def wrong(code: str, check: str, error: RemedyError) -> Check:
    """What a refusal says, in its two parts."""
    return Check(code, check, "wrong", error.problem, error.remedy)
