"""`list` and `show`: exact for programs, harmless for terminals, and one line when something is wrong."""

import json
import os
import signal
import subprocess

import pytest

from memory_sidecar.plain import visible

from .conftest import PROGRAM, Cli, Place, environment

HOSTILE = "\x1b]0;evil\x07 \u202eright to left\u202c \u200b\U000e0041 [red]x[/red]\r\n\ttab \x9b31m end"


def test_list_is_sorted_and_aligned(cli: Cli, place: Place) -> None:
    place.write("zebra", "ant")
    done = cli("list", *place.options)
    assert done == (0, "KEY    DESCRIPTION\nant    About ant\nzebra  About zebra\n", "")


def test_list_as_json(cli: Cli, place: Place) -> None:
    place.write("a", description="Ünusual: \U0001f404")
    assert json.loads(cli("list", "--json", *place.options).out) == {
        "memories": [{"key": "a", "description": "Ünusual: \U0001f404"}]
    }


def test_nothing_hostile_reaches_a_terminal(cli: Cli, place: Place) -> None:
    place.write("a")
    # Planted, not written through the rules.
    (place.notes / "a.md").write_bytes(f'---\ndescription: "{HOSTILE[:40]}"\n---\n\n{HOSTILE}'.encode())
    (place.notes / "b.md").write_bytes(b'---\ndescription: "\\e[31m\\u202e"\n---\n\nx')
    for command in (("list",), ("show", "a"), ("show", "b")):
        out = cli(*command, *place.options).out
        assert out == visible(out), command
        assert "\x1b" not in out
        assert "\u202e" not in out
    shown = cli("show", "a", *place.options).out
    assert r"\x1b]0;evil\x07" in shown
    assert r"\u202eright to left\u202c \u200b\U000e0041 [red]x[/red]" in shown
    assert "\n\ttab" in shown


def test_show_gives_the_content_exactly(cli: Cli, place: Place) -> None:
    place.write("a", content=HOSTILE)
    assert cli("show", "a", "--raw", *place.options, raw=True).out == HOSTILE.encode()
    shown = json.loads(cli("show", "a", "--json", *place.options).out)
    assert (shown["key"], shown["description"], shown["content"]) == ("a", "About a", HOSTILE)
    assert len(shown["revision"]) == 32


def test_show_hides_no_line_that_a_read_hands_to_the_model(cli: Cli, place: Place) -> None:
    place.write("a")
    (place.notes / "a.md").write_text("---\ndescription: ok\nnote: an order to the model\n---\n\nbody\n")
    assert "header       note: an order to the model\n" in cli("show", "a", *place.options).out


def test_show_tells_the_revision_that_saw_takes(cli: Cli, place: Place) -> None:
    place.write("a")
    lines = dict(line.split(maxsplit=1) for line in cli("show", "a", *place.options).out.split("\n\n")[0].splitlines())
    assert lines["key"] == "a"
    assert "monday" in cli("runs", "--saw", f"a@{lines['revision']}", *place.options).out


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("show", "nope"), 1, "there is no note nope; see memory-sidecar list"),
        (("show", "../a"), 64, "This key is not legal"),
        (("show", "broken"), 1, "broken.md, and mend it or move it away"),
        (("show",), 64, "see memory-sidecar show --help"),
        (("lst",), 64, "invalid choice: 'lst'"),
        (("list", "--jsn"), 64, "see memory-sidecar"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    cli: Cli, place: Place, words: tuple[str, ...], status: int, says: str
) -> None:
    place.write("a")
    (place.notes / "broken.md").write_bytes(b"---\ndescription: x\n---\n\n\xff")
    done = cli(*words, *(place.options if words[0] != "lst" else ()))
    assert (done.status, done.out) == (status, "")
    assert says in done.err
    assert len(done.err.splitlines()) <= 2


