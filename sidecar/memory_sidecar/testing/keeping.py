"""What a store keeps: validation, texts of every look, listings, and what cannot be read."""

import random

import pytest

from ..store.authority import Store
from ..store.contract import Backend, Entry, Item
from ..store.document import UNREADABLE, serialize
from ..store.errors import (
    InvalidError,
    KeyExistsError,
    KeyNotFoundError,
    StaleError,
    UnreadableError,
)
from ..store.rules import MAX_CONTENT_BYTES, MAX_DESCRIPTION, MAX_KEY
from ..store.scope import Scope
from .subject import Call, Subject
from .texts import CONTENTS, DESCRIPTIONS, ILLEGAL_KEYS, LEGAL_KEYS

__all__ = ["KeepingContract", "Opened", "every_call", "no_path_in", "overwrite", "read_again"]


def read_again(store: Store, key: str) -> Scope:
    """A scope with authority over `key`, earned by reading."""
    scope = Scope()
    store.read(key, scope=scope)
    return scope


def overwrite(store: Store, key: str, description: str, content: str) -> None:
    """Replace what `key` holds, the way that works in either mode."""
    store.update(key, description, content, scope=read_again(store, key))


def every_call(store: Store, key: str, scope: Scope | None = None) -> dict[str, Call]:
    """One call of each method that takes a key."""
    return {
        "read": lambda: store.read(key, scope=scope),
        "create": lambda: store.create(key, "words", "text", scope=scope),
        "update": lambda: store.update(key, "words", "text", scope=scope),
        "delete": lambda: store.delete(key, scope=scope),
    }


def no_path_in(message: str) -> bool:
    return "/" not in message and "Errno" not in message and "Traceback" not in message


class Opened:
    """How the suite opens a store on the subject that a backend's own test class provides."""

    guard: bool

    @pytest.fixture
    def subject(self) -> Subject:
        raise NotImplementedError("the backend's test class provides its subject")

    @pytest.fixture
    def store(self, subject: Subject) -> Store:
        return self.open(subject)

    def open(self, subject: Subject) -> Store:
        """A store over a backend of its own: another sidecar's."""
        return self.over(subject.open())

    def over(self, backend: Backend) -> Store:
        return Store(backend, guard=self.guard)

    def unreachable(self, subject: Subject) -> Store:
        return self.over(subject.unreachable())


