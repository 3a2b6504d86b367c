"""The benchmark measures what it says: its own contestants, its ratios, its races and its picture."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from bench import contestants, growth, launch, measure, quoted, races, report
from bench.measure import Case
from tests.support.sidecar import ROOT


def test_the_product_and_the_floor_are_measured_in_every_round(tmp_path: Path) -> None:
    said: list[str] = []
    racing = [contestants.SidecarOnFiles(), contestants.Floor()]
    taken = measure.rounds(Case(3, 2048), racing, 2, 2, str(tmp_path), said.append)
    assert [set(this) for this in taken] == [{"sidecar", "floor"}] * 2
    for this in taken:
        ours = this["sidecar"]
        assert set(ours) == set(measure.OPERATIONS)
        assert all(value > 0 for values in ours.values() for value in values)
        assert len(ours["list"]) == 2
        assert "list" not in this["floor"]
    assert not any("left out" in word for word in said), said


def test_under_the_guard_every_acknowledged_write_survives_every_race(tmp_path: Path) -> None:
    found = races.race([contestants.GuardedFiles()], 10, 1, str(tmp_path), lambda _: None)
    assert found == {
        "sidecar-guard": {name: races.Survival(10, 10) for name in ("pipelined", "two processes", "one note")}
    }


def results(**rounds: list[float]) -> dict[str, Any]:
    taken = [
        {who: {"ready": [value]} for who, value in zip(rounds, values, strict=True)}
        for values in zip(*rounds.values(), strict=True)
    ]
    case = {"name": "1024 x 2 KiB", "entries": 1024, "size": 2048, "rounds": taken}
    return {
        "labels": {who: f"the {who} & co" for who in rounds},
        "remarks": {},
        "cases": [case],
        "interpreter": [],
        "prompts": {},
        "throughput": {},
        "races": {},
    }


def test_a_ratio_is_taken_within_a_round_so_that_a_busy_machine_disturbs_both_sides() -> None:
    found = results(**{"sidecar": [1.0, 2.0, 10.0], "server-memory": [4.0, 8.0, 40.0]})
    assert report.ratio(found["cases"][0], "sidecar", "ready") == (0.25, 0.25, 0.25)
    assert "ready    at most  0.2  is 0.250 [0.250-0.250]  MISSED" in report.table(found)


def test_what_concurrent_runs_gain_is_judged() -> None:
    found = results(sidecar=[1.0])
    found["throughput"] = {"sidecar": {"read": {1: [10.0, 20.0], 8: [9.0, 18.0]}, "create": {1: [10.0], 8: [20.0]}}}
    told = report.table(found)
    assert "create   of 8 runs, times those of one: at least 1.5  is 2.000 [2.000-2.000]  reached" in told
    assert "read     of 8 runs, times those of one: at least 1.0  is 0.900 [0.900-0.900]  MISSED" in told


def test_every_target_is_judged() -> None:
    """Those of one case beside another contestant, and that of creates near the capacity."""
    found = results(**{"sidecar": [2.0], "sidecar-jetstream": [3.0], "server-memory": [2.0], "floor": [1.0]})
    (case,) = found["cases"]
    for operation in ("rss", "create", "read", "list"):
        for this in case["rounds"]:
            for taken in this.values():
                taken[operation] = taken["ready"]
    faster = {who: {"create": [1.0], "list": [1.0]} for who in case["rounds"][0]}
    found["cases"].append({"name": "0 x 2 KiB", "entries": 0, "size": 2048, "rounds": [faster]})
    told = report.table(found)
    judged = re.findall(r"^  (\w+) +at most +([\d.]+) +is ([\d.]+) \[[^]]+\]  (\w+)$", told, re.MULTILINE)
    assert [(operation, limit) for operation, limit, *_ in judged] == [
        *((operation, str(limit)) for operation, limit in report.TARGETS.items()),
        *(("ready", "0.4"), ("rss", "0.2"), ("create", "1.2"), ("list", "1.2")),
        *(("ready", "3.5"), ("create", "1.6"), ("read", "3.0"), ("create", "1.3")),
    ]
    assert all((verdict == "reached") == (float(is_) <= float(limit)) for _, limit, is_, verdict in judged)
    assert judged[-1][2:] == ("2.000", "MISSED")
    assert judged[7][2:] == ("1.000", "reached")


def test_growth_is_measured_on_journals_that_the_product_reads(tmp_path: Path) -> None:
    taken = growth.growth((0, 3), 1, str(tmp_path), lambda _: None)
    assert set(taken) == set(growth.KINDS)
    for by_count in taken.values():
        assert all(set(operations) == set(growth.OPERATIONS) for operations in by_count.values())
    measured = {**results(sidecar=[1.0]), "growth": taken}
    shown = report.table(measured)
    assert all(f"Cost by the number of {kind} in the state directory" in shown for kind in growth.KINDS)


def test_a_missed_target_says_so() -> None:
    found = results(**{"sidecar": [1.0, 1.0], "server-memory": [2.0, 2.0]})
    assert "is 0.500 [0.500-0.500]  MISSED" in report.table(found)


def test_a_peer_without_a_number_has_no_ratio() -> None:
    assert report.ratio(results(sidecar=[1.0])["cases"][0], "sidecar", "ready") is None


def test_the_picture_is_well_formed_whoever_took_part() -> None:
    for found in (results(sidecar=[1.0]), results(**{"sidecar": [1.0, 2.0], "server-memory": [2.0, 3.0]})):
        assert ET.fromstring(report.picture(found)).tag.endswith("svg")


def test_the_documents_quote_what_was_measured() -> None:
    taken = quoted.measurements()
    quoting = (ROOT / "docs" / "performance.md").read_text()
    assert quoted.quote(quoting, taken) == quoting
    assert (ROOT / "bench/results/full.svg").read_text() == report.picture(taken[0])


def test_the_stages_of_a_launch_follow_each_other_and_fill_it(tmp_path: Path) -> None:
    who = contestants.SidecarOnFiles()
    who.seed(str(tmp_path), measure.notes(Case(2, 2048)))
    taken = launch.launches(launch.Place(who, str(tmp_path), str(ROOT)))
    ready, _ = taken.pop("ready"), taken.pop("end")
    assert ready == pytest.approx(sum(taken.values()))
    told = {stage: took for stage, took in taken.items() if stage not in ("site: venv, .pth files", "not told apart")}
    assert all(took > 0 for took in told.values()), told
