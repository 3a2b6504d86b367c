"""The ledger's question: which run met which note, at which revision, when, and on which machine. Changes nothing.

A journal records, of each note by name, what a run read, wrote, deleted, was refused and was shown the description of.
Listings and the index show the descriptions of all notes at once: of those it records when there was one, not of what.

What an answer leaves out is in it, by name.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final

from ..named_tuple import NamedTuple
from .compact import meetings
from .glance import records_of
from .ledger import Journaled

__all__ = ["ANYWHERE", "ELSEWHERE", "Answer", "LeftOut", "Listing", "Sight", "Sought", "Where", "is_revision", "saw"]

_REVISION: Final = re.compile(r"[0-9a-f]{8,32}|[1-9][0-9]{0,19}(@[A-Za-z0-9_:.TZ+-]{1,40})?")
"""What may be looked for: a digest, or enough of one to stand for all of it; or a bucket's number, which may be
followed by the mark of its message."""


ELSEWHERE: Final = "is of another store, or of this one before it was moved or made again"
"""The problem of a journal that may be of this memory, though its store has another fingerprint."""


class Sought(NamedTuple):
    """What is looked for: a key, perhaps at one revision."""

    key: str
    revision: str | None

    def matches(self, revision: str | None) -> bool:
        """Whether `revision`, as a journal has it, is the one that is looked for.

        A number without a mark stands for that number with any.
        """
        if self.revision is None or revision == self.revision:
            return True
        if revision is None:
            return False
        if len(revision) == 32 and "@" not in revision:
            return len(self.revision) >= 8 and revision.startswith(self.revision)
        return revision.startswith(f"{self.revision}@")


def is_revision(text: str) -> bool:
    """Whether a note can have this revision, or one that starts so."""
    return _REVISION.fullmatch(text) is not None


class Sight(NamedTuple):
    """One time that a run met the note.

    `what`: read, created, updated, deleted; shown (the description alone, as creating what exists was refused); refused
    (an overwrite was refused, or what the run knew of the note became void); unknown (nobody knows whether its change
    was stored); or held (the harness handed the authority in). `revision` is the one met: of a deletion, the one
    removed; of a refusal, the one known before; of an unknown outcome, the one that may be stored, if that is known.
    """

    time: str
    run: str
    identity: str
    state: str
    what: str
    revision: str | None
    host: str
    """The machine that the run was on then; "" where an older version did not tell."""


class Listing(NamedTuple):
    """That a run was shown the descriptions of all notes there were: `times` times, between `first` and `last`.

    `times` is 0 if it is not known, in a journal that was made short. `stores` are those that the run has been in.
    """

    run: str
    identity: str
    state: str
    stores: Sequence[str]
    first: str
    last: str
    times: int
    hosts: Sequence[str]


class LeftOut(NamedTuple):
    """A journal that the answer does without, and that may tell of the note."""

    run: str
    identity: str
    state: str
    path: str
    problem: str
    """To be read after "its journal"."""
    mentions: bool
    """Whether the key stands in it."""
    hosts: Sequence[str] = ()
    """The machines that the run has been on, as far as that can be read."""


class Where(NamedTuple):
    """The memory that is asked about. What is not known of it is in the answer, or makes that incomplete."""

    names: Mapping[str, str] | None = None
    """What the note is called, by the fingerprint of each store in which it can be met: where prefixes nest, one note
    has several names. None for any store."""
    of: Callable[[str], str | None] = lambda _identity: None
    """The fingerprint of the memory that an identity has beside this one; None if that cannot be told."""
    identity: str | None = None
    """Whose memory it is. A journal of this identity may be of it whatever its store is called by now."""
    prefix: str = ""
    """What stands before the key in a place where memories lie side by side; for where `names` cannot be told."""
    proof: str = ""
    """The revision of the note, if that is no other document's in whatever store it is found (`Opened.holds`)."""

    def called(self, one: Journaled, key: str) -> set[str]:
        """What the run calls the note; nothing if it was never where the note is."""
        if self.names is not None:
            return {self.names[store] for store in one.stores() & self.names.keys()}
        # A run whose own prefix nests with this one calls it by what follows its own; one without a prefix, by all.
        whole = f"{self.prefix}.{key}" if self.prefix else key
        return {key, whole, whole.removeprefix(f"{one.identity}.")}


ANYWHERE: Final = Where()
"""Every memory whose runs are told."""


class Answer(NamedTuple):
    """Who met the note, and what the answer leaves out."""

    read: int
    """Journals that the answer is made from."""
    seen: list[Sight]
    """Oldest first; within a run as it happened, even if the clock was put back."""
    listed: list[Listing]
    """By the first time."""
    left_out: list[LeftOut]
    others: Mapping[str, int]
    """How many journals of other memories were not asked, by identity: of stores that are known to be others; or that
    do not mention the key, of agents that have not been in this memory otherwise."""
    hosts: Mapping[str, int]
    """How many of the journals asked tell of which machine, by its name; "" for those of older versions."""

    @property
    def complete(self) -> bool:
        """Whether no other run than these can have met the note, as far as these directories tell.

        Where no journal was asked, nothing is told.
        """
        return self.read > 0 and not self.left_out

    @property
    def elsewhere(self) -> Sequence[LeftOut]:
        """Those left out as their store has another fingerprint. A question that names no memory asks them too."""
        return [one for one in self.left_out if one.problem == ELSEWHERE]


