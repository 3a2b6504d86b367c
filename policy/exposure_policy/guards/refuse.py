"""Refuses what `own_signs` and `own_answers` find, unless somebody has reviewed the finding and accepted its id."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from ..decide import ExposureRefused, check
from ..table import Surface
from .own_answers import EXCERPT, Sign

__all__ = ["identity", "refuse"]


def identity(kind: str, shown: object) -> str:
    """The id of what was refused, by which somebody who has reviewed it can accept it: 16 hexadecimal digits.

    It covers all that is shown, so whatever of it changes is to be reviewed again. What is None is left out, as on
    the wire.
    """
    if isinstance(shown, Mapping):
        shown = {key: value for key, value in shown.items() if value is not None}
    text = json.dumps([kind, shown], sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def refuse(
    signs: Iterable[Sign], name: str, surface: Surface, kind: str, shown: object, accepted: Mapping[str, str]
) -> None:
    """Raise `ExposureRefused` for the first sign whose tool the policy keeps off `surface`.

    What somebody has reviewed and accepted by its id passes; but a marker is no likeness, and is never accepted.
    """
    for sign in signs:
        try:
            check(sign.tool, surface)
        except ExposureRefused as refusal:
            found = identity(kind, shown)
            if sign.rule != "marker" and found in accepted:
                continue
            hint = "" if sign.rule == "marker" else f"; if a review finds otherwise, accept={{{found!r}: 'the reason'}}"
            raise ExposureRefused(
                name[:EXCERPT],
                surface.value,
                f"it is {sign.tool} by its {sign.rule} ({sign.where}: {sign.evidence!r}); {refusal.rule}{hint}",
            ) from refusal
