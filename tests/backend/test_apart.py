"""Where the disk does not tell upper from lower case, an identity's directory is no other's."""

from pathlib import Path

import pytest
from tests.support.folding import simulated

from memory_sidecar.backend.apart import check_apart
from memory_sidecar.backend.opened import BackendError


def test_nothing_yet_and_a_directory_that_is_spelt_so_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(simulated(tmp_path, monkeypatch))
    check_apart(place, "Agent")
    (tmp_path / "Agent").mkdir()
    check_apart(place, "Agent")
    check_apart(place, "1")  # no letter that could be in another case


def test_the_directory_of_another_spelling_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(simulated(tmp_path, monkeypatch))
    (tmp_path / "Agent").mkdir()
    (tmp_path / "unrelated").mkdir()
    with pytest.raises(BackendError, match="of the same letters in another case") as refused:
        check_apart(place, "aGENT")
    assert refused.value.remedy == "name identities that differ in more than case"


def test_where_the_disk_tells_them_apart_both_are_good(tmp_path: Path) -> None:
    for name in ("Agent", "aGENT"):
        (tmp_path / name).mkdir()
    if len(list(tmp_path.iterdir())) == 2:
        for name in ("Agent", "aGENT"):
            check_apart(str(tmp_path), name)
    (tmp_path / "bOT").mkdir()
    if not (tmp_path / "Bot").exists():
        check_apart(str(tmp_path), "Bot")


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "Agent").mkdir()
    for name, target in (("there", tmp_path / "Agent"), ("nowhere", tmp_path / "none")):
        (tmp_path / name).symlink_to(target)
        with pytest.raises(BackendError, match="is a link"):
            check_apart(str(tmp_path), name)