def saw(found: Iterator[Journaled], sought: Sought, where: Where = ANYWHERE) -> Answer:
    """Which of the runs met the note; of those that have been in the memory `where`.

    A journal of another store may be of this memory before it was moved, restored or made again. So it is left out by
    name if it mentions the key, or if its identity is the memory's own or has been in the memory in another run: a run
    that was only shown descriptions mentions no key. A store that is known to be the memory of that run's own identity
    is no such case. And where a run of another store met the very document that is asked about (`Where.proof`), that
    store is this one as it was before: all of its journals are asked.
    """
    read = 0
    others: Counter[str] = Counter()
    hosts: Counter[str] = Counter()
    placed: list[tuple[str, Sight]] = []
    listed: list[Listing] = []
    left_out: list[LeftOut] = []
    aside: list[_Aside] = []
    inside = {where.identity}
    for one in found:
        problem = one.problem
        keys = set() if problem else where.called(one, sought.key)
        if not problem and not keys:
            if one.stores() == {where.of(one.identity)}:
                others[one.identity] += 1
            else:
                aside.append(_aside(one, sought, where))
            continue
        if not problem:
            read += 1
            inside.add(one.identity)
            hosts.update(one.hosts() or [""])
            met, apart = _placed(one, sought, where, keys)
            placed += met
            listed += _listings(one)
            problem = _forgotten(one, met) or (ELSEWHERE if apart else "")
        if problem:
            left_out.append(_left_out(one, problem, sought, where))
    before = {store for each in aside if each.proves for store in each.stores}
    for each in aside:
        left = each.left
        if before.issuperset(each.stores):
            read += 1
            inside.add(left.identity)
            hosts.update(left.hosts or [""])
            placed += each.met
            listed += each.listed
            left_out += [left._replace(problem=each.forgotten)] if each.forgotten else []
    for left in (each.left for each in aside if not before.issuperset(each.stores)):
        if left.mentions or left.identity in inside:
            left_out.append(left)
        else:
            others[left.identity] += 1
    placed.sort(key=lambda pair: pair[0])
    listed.sort(key=lambda listing: listing.first)
    return Answer(read, [sight for _, sight in placed], listed, left_out, others, hosts)


class _Aside(NamedTuple):
    """A journal of another store, and what it tells if that store turns out to be the memory's own, of before."""

    left: LeftOut
    stores: frozenset[str]
    proves: bool
    """Whether its run, which was in one store alone, met the very document that is asked about."""
    met: Sequence[tuple[str, Sight]]
    listed: Sequence[Listing]
    forgotten: str


def _aside(one: Journaled, sought: Sought, where: Where) -> _Aside:
    left = _left_out(one, ELSEWHERE, sought, where)
    if not where.proof:
        return _Aside(left, frozenset(one.stores()), False, (), (), "")
    met, stores = list(_sights(one, sought)), one.stores()
    proves = len(stores) == 1 and any(sight.revision == where.proof for _, sight in met)
    return _Aside(left, frozenset(stores), proves, met, _listings(one), _forgotten(one, met))


def _forgotten(one: Journaled, met: Sequence[object]) -> str:
    """What is wrong with a journal that does not keep all and tells of no meeting; "" of any other."""
    return f"does not keep all that was before {one.forgotten}" if one.forgotten and not met else ""


def _left_out(one: Journaled, problem: str, sought: Sought, where: Where) -> LeftOut:
    mentions = any(one.mentions(key) for key in {sought.key, *(where.names or {}).values()})
    hosts = () if one.standing is None else one.hosts()
    return LeftOut(one.run, one.identity, one.state, one.path, problem, mentions, hosts)


def _placed(
    one: Journaled, sought: Sought, where: Where, keys: set[str]
) -> tuple[list[tuple[str, Sight]], list[tuple[str, Sight]]]:
    """Each time that the run, which has been in this memory, met the note; and a note of its name elsewhere.

    A run can go on in another store. What it met there is not this note, unless that store is this one as it was
    before; so it is told only if it is the very document. A short journal does not keep where each meeting was.
    """
    names, first = where.names, one.standing.first if one.standing else {}
    away = set() if names is None or "compacted" in first else one.stores() - names.keys()
    if names is None or not away:
        return [sight for key in sorted(keys) for sight in _sights(one, sought._replace(key=key))], []
    met: list[tuple[str, Sight]] = []
    for key in sorted(keys):
        here = {store for store, name in names.items() if name == key}
        met += _sights(one, sought._replace(key=key), here)
    others = list(_sights(one, sought, away - {where.of(one.identity)}))
    same = [other for other in others if where.proof and other[1].revision == where.proof]
    return sorted(met + same, key=lambda pair: pair[0]), [other for other in others if other not in same]


def _sights(one: Journaled, sought: Sought, within: Container[str] | None = None) -> Iterator[tuple[str, Sight]]:
    """Each time that the run met the note, in the stores `within` if given, with the latest time until then."""
    if not one.mentions(sought.key):
        return
    records = one.records()
    hosts, stores = [""], [""]
    for record in records:
        hosts.append(record.get("host", hosts[-1]))
        stores.append(record.get("store", stores[-1]))
    latest = ""
    for met in meetings(records):
        # Where a write went astray the revision that may be stored is not always known.
        if within is not None and stores[met.place + 1] not in within:
            continue
        if met.key == sought.key and (met.why == "unknown" or sought.matches(met.met)):
            what = "refused" if met.why == "stale" else met.why
            latest = max(latest, met.time)
            yield latest, Sight(met.time, one.run, one.identity, one.state, what, met.met, hosts[met.place + 1])


def _listings(one: Journaled) -> list[Listing]:
    records = list(records_of(one.data, ("listed",)))
    if not records:
        return []
    first: str = min(record.get("since") or record["time"] for record in records)
    last = max(record["time"] for record in records)
    times = 0 if any("since" in record for record in records) else len(records)
    return [Listing(one.run, one.identity, one.state, sorted(one.stores()), first, last, times, one.hosts())]
