"""The ticket's file: what is taken for one, and how one process of many claims it."""

import fcntl
import os
from pathlib import Path

import pytest

from memory_sidecar.wire.ticket import TICKET_VARIABLE, TicketError, open_ticket

TOKEN = "t" * 43


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "ticket", TOKEN)


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("text", [TOKEN, TOKEN + "\n", "A-_9" * 32], ids=len)
def test_a_token_is_43_to_128_characters_and_perhaps_a_newline(tmp_path: Path, text: str) -> None:
    ticket = open_ticket(str(written(tmp_path / "other", text)))
    assert ticket.matches(text.strip())
    assert not ticket.matches(text.strip()[:-1] + "x")
    assert not ticket.matches("")
    assert not ticket.matches("\ud800" * 43)
    assert ticket.is_unclaimed()
    assert ticket.claim()


@pytest.mark.parametrize(
    "text",
    [*("t" * 42, "t" * 129, TOKEN + "\n\n", "\n" + TOKEN, " " + TOKEN, TOKEN + "=", TOKEN + "\r\n"), "t" * 1000],
    ids=repr,
)
def test_anything_else_is_no_token(tmp_path: Path, text: str) -> None:
    with pytest.raises(TicketError, match="holds no token"):
        open_ticket(str(written(tmp_path / "other", text)))


def test_an_empty_or_missing_file_says_that_it_was_used(tmp_path: Path) -> None:
    with pytest.raises(TicketError, match="used by another process, or is empty"):
        open_ticket(str(written(tmp_path / "other", "")))
    with pytest.raises(TicketError, match="does not exist"):
        open_ticket(str(tmp_path / "none"))


@pytest.mark.parametrize("mode", [0, 0o644, 0o777, *(0o600 ^ 1 << bit for bit in range(12))])
def test_a_file_of_any_mode_but_0600_is_refused(tmp_path: Path, mode: int) -> None:
    """Also one that is stricter: this user could not claim it, and root is no exception."""
    with pytest.raises(TicketError, match=f"mode must be 0600, and is {mode:04o}|cannot be opened"):
        open_ticket(str(written(tmp_path / "other", TOKEN, mode)))


def test_a_file_with_a_second_name_a_link_or_none_at_all_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(TicketError):
        open_ticket(str(tmp_path / "link"))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TicketError):
        open_ticket(str(tmp_path / "fifo"))
    os.link(path, tmp_path / "second")
    with pytest.raises(TicketError, match="second name"):
        open_ticket(str(path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_refused(path: Path) -> None:
    os.chown(path, 65534, 65534)
    with pytest.raises(TicketError, match="another user"):
        open_ticket(str(path))


def test_one_claim_of_many_wins_and_the_file_is_empty_then(path: Path) -> None:
    tickets = [open_ticket(str(path)) for _ in range(5)]
    assert [ticket.claim() for ticket in tickets] == [True, False, False, False, False]
    assert path.read_bytes() == b""
    assert not any(ticket.is_unclaimed() for ticket in tickets)
    assert [ticket.problem for ticket in tickets] == [""] * 5  # that another was first is no fault of this system


def test_the_lock_alone_keeps_others_out(path: Path) -> None:
    """A winner that was stopped between its lock and the emptying is the winner all the same."""
    ticket = open_ticket(str(path))
    with path.open("r+b") as winner:
        fcntl.flock(winner, fcntl.LOCK_EX)
        assert not ticket.claim()
        assert path.read_text() == TOKEN
    assert ticket.claim()


def test_a_file_that_says_something_else_now_is_not_claimed(path: Path) -> None:
    ticket = open_ticket(str(path))
    path.write_text("u" * 43)
    assert not ticket.is_unclaimed()
    assert not ticket.claim()
    assert path.read_text() == "u" * 43


def test_what_cannot_be_read_any_more_is_not_claimed(path: Path) -> None:
    ticket = open_ticket(str(path))
    os.close(ticket._descriptor)
    assert ticket.is_unclaimed() is False
    assert ticket.claim() is False
    assert ticket.problem == "the ticket's file cannot be locked or emptied: Bad file descriptor"


def test_only_what_this_system_is_in_the_way_of_is_told_as_an_obstacle(path: Path, tmp_path: Path) -> None:
    with pytest.raises(TicketError) as blocked:
        open_ticket(str(path / "inside"))
    assert blocked.value.obstacle == str(blocked.value) != ""
    with pytest.raises(TicketError) as missing:
        open_ticket(str(tmp_path / "none"))
    assert missing.value.obstacle == ""


def test_a_ticket_that_is_closed_is_let_go_of(path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    open_ticket(str(path)).close()
    assert len(os.listdir("/dev/fd")) == before


def test_what_cannot_be_opened_is_told_and_a_refused_ticket_is_closed(path: Path, tmp_path: Path) -> None:
    with pytest.raises(TicketError, match="cannot be opened for reading and writing"):
        open_ticket(str(path / "inside"))
    before = os.dup(0)
    os.close(before)
    with pytest.raises(TicketError):
        open_ticket(str(written(tmp_path / "other", "")))
    after = os.dup(0)
    os.close(after)
    assert after == before


def test_the_variable_is_the_documented_one() -> None:
    assert TICKET_VARIABLE == "MEMORY_SIDECAR_" + "TICKET"
