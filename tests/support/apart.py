"""Many identities in one process, each played with what would lead to another's notes if anything did."""

import json
import random
from typing import Any

from tests.support.sidecar import FINISH, LIST, SUSPEND, RefusedError, Sidecar

__all__ = ["IDENTITY", "MANY", "RUN", "Many", "assert_only_own", "secret", "wander"]

MANY = "--many-identities"
IDENTITY = "memory-sidecar/identity"
RUN = "memory-sidecar/run"


class Many:
    """A sidecar of many identities, asked in the name of one of them."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar = sidecar

    def open(self, identity: str, run: str = "main", **params: Any) -> dict[str, Any]:
        return self.sidecar.open(run, identity=identity, **params)

    def call(self, identity: str, tool: str, run: str = "main", **arguments: Any) -> dict[str, Any]:
        meta = {RUN: run, IDENTITY: identity}
        return self.sidecar.request("tools/call", {"name": tool, "arguments": arguments, "_meta": meta})

    def write(self, identity: str, key: str, text: str, run: str = "main", **more: Any) -> dict[str, Any]:
        answer = self.call(identity, "memory_write", run, key=key, description=text, content=text, **more)
        return answer["structuredContent"]  # type: ignore[no-any-return]

    def read(self, identity: str, key: str, run: str = "main") -> dict[str, Any]:
        return self.call(identity, "memory_read", run, key=key)["structuredContent"]  # type: ignore[no-any-return]


def secret(identity: str) -> str:
    return f"<{identity}>"


def assert_only_own(answer: object, identity: str, others: list[str]) -> None:
    text = json.dumps(answer)
    leaked = [other for other in others if other != identity and secret(other) in text]
    assert not leaked, f"{identity} was told of {leaked}: {text[:300]}"


def wander(many: Many, identities: list[str], moves: int, seed: int) -> dict[str, int]:
    """Play every identity at random, each with keys, run ids and names that would lead to another's if anything did.

    Each writes its own secret and nothing else, so whoever is told of another's has reached it.
    """
    chance = random.Random(seed)
    tally = {"calls": 0, "refused": 0, "answers": 0}
    scopes: dict[str, dict[str, Any]] = {}
    for identity in identities:
        many.open(identity)
        assert many.write(identity, "own", secret(identity))["written"]
    for _ in range(moves):
        identity, other = chance.choice(identities), chance.choice(identities)
        tally["calls"] += 1
        try:
            answer = _move(many, chance, identity, other, scopes)
        except RefusedError as error:
            tally["refused"] += 1
            answer = str(error)
        else:
            tally["answers"] += 1
        assert_only_own(answer, identity, identities)
    for identity in identities:
        assert many.read(identity, "own")["content"] == secret(identity)
        assert_only_own(many.call(identity, "memory_list"), identity, identities)
    return tally


def _move(
    many: Many, chance: random.Random, identity: str, other: str, scopes: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """One request of `identity` that points to what `other` has. `scopes` are those that runs ended with."""
    mine = {"identity": identity}
    key = chance.choice(
        ["own", f"{other}.own", f"../{other}/own", f"{other}/own", f"{other}.md", "..", f"../../runs/{other}/main"]
    )
    run = chance.choice(["main", "main", "main", "second", other, f"{other}/main", f"../{other}/main", "no such"])
    away = "second" if run == "main" else run  # the run that each ends with stays open
    match chance.choice("llrrwwoeshafd"):
        case "l":
            return many.call(identity, "memory_list", run)
        case "r":
            return many.call(identity, "memory_read", run, key=key)
        case "w":
            note = {"key": key, "description": secret(identity), "content": secret(identity)}
            return many.call(identity, "memory_write", run, **note, overwrite=chance.random() < 0.5)
        case "d":
            return many.call(identity, "memory_delete", run, key="gone" if key == "own" else key)
        case "o":
            return many.open(identity, away)
        case "e":
            ended = many.sidecar.request(SUSPEND, {"run": away, **mine})
            scopes[identity] = ended["scope"]
            return ended
        case "f":
            return many.sidecar.request(FINISH, {"run": away, "reason": "error", **mine})
        case "h" if other in scopes:
            # Another's authority, handed in as this one's: it is of another store, whatever the keys are called.
            opened = many.open(identity, away, scope=scopes[other])
            assert identity == other or opened["scope"]["store"] != scopes[other]["store"]
            return opened
        case "a":
            return many.sidecar.request(LIST, {"identity": f"{identity}/../{other}"})
        case _:
            return many.sidecar.request(LIST, mine)
