"""How every command reads its options: wrong usage says how to go on, and no word of the line is dropped in silence.

argparse alone keeps the last value of an option that is given twice, and of one that is given before and after an
action (`runs --journal-dir A show RUN --journal-dir B`) the second.
"""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from ...exits import EX_USAGE
from ...options import suggestion
from .failure import Failure

__all__ = ["parser_class"]


def parser_class() -> type[argparse.ArgumentParser]:
    """The class of the parsers of one command line, which know together what was given already."""
    seen: set[str] = set()
    lists: dict[str, list[Any]] = {}

    class Once(argparse.Action):
        """Keeps the one value of an option."""

        def __call__(
            self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
        ) -> None:
            if option is not None and self.option_strings[0] in seen:
                parser.error(f"{self.option_strings[0]} is given twice, and takes one value")
            seen.update(self.option_strings)
            setattr(namespace, self.dest, values)

    class Several(argparse.Action):
        """Keeps all values of an option, in their order."""

        def __call__(
            self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
        ) -> None:
            lists.setdefault(self.dest, []).append(values)
            setattr(namespace, self.dest, lists[self.dest])

    class Parser(argparse.ArgumentParser):
        """Wrong usage exits with 64, as sysexits.h has it."""

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.allow_abbrev = False  # of an option that is cut short, a later version may have two
            for name, action in ((None, Once), ("store", Once), ("append", Several)):
                self.register("action", name, action)

        def parse_known_args(self, *given: Any, **named: Any) -> Any:
            # A command's parser is asked so by the one above it, which knows neither its options nor its help.
            found, unknown = super().parse_known_args(*given, **named)
            if unknown:
                self.error(self._unknown(unknown))
            return found, unknown

        def _unknown(self, words: Sequence[str]) -> str:
            options = [word.partition("=")[0] for word in words if word.startswith("-")]
            if not options:
                return f"unrecognized arguments: {' '.join(words)}"
            known = [name for name in self._option_string_actions if name.startswith("--")]
            mine = [name for name in known if len(options[0]) > 2 and name.startswith(options[0])]
            guess = f"did you mean {mine[0]}?" if len(mine) == 1 else suggestion(options[0], known)
            return f"{options[0]} is no option of {self.prog}; {guess}"

        def error(self, message: str) -> NoReturn:
            raise Failure(message, f"see {self.prog} --help", status=EX_USAGE)

    return Parser
