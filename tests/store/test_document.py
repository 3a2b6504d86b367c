"""A note as bytes: written and read here, by hand, and by the Go implementation."""

import re
import sys
from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from memory_sidecar.store import document as module
from memory_sidecar.store.contract import Entry
from memory_sidecar.store.document import (
    HEADER_BYTES,
    check_text,
    other_lines,
    parse,
    parse_description,
    restored,
    serialize,
)
from memory_sidecar.store.errors import InvalidError, UnreadableError
from memory_sidecar.store.rules import (
    MAX_CONTENT_BYTES,
    MAX_DESCRIPTION,
    MAX_ENTRY_BYTES,
    normalize_description,
)
from memory_sidecar.testing.texts import CONTENTS, DESCRIPTIONS

TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=80)
LOOKS = st.one_of(
    TEXT,
    st.sampled_from(DESCRIPTIONS),
    st.text(alphabet="aYy nNoO~0123456789.:-#'\"\\{}[]&*!|>%@`,?=<_+eExX/ \t", max_size=30),
    st.from_regex(r"[A-Za-z][A-Za-z0-9 ,.;()/_+=*!?&%-]{0,40}", fullmatch=True),
    st.sampled_from(["yes", "No", "ON", "off", "True", "false", "null", "Null", "y", "N", "nan", "inf", "e1", "x"]),
)


def legal(description: str) -> str | None:
    try:
        return normalize_description(description)
    except InvalidError:
        return None