def test_reading_a_memory_that_is_not_there_makes_none(cli: Cli, place: Place) -> None:
    done = cli("list", *place.options)
    assert done.status == 78
    assert f"there is no memory at {place.notes}" in done.err
    assert not place.path.exists()
    assert "whose memory?" in cli("list").err


def test_a_memory_that_nobody_may_look_at_is_not_called_missing(cli: Cli, place: Place) -> None:
    place.path.symlink_to(place.path.name)  # may not be entered by root either
    for words in (("list",), ("export",), ("show", "a")):
        done = cli(*words, *place.options)
        assert done.status == 78
        assert "there is no memory" not in done.err
        assert f"cannot use the memory directory {place.notes}: " in done.err


def test_a_reader_that_leaves_is_no_error(place: Place) -> None:
    place.write("a", content="x" * 60000)
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [*PROGRAM, "show", "a", *place.options], stdout=writer, stderr=subprocess.PIPE, env=environment()
    ) as process:
        os.close(writer)
        assert process.communicate()[1] == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_a_terminal_without_unicode_shows_what_it_can(cli: Cli, place: Place) -> None:
    place.write("a", description="Eine Kuh \U0001f404")
    done = cli("list", *place.options, env={"PYTHONIOENCODING": "ascii"})
    assert (done.status, done.out.splitlines()[1]) == (0, r"a    Eine Kuh \U0001f404")


def test_ctrl_c_is_one_line(place: Place) -> None:
    with subprocess.Popen(
        [*PROGRAM, "import", "-", *place.options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONVERBOSE="1"),
    ) as process:
        assert process.stderr is not None
        # The last module that importing loads; then the program waits for its input.
        while b"memory_sidecar.cli.shared.transfer" not in process.stderr.readline():
            pass
        while b"import 'memory_sidecar.cli.notes.importing'" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        err = process.stderr.read().decode()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "memory-sidecar import: stopped" in err


PLANES = {"used": [0, 1, 2, 3, 14, 16], "every": range(17)}


@pytest.mark.parametrize("planes", ["used", pytest.param("every", marks=pytest.mark.long)])
def test_every_code_point_is_harmless_when_shown(planes: str) -> None:
    import unicodedata

    for start in (plane * 0x10000 + block for plane in PLANES[planes] for block in range(0, 0x10000, 0x1000)):
        text = "".join(map(chr, range(start, start + 0x1000)))
        shown = visible(text)
        assert {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} <= {"Cc"}
        assert set(shown) & {chr(point) for point in (*range(32), *range(127, 160))} <= {"\n", "\t"}
        assert "\n" not in visible(text, lines=False)
    assert visible("cat \U0001f431\ufe0f, क्ष, שלום, 日本語, é") == "cat \U0001f431, क्ष, שלום, 日本語, é"
    # One joiner belongs to a word or an emoji; several in a row hide something.
    assert visible("a\u200d\u200cb") == r"a\u200d\u200cb"


def test_notes_are_listed_by_size_and_by_age(cli: Cli, place: Place) -> None:
    place.write("small", "large")
    (place.notes / "large.md").write_bytes(b"---\ndescription: L\n---\n\n" + b"x" * 100_000)
    os.utime(place.notes / "small.md", (1_000_000_000, 1_000_000_000))
    found = json.loads(cli("list", "--sort", "size", "--json", *place.options).out)["memories"]
    assert [(note["key"], note["bytes"] > 100_000) for note in found] == [("large", True), ("small", False)]
    found = json.loads(cli("list", "--sort", "age", "--json", *place.options).out)["memories"]
    assert [note["key"] for note in found] == ["small", "large"]
    assert found[0]["written"] == "2001-09-09T01:46:40.000Z"
    table = cli("list", "--sort", "age", *place.options).out.splitlines()
    assert table[0].split() == ["WRITTEN", "(UTC)", "KEY", "DESCRIPTION"]
    assert table[1].startswith("2001-09-09 01:46:40  small")
