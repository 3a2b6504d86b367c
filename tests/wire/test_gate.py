"""Who is let in, and when a refusal ends the process: each rule of the gate by itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sidecar.exits import EX_NOPERM
from memory_sidecar.wire.codes import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, Error
from memory_sidecar.wire.gate import Gate, wants_default_run
from memory_sidecar.wire.messages import EXTENSION
from memory_sidecar.wire.ticket import open_ticket

TOKEN = "t" * 43
MakeGate = Callable[[], Gate]


def presenting(token: object = TOKEN, place: str = "extensions", **more: object) -> dict[str, Any]:
    return {place: {EXTENSION: {"ticket": token, **more}}}


@pytest.fixture
def gate(tmp_path: Path) -> MakeGate:
    """Gates of processes that were all started with one ticket."""
    path = tmp_path / "ticket"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return lambda: Gate(open_ticket(str(path)))


def refused(gate: Gate, capabilities: dict[str, Any], *, probe: bool = False) -> Error:
    with pytest.raises(Error) as caught:
        gate.admit(capabilities, probe=probe)
    assert caught.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
    assert caught.value.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return caught.value


@pytest.mark.parametrize("place", ["extensions", "experimental"])
def test_the_token_is_taken_from_either_place(gate: MakeGate, place: str) -> None:
    gate().admit(presenting(place=place))


def test_the_first_place_that_holds_a_ticket_counts(gate: MakeGate) -> None:
    one = gate()
    refused(one, {**presenting("x" * 43), **presenting(place="experimental")})
    one.admit({"extensions": {EXTENSION: {}}, **presenting(place="experimental")})


@pytest.mark.parametrize(
    "capabilities",
    [{}, presenting(""), presenting(TOKEN[1:]), presenting(TOKEN + "t"), presenting(3), {"extensions": []}],
    ids=str,
)
def test_whoever_does_not_present_it_is_refused_and_ends_the_process(
    gate: MakeGate, capabilities: dict[str, Any]
) -> None:
    assert refused(gate(), capabilities).exit_status == EX_NOPERM


def test_without_a_ticket_everybody_is_refused() -> None:
    assert refused(Gate(None), presenting()).exit_status == EX_NOPERM


def test_a_refusal_tells_what_of_this_system_is_in_the_way_and_nothing_else(gate: MakeGate) -> None:
    """The harness would look for its own mistake otherwise; a stranger learns nothing by it."""
    assert " (here " not in str(refused(Gate(None), presenting()))
    assert " (here " not in str(refused(gate(), presenting("x" * 43)))
    assert str(refused(Gate(None, "the ticket cannot be opened"), {})).endswith(" (here the ticket cannot be opened)")
    one = gate()
    one._ticket.close()  # type: ignore[union-attr] - as a disk that is gone leaves it
    assert " (here the ticket's file cannot be locked or emptied: " in str(refused(one, presenting()))


def test_a_probe_claims_nothing_and_a_request_claims_it_from_all_others(gate: MakeGate) -> None:
    one, two, three = gate(), gate(), gate()
    one.admit(presenting(), probe=True)
    assert not one.has_served
    two.admit(presenting(), probe=True)
    two.admit(presenting())
    assert two.has_served
    assert refused(one, presenting()).exit_status == EX_NOPERM
    refused(three, presenting(), probe=True)
    two.admit(presenting(), probe=True)
    two.admit(presenting())


def test_a_refused_probe_leaves_time_for_one_more_request(gate: MakeGate) -> None:
    one = gate()
    assert refused(one, {}, probe=True).exit_status is None
    assert refused(one, {}, probe=True).exit_status == EX_NOPERM
    other = gate()
    assert refused(other, {}, probe=True).exit_status is None
    assert refused(other, {}).exit_status == EX_NOPERM


def test_a_refused_request_leaves_no_time_for_a_probe(gate: MakeGate) -> None:
    one = gate()
    refused(one, {})
    assert refused(one, {}, probe=True).exit_status == EX_NOPERM


def test_once_the_harness_was_served_a_refusal_is_just_one(gate: MakeGate) -> None:
    one = gate()
    one.admit(presenting())
    assert refused(one, {}).exit_status is None
    assert refused(one, {}, probe=True).exit_status is None
    assert refused(one, presenting("x" * 43)).exit_status is None
    one.admit(presenting())


def test_the_default_run_is_wanted_unless_it_is_declined() -> None:
    assert wants_default_run({}) is True
    assert wants_default_run(presenting()) is True
    assert wants_default_run(presenting(default_run=True)) is True
    assert wants_default_run(presenting(default_run=False)) is False
    assert wants_default_run(presenting(place="experimental", default_run=False)) is False


@pytest.mark.parametrize("said", [None, 0, 1, "false", []])
def test_what_is_neither_yes_nor_no_is_an_error(said: object) -> None:
    with pytest.raises(Error) as caught:
        wants_default_run(presenting(default_run=said))
    assert caught.value.code == INVALID_PARAMS
