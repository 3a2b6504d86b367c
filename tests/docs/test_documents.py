"""What the documents say can be done: links lead somewhere, commands exist, and the programs of the README run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sidecar import ROOT, environment

from memory_sidecar.cli import COMMANDS

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")])
README = (ROOT / "README.md").read_text()
documents = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def anchors(path: Path) -> set[str]:
    """The names of a document's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.*)$", path.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@documents
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith(("https:", "http:", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        linked = path.parent / name if name else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@documents
def test_what_a_restored_bucket_means_is_told_in_one_place(path: Path) -> None:
    """Whoever says something about it links the table that the tests try, and does not say it in other words."""
    told_there = ("jetstream.md", "CHANGELOG.md")
    for paragraph in path.read_text().split("\n\n"):
        if re.search(r"bucket[^.]*\brestored?\b|\brestored? [^.]*bucket", paragraph) and path.name not in told_there:
            assert "#a-bucket-that-is-restored" in paragraph, paragraph


def shell(path: Path) -> list[list[str]]:
    """The commands of a document that a reader would paste: what stands in backquotes, and after a prompt."""
    text = path.read_text()
    found = re.findall(r"`((?:make|memory-sidecar|\.venv/bin/\S+) [^`\n]*)`", text) + re.findall(r"(?m)^\$ (.*)$", text)
    return [shlex.split(command.rstrip("\\"), comments=True) for command in found if command.count("'") % 2 == 0]


@documents
def test_every_command_exists(path: Path) -> None:
    targets = set(re.findall(r"(?m)^([a-z0-9./-]+):", (ROOT / "Makefile").read_text().replace("$(VENV)", ".venv")))
    for words in shell(path):
        match [word.removeprefix(".venv/bin/") for word in words]:
            case ["make", target, *_] if "=" not in target:
                assert target in targets, words
            case ["memory-sidecar", command, *_] if command.isalpha():
                assert command in COMMANDS, words
            case ["python" | "pytest", *rest]:
                assert all((ROOT / word.partition("::")[0]).exists() for word in rest if "/" in word), words


@pytest.mark.parametrize("program", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_the_programs_of_the_readme_run(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert '{"memories":[' in done.stdout


def test_the_readme_shows_what_the_smallest_harness_prints(tmp_path: Path) -> None:
    printed = re.search(r"It prints, the first time:\n\n```\n(.*?)```", README, re.DOTALL)
    smallest = (ROOT / "examples" / "smallest.py").read_text()
    assert smallest.partition("\n\n")[2] in README
    done = subprocess.run(
        [sys.executable, "-c", smallest], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert printed is not None
    assert done.stdout == printed[1]


def test_the_readme_stays_short() -> None:
    assert len(README.splitlines()) <= 150


def test_each_error_of_the_log_is_told_as_one() -> None:
    """The row of the table begins as the events do."""
    row = re.findall(r"(?m)^\| error \| (.*) \|$", (ROOT / "docs" / "telemetry.md").read_text())[0]
    told = {one.partition(",")[0] for one in row.split("; ")}
    sources = "\n".join(path.read_text() for path in (ROOT / "sidecar").rglob("*.py"))
    events = set(re.findall(r"\blog\.error\(\s*\"([^\":]*)", sources))
    assert {event for event in events if "%s" not in event} == told