class KeepingContract(Opened):
    """Whatever a write accepts comes back as the same text, and nothing else is disturbed by it."""

    # What a store says of itself

    def test_info_names_the_backend_and_no_place_on_this_machine(self, subject: Subject, store: Store) -> None:
        info = store.info()
        assert info.backend == subject.name
        assert "/" not in info.location
        assert "@" not in info.location

    def test_info_needs_no_backing_store(self, subject: Subject) -> None:
        assert (self.unreachable(subject)).info().backend == subject.name

    # Validation

    def test_illegal_keys_are_refused_by_every_method_and_touch_nothing(self, subject: Subject, store: Store) -> None:
        store.create("kept", "words", "text")
        before = subject.stored()
        for key in ILLEGAL_KEYS:
            for method, call in every_call(store, key, scope := Scope({key: "1"})).items():
                with pytest.raises(InvalidError) as refused:
                    call()
                assert scope.drain() == [], (key, method)
                assert key == "" or len(key) < 4 or key not in str(refused.value), "a hostile key is not repeated"
        assert subject.stored() == before

    def test_validation_comes_before_the_backing_store(self, subject: Subject) -> None:
        store = self.unreachable(subject)
        for key in ("a/b", "newline\n"):
            for call in every_call(store, key).values():
                with pytest.raises(InvalidError):
                    call()
        for write in (store.create, store.update):
            with pytest.raises(InvalidError):
                write("key", " \n ", "text")
            with pytest.raises(InvalidError):
                write("key", "words", "x" * (MAX_CONTENT_BYTES + 1))

    def test_every_kind_of_legal_key_works(self, store: Store) -> None:
        for key in LEGAL_KEYS:
            store.create(key, f"about {key}"[:100], f"of {key}")
        assert [item.key for item in store.list()] == sorted(LEGAL_KEYS)
        for key in LEGAL_KEYS:
            assert (store.read(key)).content == f"of {key}"
        for key in LEGAL_KEYS:
            assert store.delete(key) is True
        assert store.list() == []

    def test_keys_differ_by_case(self, store: Store) -> None:
        store.create("note", "small", "small")
        store.create("Note", "large", "large")
        assert store.list() == [Item("Note", "large"), Item("note", "small")]
        assert (store.read("note")).content == "small"

    def test_key_of_200_characters_fits_and_of_201_does_not(self, store: Store) -> None:
        store.create("k" * MAX_KEY, "words", "text")
        with pytest.raises(InvalidError):
            store.create("k" * (MAX_KEY + 1), "words", "text")
        assert [item.key for item in store.list()] == ["k" * MAX_KEY]

    @pytest.mark.parametrize("char", ["x", "ü", "語", "🐄"])
    def test_description_is_counted_in_code_points(self, store: Store, char: str) -> None:
        store.create("edge", char * MAX_DESCRIPTION, "text")
        assert (store.read("edge")).description == char * MAX_DESCRIPTION
        with pytest.raises(InvalidError, match="501 characters"):
            store.create("past", char * (MAX_DESCRIPTION + 1), "text")
        with pytest.raises(InvalidError, match="501 characters"):
            overwrite(store, "edge", char * (MAX_DESCRIPTION + 1), "text")
        assert store.list() == [Item("edge", char * MAX_DESCRIPTION)]

    def test_description_is_counted_after_normalisation(self, store: Store) -> None:
        raw = "\n\t  " + "x " * (MAX_DESCRIPTION // 2 - 1) + " \r\n " * 500 + "yy\x00\x1b  "
        store.create("key", raw, "text")
        shown = (store.read("key")).description
        assert shown == "x " * (MAX_DESCRIPTION // 2 - 1) + "yy"
        assert len(shown) == MAX_DESCRIPTION

    def test_the_normalised_description_is_what_is_stored(self, subject: Subject, store: Store) -> None:
        store.create("key", "  two\r\nlines\tand\x00 more\u2028here  ", "text")
        assert (store.read("key")).description == "two lines and more here"
        assert store.list() == [Item("key", "two lines and more here")]
        assert subject.stored() == {"key": serialize("two lines and more here", "text")}

    @pytest.mark.parametrize("description", ["", " ", "\n", "\x00\x1b", "\u200b\u2060", "\u3164", "\ud83d"])
    def test_description_that_shows_nothing_is_refused(self, subject: Subject, store: Store, description: str) -> None:
        for write in (store.create, store.update):
            with pytest.raises(InvalidError):
                write("key", description, "text")
        assert subject.stored() == {}

    @pytest.mark.parametrize("char", ["x", "ü", "語", "🐄", "\x00", "\n"])
    def test_content_is_counted_in_utf8_bytes(self, store: Store, char: str) -> None:
        width = len(char.encode())
        edge = char * (MAX_CONTENT_BYTES // width) + "x" * (MAX_CONTENT_BYTES % width)
        store.create("edge", "words", edge)
        assert (store.read("edge")).content == edge
        with pytest.raises(InvalidError, match=f"{MAX_CONTENT_BYTES + 1} bytes"):
            store.create("past", "words", edge + "x")
        with pytest.raises(InvalidError, match=f"{MAX_CONTENT_BYTES + 1} bytes"):
            overwrite(store, "edge", "words", edge + "x")
        assert [item.key for item in store.list()] == ["edge"]
        assert (store.read("edge")).content == edge

    def test_the_largest_entry_of_the_widest_header_fits(self, store: Store) -> None:
        for number, char in enumerate("\U0010fffd\ufffd\"'\\"):
            description = char * (MAX_DESCRIPTION - 1) + "x"
            store.create(f"wide-{number}", description, "x" * MAX_CONTENT_BYTES)
            assert store.read(f"wide-{number}") == Entry(description, "x" * MAX_CONTENT_BYTES)

    def test_broken_characters_in_content_are_refused(self, subject: Subject, store: Store) -> None:
        with pytest.raises(InvalidError):
            store.create("key", "words", "half \ud800 pair")
        assert subject.stored() == {}

    # Reading and listing

    def test_an_empty_store(self, store: Store) -> None:
        assert store.list() == []
        with pytest.raises(KeyNotFoundError):
            store.read("key")
        assert store.delete("key") is False

    def test_copying_a_note_back_changes_no_byte(self, subject: Subject, store: Store) -> None:
        """Whatever was accepted is listed and read as it is, and written again it is the same document."""
        chance = random.Random("copying back")  # noqa: S311 - guards nothing
        characters = (
            "ab 019+-._:#'\"\\[]{}<>|?!&*%@`~,=/\n\t\r"
            "\u00e9\u200c\u200d\ufe0f\u202e\u226e\u2764\ue000\u0601\U0001f468\u3164"
        )
        for _ in range(60):
            description = "x" + "".join(chance.choices(characters, k=chance.randint(0, 12)))
            content = "".join(chance.choices(characters, k=chance.randint(0, 12)))
            scope = Scope()
            store.create("key", description, content, scope=scope)
            before = subject.stored()["key"]
            entry = store.read("key")
            assert [item.description for item in store.list()] == [entry.description]
            assert (entry.description, entry.content) == (" ".join(description.split()), content)
            store.update("key", entry.description, entry.content, scope=scope)
            assert subject.stored()["key"] == before
            assert store.delete("key", scope=scope)

    def test_header_lines_of_another_program_stay(self, subject: Subject, store: Store) -> None:
        header = "---\r\ntitle: A # mine\r\ndescription: B\r\ntags: [x]\r\n---\r\n"
        subject.plant("key", f"{header}body".encode())
        scope = Scope()
        assert store.read("key", scope=scope) == Entry("B", "body", header)
        store.update("key", "B", "new", scope=scope)
        assert subject.stored()["key"] == f"{header}new".encode()
        store.update("key", "it's C", "new", scope=scope)
        assert subject.stored()["key"] == f"{header}new".replace("B", "'it''s C'").encode()
        assert store.list() == [Item("key", "it's C")]

    def test_descriptions_of_every_look_come_back_as_the_same_text(self, subject: Subject, store: Store) -> None:
        for number, description in enumerate(DESCRIPTIONS):
            store.create(f"d-{number:03}", description, "text")
        other = self.open(subject)
        assert [item.description for item in other.list()] == list(DESCRIPTIONS)
        for number, description in enumerate(DESCRIPTIONS):
            assert other.read(f"d-{number:03}") == Entry(description, "text")

    def test_contents_come_back_byte_for_byte(self, subject: Subject, store: Store) -> None:
        for number, content in enumerate(CONTENTS):
            store.create(f"c-{number:03}", "plain" if number % 2 else "a: b", content)
        other = self.open(subject)
        for number, content in enumerate(CONTENTS):
            assert (other.read(f"c-{number:03}")).content == content

    def test_contents_written_over_come_back_byte_for_byte(self, store: Store) -> None:
        store.create("key", "words", "first")
        for content in CONTENTS:
            overwrite(store, "key", "words", content)
            assert (store.read("key")).content == content

    def test_the_stored_form_is_the_shared_one(self, subject: Subject, store: Store) -> None:
        store.create("created", "a: b", "text\n")
        store.create("updated", "words", "text")
        overwrite(store, "updated", "yes", "new")
        assert subject.stored() == {
            "created": b"---\ndescription: 'a: b'\n---\n\ntext\n",
            "updated": b"---\ndescription: 'yes'\n---\n\nnew",
        }

    def test_a_document_from_another_backend_reads_the_same(self, subject: Subject, store: Store) -> None:
        subject.plant("moved", b'---\ndescription: "2024: a year"\n---\n\nbody\r\n')
        assert store.list() == [Item("moved", "2024: a year")]
        assert store.read("moved")[:2] == ("2024: a year", "body\r\n")

    def test_a_listing_is_sorted_and_complete(self, subject: Subject, store: Store) -> None:
        keys = ["b", "a", "C", "_", "-", "=", "a.b", "a-b", "10", "9", "z"]
        for key in keys:
            store.create(key, "words", "text")
        expected = sorted(keys)
        assert [item.key for item in store.list()] == expected
        assert [item.key for item in (self.open(subject)).list()] == expected

    def test_a_listing_follows_every_change(self, subject: Subject, store: Store) -> None:
        other = self.open(subject)
        store.create("key", "first", "text")
        assert other.list() == [Item("key", "first")]
        overwrite(store, "key", "second", "text")
        assert other.list() == [Item("key", "second")]
        subject.plant("key", serialize("third!", "text"))
        assert other.list() == [Item("key", "third!")]
        store.delete("key")
        assert other.list() == []

    # What cannot be read

    @pytest.mark.parametrize(
        "document",
        [b"\xff\xfe binary", b"---\ndescription: words\n---\n\n" + b"x" * 70000, b"\x80" * 70000],
        ids=["not text", "too large", "both"],
    )
    def test_an_unreadable_entry_is_listed_hides_nothing_and_is_never_destroyed(
        self, subject: Subject, store: Store, document: bytes
    ) -> None:
        store.create("good", "words", "text")
        subject.plant("broken", document)
        assert store.list() == [Item("broken", UNREADABLE), Item("good", "words")]
        with pytest.raises(UnreadableError) as refused:
            store.read("broken")
        assert no_path_in(str(refused.value))
        assert "\n" not in str(refused.value)
        scope = Scope({"broken": "1"})
        with pytest.raises(KeyExistsError):
            store.create("broken", "words", "text", scope=scope)
        with pytest.raises((UnreadableError, StaleError)):
            store.update("broken", "words", "text")
        with pytest.raises((UnreadableError, StaleError)):
            store.update("broken", "words", "text", scope=scope)
        with pytest.raises(UnreadableError):
            store.delete("broken")
        assert (subject.stored())["broken"] == document
        assert store.read("good") == Entry("words", "text")

    def test_a_read_that_fails_grants_nothing(self, subject: Subject, store: Store) -> None:
        subject.plant("broken", b"\xff\xfe binary")
        scope = Scope()
        with pytest.raises(UnreadableError):
            store.read("broken", scope=scope)
        assert scope.snapshot() == {}
        assert scope.drain() == []