@pytest.fixture(params=["libyaml", "pure Python"])
def either_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML with its C library and without, as it is on some systems."""
    if request.param == "pure Python":
        monkeypatch.delattr(yaml, "CBaseLoader", raising=False)


# Round trips


@given(LOOKS, st.one_of(TEXT, st.sampled_from(CONTENTS)))
def test_what_is_written_reads_the_same(description: str, content: str) -> None:
    line = legal(description)
    if line is not None:
        assert parse(serialize(line, content)) == Entry(line, content)


@pytest.mark.parametrize("description", DESCRIPTIONS)
@pytest.mark.usefixtures("either_loader")
def test_descriptions_of_every_look(description: str) -> None:
    for content in ("", "text", "---\n", "\n\n"):
        assert parse(serialize(description, content)) == Entry(description, content)


@given(LOOKS)
def test_the_header_is_yaml_that_other_readers_take_as_the_same_text(description: str) -> None:
    line = legal(description)
    if line is None:
        return
    header = re.fullmatch(r"---\n(.*\n)---\n\n", serialize(line, "").decode(), re.DOTALL)
    assert header is not None
    # With types resolved, as YAML 1.1 does it; one line, so that no reader folds it.
    assert yaml.safe_load(header[1]) == {"description": line}
    assert header[1].count("\n") == 1


QUOTED = st.builds(
    lambda quote, text, end: quote + text + end,
    st.sampled_from(["'", '"']),
    st.one_of(
        TEXT,
        st.text(alphabet="ab  '\"\\#:-\t\x85\xa0\u2028\ufeff\ufffe\ue000\u0301é—🐄", max_size=12),
        st.sampled_from(DESCRIPTIONS).map(lambda text: text.replace("'", "''")),
    ),
    st.sampled_from(["'", '"', "' ", "' # why", ""]),
)


@given(
    st.one_of(LOOKS, QUOTED, st.from_regex(r"[A-Za-z][ -~]{0,30}", fullmatch=True)),
    st.sampled_from(
        ["\n---\n\nbody", "\n---\nbody", "\n---\n", "\n---", "\ntitle: other\n---\n\nbody", "\n---\n\n\n\xff"]
    ),
    st.integers(0, 60),
)
@example("a #b", "\n---\n\nbody", 60)
@example("a  b", "\n---\n\nbody", 60)
@example("a ", "\n---\n\nbody", 60)
@example("a: b", "\n---\n\nbody", 60)
@example("'a''b'", "\n---\n\nbody", 60)
@example("'a' 'b'", "\n---\n\nbody", 60)
@example("'a'b'", "\n---\n\nbody", 60)
@example("'  a  b '", "\n---\nbody", 60)
@example("'a\u2028---\u2028b'", "\n---\n\nbody", 60)
@example('"a\\"', "\n---\n\nbody", 60)
@example("''", "\n---\n\nbody", 60)
@example("'", "\n---\n\nbody", 60)
def test_the_fast_way_of_reading_equals_the_library(value: str, rest: str, length: int) -> None:
    document = f"---\ndescription: {value}{rest}".encode()
    prefix = document[:length]

    def read() -> tuple[object, ...]:
        return parse(document), parse_description(document, len(document)), parse_description(prefix, len(document))

    fast = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_usual_header", lambda _document: None)
        assert fast[:2] == read()[:2]
        # Where the one asks for more, what the other says of the prefix holds for the whole.
        assert {fast[2], read()[2]} <= {None, fast[1]}


@given(LOOKS, st.one_of(TEXT, st.sampled_from(CONTENTS)), st.integers(0, 200))
def test_the_description_in_any_prefix_is_that_of_the_whole(description: str, content: str, length: int) -> None:
    line = legal(description)
    if line is not None:
        written = serialize(line, content)
        assert parse_description(written[:length], len(written)) in (None, line)
        assert parse_description(written[:HEADER_BYTES], len(written)) == line


HAND_WRITTEN = [
    b"",
    b"\n",
    b"text",
    b"-",
    b"--",
    b"---",
    b"---\n",
    b"---\n---\n",
    b"---\n---",
    b"---\n\n---\n\nbody",
    b"---\ndescription: words\n---",
    b"---\ndescription: words\n---\nbody",
    b"---\ndescription: words\n---\n\n\nbody",
    b"---\ndescription: words\n---and more\n---\n\nbody",
    b"---\ndescription: words\n----\n---\n\nbody",
    b"---\ndescription: 'words'\n--- \t\n\nbody",
    b"---\ndescription: a: b\n---\n\nbody",
    b"---\ndescription: |\n  two\n  lines\n---\n\nbody",
    b"---\ndescription: >-\n  fol\n  ded\n---\n\nbody",
    b"---\ntitle: other\ndescription: words\ntags: [a, b]\n---\n\nbody",
    b"---\ntitle: other\n---\n\nbody",
    b"---\ndescription: [a, list]\n---\n\nbody",
    b"---\n- a list\n---\n\nbody",
    b"---\ndescription:\n---\n\nbody",
    b'---\ndescription: "open\n---\n\nbody',
    b"---\n\tdescription: tab\n---\n\nbody",
    b"---\nno end",
    b"---\r\ndescription: words\r\n---\r\n\r\nbody\r\n",
    b"\xef\xbb\xbf---\ndescription: words\n---\n\nbody",
    b"\xef\xbb\xbf---\r\ndescription: 'a: b'\r\n---\r\n\r\nbody\r\n",
    b"\xef\xbb\xbfbody",
    b"\xef\xbb\xbf",
    "---\ndescription: ünïcödé 🐄\n---\n\nbody".encode(),
    "ünïcödé 🐄".encode(),
    b"\n---\ndescription: words\n---\n\nbody",
    b"# Title\n\n---\n\ntext\n\n---\n",
]


@pytest.mark.parametrize("document", HAND_WRITTEN)
@pytest.mark.usefixtures("either_loader")
def test_every_prefix_of_a_hand_written_note_tells_the_description_or_asks_for_more(document: bytes) -> None:
    whole = parse(document).description
    for length in range(len(document) + 1):
        assert parse_description(document[:length], len(document)) in (None, whole), length
    assert parse_description(document, len(document)) == whole


@given(
    st.lists(
        st.sampled_from(
            [
                b"---",
                b"\n",
                b"\r\n",
                b"description: ",
                b"words",
                b"'",
                b'"',
                b"x: y",
                b"\xef\xbb\xbf",
                b" ",
                b"#",
                b"\xc3\xa9",
            ]
        ),
        max_size=14,
    ),
    st.integers(0, 80),
)
@example([b"---", b"\n", b"description: ", b"words", b"\n", b"---", b"words"], 26)
def test_every_prefix_of_anything_tells_the_description_or_asks_for_more(parts: list[bytes], length: int) -> None:
    document = b"".join(parts)
    assert parse_description(document[:length], len(document)) in (None, parse(document).description)


@pytest.mark.parametrize("cut", range(-4, 5))
def test_a_note_whose_header_ends_about_where_a_listing_stops_reading(cut: int) -> None:
    """Two lines of a long header that look like its end: what follows the first decides."""
    fixed = b"---\ndescription: words\n# "
    for tail in (b"\n---\n\nbody", b"\n---x\n---\n\nbody", b"\n---\n---\n"):
        document = fixed + b"c" * (HEADER_BYTES - len(fixed) - 4 + cut) + tail
        assert parse_description(document[:HEADER_BYTES], len(document)) in (None, parse(document).description)


# By hand


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    ("document", "entry"),
    [
        (b"just text\n", Entry("", "just text\n")),
        (b"", Entry("", "")),
        (b"\xef\xbb\xbfjust text", Entry("", "just text")),
        (b"---\r\ndescription: dos words\r\n---\r\n\r\nbody\r\nline\r\n", Entry("dos words", "body\r\nline\r\n")),
        (b"---\r\ndescription: 'a: b'\r\n---\r\nbody", Entry("a: b", "body")),
        (b"\xef\xbb\xbf---\r\ndescription: both\r\n---\r\n\r\nbody", Entry("both", "body")),
        (b"---\ndescription: words\n---", Entry("words", "")),
        (b"---\n\n---\nbody", Entry("", "body")),
        (b"---\ndescription: words\n---\nno blank line", Entry("words", "no blank line")),
        (b"---  \ndescription: words\n---\t\n\nbody", Entry("words", "body")),
        (
            b"---\n# a comment\ndescription: words # another\n---\n\nbody",
            Entry("words", "body", "---\n# a comment\ndescription: words # another\n---\n\n"),
        ),
        (
            b"---\ntitle: x\ndescription: words\n---\n\nbody",
            Entry("words", "body", "---\ntitle: x\ndescription: words\n---\n\n"),
        ),
        (b"---\ndescription: |\n  two\n  lines\n---\n\nbody", Entry("two lines", "body")),
        (b"---\ndescription: 2024-01-01\n---\n\nbody", Entry("2024-01-01", "body")),
        (b"---\ndescription: yes\n---\n\nbody", Entry("yes", "body")),
        (b"---\ndescription: null\n---\n\nbody", Entry("null", "body")),
        (b"---\ndescription: 0x1F\n---\n\nbody", Entry("0x1F", "body")),
        (b"---\ndescription: !!int 12\n---\n\nbody", Entry("12", "body")),
        (b'---\ndescription: "esc \\e[31m and \\n"\n---\n\nbody', Entry("esc [31m and", "body")),
        (b"---\ndescription:   wide    spaces  \n---\n\nbody", Entry("wide spaces", "body")),
        (b"---\ndescription: " + b"x" * 600 + b"\n---\n\nbody", Entry("x" * 600, "body")),
        (b"---\ndescription: 'a: " + b"x" * 600 + b"'\n---\n\nbody", Entry("a: " + "x" * 600, "body")),
    ],
)
def test_hand_edited_notes(document: bytes, entry: Entry) -> None:
    found = parse(document)
    assert found[:2] == entry[:2]
    assert other_lines(found.header).strip() == other_lines(entry.header).strip()
    assert restored(found) == document


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    "document",
    [
        b"---\n- description: in a list\n---\n\nbody",
        b"---\n? [a, {b: c}]\n: d\n---\n\nbody",
        b"---\nno end of the header",
        b"--- # comment\ndescription: words\n---\n\nbody",
        b" ---\ndescription: words\n---\n\nbody",
        b"\n---\ndescription: words\n---\n\nbody",
        b"# Markdown\n\n---\n\nwith a rule\n\n---\n",
    ],
)
def test_without_a_header_all_of_it_is_content(document: bytes) -> None:
    assert parse(document) == Entry("", document.decode())


@pytest.mark.usefixtures("either_loader")
def test_half_a_surrogate_pair_in_a_header_never_reaches_a_reader() -> None:
    found = parse(b'---\ndescription: "half \\ud83d pair"\n---\n\nbody')
    found.description.encode()
    assert found.content.endswith("body")


@pytest.mark.usefixtures("either_loader")
def test_an_alias_bomb_in_a_header_costs_nothing() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 40))
    document = f"---\nl0: &l0 x\n{levels}description: words\n---\n\nbody".encode()
    started = datetime.now(UTC)
    assert parse(document)[:2] == ("words", "body")
    assert (datetime.now(UTC) - started).total_seconds() < 5


@given(st.binary(max_size=200))
@example(b"---\ndescription: \xff\n---\n\nbody")
@example(b"---\ndescription: words\n---\n\n\xff")
def test_any_bytes_are_an_entry_or_unreadable(raw: bytes) -> None:
    try:
        entry = parse(raw)
    except UnreadableError as error:
        with pytest.raises(UnicodeDecodeError):
            raw.decode()
        assert "UTF-8" in str(error)  # noqa: PT017 - both ways out are right
    else:
        entry.description.encode()
        assert raw.decode().endswith(entry.content)


def test_size_limit_of_a_document() -> None:
    check_text(b"x" * MAX_ENTRY_BYTES)
    assert parse(b"x" * MAX_ENTRY_BYTES).content == "x" * MAX_ENTRY_BYTES
    for look in (check_text, parse):
        with pytest.raises(UnreadableError, match="larger"):
            look(b"x" * (MAX_ENTRY_BYTES + 1))
    with pytest.raises(UnreadableError, match="larger"):
        parse_description(b"x", MAX_ENTRY_BYTES + 1)


def test_a_character_cut_by_the_end_of_the_prefix_is_no_damage() -> None:
    document = ("x" + "🐄" * 2000).encode()
    for length in range(HEADER_BYTES - 8, HEADER_BYTES):
        assert parse_description(document[:length], len(document)) == ""
    with pytest.raises(UnreadableError):
        parse_description(b"x\xff" + document, len(document) + 2)
    with pytest.raises(UnreadableError):
        parse_description(document[:-1], len(document) - 1)


# Headers of other programs


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    ("value", "description"),
    [
        (b"a: b: c", "a: b: c"),
        (b"'open", "'open"),
        (b"*nowhere", "*nowhere"),
        (b"\x07bell", "bell"),
        (b"[" * 60000, "[" * 60000),
        (b"{a: " * 15000, ("{a: " * 15000).strip()),
        (b'"\\UFFFFFFFF"', '"\\UFFFFFFFF"'),
        (b'"\\U00110000"', '"\\U00110000"'),
        (b"? words", "? words"),
        (b"?", "?"),
        (b">\n  two: a: b\n  lines: [", "two: a: b lines: ["),
        (b"use when: asked", "use when: asked"),
    ],
)
def test_a_line_that_no_yaml_reader_takes_is_read_as_the_text_that_stands_there(value: bytes, description: str) -> None:
    assert parse(b"---\ndescription: " + value + b"\n---\n\nbody")[:2] == (description, "body")


OTHERS = [
    # (header, description, what else it holds)
    ("---\nname: A\ndescription: B\ntype: feedback\n---\n", "B", "name: A\ntype: feedback\n"),
    ("---\nname: A\ndescription: B\ntype: feedback\n---\n\n", "B", "name: A\ntype: feedback\n"),
    ("---\r\ntitle: A\r\ndescription: 'B'\r\n---\r\n\r\n", "B", "title: A\r\n"),
    ("\ufeff---\ntitle: A\ndescription: B\n---\n\n", "B", "title: A\n"),
    ("--- \n# mine\ndescription: B # why\n---\t\n\n", "B", "# mine\n # why\n"),
    ("---\ntitle: A\n---\n\n", "", "title: A\n"),
    ("---\n# only a comment\n---\n", "", "# only a comment\n"),
    ("---\n  title: A\n  tags: [a, b]\n---\n", "", "  title: A\n  tags: [a, b]\n"),
    ("---\n{title: A, description: B}\n---\n", "B", "{title: A, description: B}\n"),
    ("---\n{title: A}\n---\n", "", "{title: A}\n"),
    ("---\ndescription: |\n  B\n  C\ntitle: A\n---\n\n", "B C", "title: A\n"),
    ("---\ndescription: >-\n  B\n  C\n\n# then\ntitle: A\n---\n\n", "B C", "# then\ntitle: A\n"),
    ("---\ndescription: B\n  C\ntitle: A\n---\n\n", "B C", "title: A\n"),
    ("---\ndescription:\ntitle: A\n---\n\n", "", "title: A\n"),
    ("---\ntitle: A\ndescription:\n---\n\n", "", "title: A\n"),
    ("---\nsaid: &s B\ndescription: *s\n---\n\n", "B", "said: &s B\n"),
    ('---\n"description": B\ntitle: "\\ud83d\\ude00"\n---\n\n', "B", 'title: "\\ud83d\\ude00"\n'),
    ('---\ndescription: "\\ud83d\\ude00 B"\ntitle: A\n---\n\n', "\U0001f600 B", "title: A\n"),
    ("---\ndescription: C:\\ud83d\\ude00\ntitle: A\n---\n\n", "C:\\ud83d\\ude00", "title: A\n"),
    ("---\ntitle: \x92\ufffe\ndescription: B\n---\n\n", "B", "title: \x92\ufffe\n"),
    # No YAML reader takes these.
    ("---\ntitle: A: B\ndescription: C: D\n---\n\n", "C: D", "title: A: B\n"),
    ("---\ntitle: {{title}}: x\n---\n\n", "", "title: {{title}}: x\n"),
    ("---\ntitle: A\ntitle: A\ndescription: 'B: C'\n---\n\n", "B: C", "title: A\ntitle: A\n"),
    ("---\ntitle: A\n\tindented: B\n---\n\n", "", "title: A\n\tindented: B\n"),
]


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(("header", "description", "others"), OTHERS)
@pytest.mark.parametrize("content", ["body", "", "\nbody", "\r\nbody", "---\n"])
def test_a_header_of_another_program_is_kept_as_it_stands(
    header: str, description: str, others: str, content: str
) -> None:
    found = parse(header.encode() + b"body")
    assert found == Entry(description, "body", header)
    assert other_lines(found.header) == others
    # Copying back changes no byte; another content changes nothing in front of it.
    if description:
        assert serialize(description, "body", header) == (header + "body").encode()
        assert serialize(description, content, header).decode().startswith(header)
    for new in ("B", "words", "it's: 1", "\U0001f600", "2024-01-01", "? a, b]}", "- x"):
        written = serialize(new, content, header)
        again = parse(written)
        assert again[:2] == (new, content)
        assert other_lines(again.header) == others or "{" in others
        # Each line that was there is there, in its order.
        lines = iter(written.decode().splitlines(keepends=True))
        assert all(line in lines for line in others.splitlines(keepends=True) if "{" not in line and " # " not in line)
        assert ("\r\n" in header) == ("\r\n" in again.header)
        assert serialize(new, content, again.header) == written


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    "lines",
    [
        "description: [a, b]\n",
        "description: {a: b}\n",
        "description:\n  - a\n  - b\n",
        "description:\n  a: b\n",
        "description: []\n",
        "{description: [a]}\n",
        "tags: [z]\ndescription: [a, b]\n",
        "tags: &t [z]\ndescription: *t\n",
        "description: A\ndescription: B\n",
    ],
)
def test_a_description_that_is_no_text_is_shown_and_never_replaced(lines: str) -> None:
    header = f"---\n{lines}---\n"
    found = parse(f"{header}x".encode())
    assert found == Entry("", "x", header)
    assert other_lines(found.header) == lines
    with pytest.raises(InvalidError, match="header lines of another program"):
        serialize("words", "x", found.header)


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    "header",
    [
        "---\ndescription: [not, text]\n---\n",
        "---\ndescription: {a: b}\n---\n",
        "---\ndescription: A\ndescription: B\n---\n",
        "---\ndescription: &d A\nother: *d\n---\n",
        "---\ntitle: A\n---\nand content",
        "title: A\n",
        "prose",
        "---\nprose\n---\n",
        "---\n- a list\n---\n",
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(header: str) -> None:
    with pytest.raises(InvalidError, match="header"):
        serialize("words", "body", header)


def test_a_header_and_a_content_that_do_not_fit_are_refused_with_what_fits() -> None:
    header = "---\nname: " + "x" * 10_000 + "\ndescription: B\n---\n\n"
    room = MAX_ENTRY_BYTES - len(header)
    assert len(serialize("B", "x" * room, header)) == MAX_ENTRY_BYTES
    with pytest.raises(InvalidError, match=f"{room} bytes"):
        serialize("B", "x" * (room + 1), header)
    with pytest.raises(InvalidError, match="another key"):
        serialize("B" * 200, "x", "---\nname: " + "x" * (MAX_ENTRY_BYTES - 100) + "\ndescription: B\n---\n\n")


# By the Go implementation: yaml.v3's styles of quoting, four spaces of indent, its folding and escapes


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    ("header", "description"),
    [
        ("description: plain words", "plain words"),
        ('description: "2024-01-01"', "2024-01-01"),
        ('description: "yes"', "yes"),
        ('description: "null"', "null"),
        ('description: "123"', "123"),
        ('description: "~"', "~"),
        ("description: 'a: b'", "a: b"),
        ("description: '- item'", "- item"),
        ("description: '# heading'", "# heading"),
        ("description: 'it''s: quoted'", "it's: quoted"),
        ("description: it's fine", "it's fine"),
        ("description: '\"both\" and '' too'", '"both" and \' too'),
        ('description: "tab\\tand \\"quote\\""', 'tab and "quote"'),
        # A byte order mark is no text; we keep none, and read those of others as a space.
        ('description: "bom \\uFEFF inside"', "bom inside"),
        ("description: emoji 🐄 and ünïcödé", "emoji 🐄 and ünïcödé"),
        ('description: "\\U0001F404 cow"', "🐄 cow"),
        ("description: |-\n    literal\n    lines", "literal lines"),
        ("description: '@at'", "@at"),
        ("description: '`tick'", "`tick"),
        ("description: '{a: b}'", "{a: b}"),
        ("description: " + "long words " * 40 + "end", "long words " * 40 + "end"),
        ("description: '" + "a: long " * 40 + "end'", "a: long " * 40 + "end"),
    ],
)
def test_notes_of_the_go_implementation(header: str, description: str) -> None:
    document = f"---\n{header}\n---\n\nThe body.\n".encode()
    assert parse(document)[:2] == (description, "The body.\n")
    assert parse_description(document[:HEADER_BYTES], len(document)) == description


# What makes it fast, and what other readers rely on


def test_plain_words_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    for description in ("x", "Plain words, with (some) signs; 100%!", "a" * 500):
        document = serialize(description, "text")
        assert document == f"---\ndescription: {description}\n---\n\ntext".encode()
        assert parse(document) == Entry(description, "text")
        assert parse_description(document[:HEADER_BYTES], len(document)) == description
    assert serialize("it's a: b", "") == b"---\ndescription: 'it''s a: b'\n---\n\n"


@pytest.mark.parametrize("word", ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "YES", "N", "Null"])
def test_what_a_reader_may_take_for_something_else_is_quoted(word: str) -> None:
    document = serialize(word, "text")
    assert document == f"---\ndescription: '{word}'\n---\n\ntext".encode()
    assert parse(document) == Entry(word, "text")


def test_a_header_is_one_line_however_long() -> None:
    description = "a: b " * 99 + "c"
    assert serialize(description, "") == f"---\ndescription: '{description}'\n---\n\n".encode()


def test_the_c_library_reads_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(yaml, "CBaseLoader"):
        pytest.skip("PyYAML without its C library")

    monkeypatch.setattr(yaml, "BaseLoader", None, raising=False)
    assert parse(serialize("a: b", "")).description == "a: b"


def test_the_header_of_a_long_note_says_enough() -> None:
    assert HEADER_BYTES >= 2 * 4 * MAX_DESCRIPTION + 64
    for description in ("plain", "a: b", "\U0001f404: " * 100):
        document = serialize(description.strip(), "x" * MAX_CONTENT_BYTES)
        assert parse_description(document[:HEADER_BYTES], len(document)) == description.strip()
        assert parse_description(document[: document.index(b"\n\n") + 3], len(document)) == description.strip()


def test_what_cannot_become_a_header_needs_no_more() -> None:
    for text in (b"--x", b"--", b"-x", b"x", b"\xef\xbb\xbf--x"):
        assert parse_description(text, 5000) == (None if text == b"--" else "")


def test_damage_before_the_end_of_the_prefix_is_noticed() -> None:
    for text in (b"xx\xffyyy", b"xx\xffyyyyyyyy"):
        with pytest.raises(UnreadableError):
            parse_description(text, 5000)
    for cut in (b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x90"):
        assert parse_description(b"xx" + cut, 5000) == ""


@pytest.mark.parametrize("value", [b"a" * 499 + b" b", b"'a" + b"a" * 498 + b" b'"])
def test_a_description_too_long_to_be_written_is_read_whole_and_listed_as_cut(value: bytes) -> None:
    written = b"---\ndescription: " + value + b"\n---\n"
    assert parse(written).description == value.decode().strip("'")
    listed = parse_description(written, len(written))
    assert listed is not None
    assert listed == value.decode().strip("'")[:500] + "…"
    with pytest.raises(InvalidError):
        normalize_description(listed)


def test_what_cannot_be_read_is_listed_as_such() -> None:
    assert module.UNREADABLE == "(unreadable)"


@pytest.mark.parametrize("lines", ["?", "? a", "? a\n: b", "  ? a\n  : b", "? a\n: b\nc: d"])
def test_a_description_is_put_before_a_name_that_is_marked_as_one(lines: str) -> None:
    header = f"---\n{lines}\n---\n\n"
    stored = serialize("About it", "body", header)
    assert parse(stored)[:2] == ("About it", "body")
    assert other_lines(parse(stored).header) == f"{lines}\n"
    kept = yaml.load(stored.split(b"---\n")[1], yaml.BaseLoader)
    assert kept.pop("description") == "About it"
    assert kept == yaml.load(lines, yaml.BaseLoader)


@pytest.mark.parametrize(
    "lines", ["? description", "? description\n? b\n: w", "? description\n? b c\n:", "a: b\n? description"]
)
def test_a_description_marked_as_a_name_without_a_value_is_not_written_into_the_name(lines: str) -> None:
    with pytest.raises(InvalidError):
        serialize("About it", "body", f"---\n{lines}\n---\n\n")
