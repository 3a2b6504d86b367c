"""A harness's module, as a handler elsewhere would use it: every way from here leads to a run."""

from typing import Any


class Run:
    """Stands for the harness's run: the guard knows it by the mark alone."""

    __memory_private__ = True

    def call(self, topic: str) -> str:
        return topic


_held: list[Any] = [Run()]


def recall(topic: str) -> str:
    return str(_held[0].call(topic))


class Service:
    """Holds nothing itself."""

    def recall(self, topic: str) -> str:
        return str(_held[0].call(topic))

    def about(self, topic: str) -> str:
        return topic


service = Service()
