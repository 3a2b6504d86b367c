"""How an error tells what is wrong and what to do: as two texts, so that nobody has to take one apart."""

__all__ = ["RemedyError"]


class RemedyError(Exception):
    """Something cannot be done, and an operator can mend it.

    `problem` is one clause that says what is wrong; `remedy` one that says what to do, or "" where the problem says
    that too. As text it is both. Who needs only one of them reads the attribute.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        if not self.remedy:
            return self.problem
        return f"{self.problem}{'' if self.problem.endswith('?') else ';'} {self.remedy}"
