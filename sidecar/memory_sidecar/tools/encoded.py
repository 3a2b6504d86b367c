"""A tool's answer as JSON, encoded once however often it is sent."""

from .. import jsontext
from ..hints import Any, Final

__all__ = ["Encoded"]

_letters: Final = jsontext.encoder(ensure_ascii=False)
_ascii: Final = jsontext.encoder()


class Encoded(dict[str, Any]):
    """An object that is not changed any more, with its JSON."""

    def __init__(self, members: dict[str, Any]) -> None:
        super().__init__(members)
        # A model reads this text: real letters, not \u escapes.
        self.text = _letters(members)
        self.ascii = _in_ascii(members, self.text)
        """The object, and its `text` as a JSON text, both in ASCII; None where a half of a surrogate pair is in it."""


def _in_ascii(members: dict[str, Any], text: str) -> tuple[bytes, bytes] | None:
    if text.isascii():
        # There is no control character in it, so as a text it needs an escape for its quotes and backslashes alone.
        # That takes a tenth of encoding it.
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return text.encode(), f'"{escaped}"'.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return _ascii(members).encode(), _ascii(text).encode()
