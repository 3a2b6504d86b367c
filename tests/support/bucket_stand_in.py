"""Another implementation of the store in a bucket, by the rules of the official clients: raw puts, deletes and purges.

It looks at no revision, leaves the YAML header to its library, and every second value bears `KV-Operation: PUT`, as
some clients write it. Every second removal is a purge.
"""

from typing import Any

import nats.js.errors
import yaml
from nats.aio.client import Client
from tests.support.broker import Loop

__all__ = ["BucketStandIn"]


class BucketStandIn:
    """The keys of the agent `agent`. Its connection is one of `loop`."""

    def __init__(self, nc: Client, bucket: str, loop: Loop) -> None:
        self._js = nc.jetstream()
        self._bucket = bucket
        self._run = loop.run
        self._kv: Any = loop.run(self._js.key_value(bucket))
        self._turn = 0

    def write(self, key: str, description: str, content: str, *, overwrite: bool) -> bool:
        header = yaml.safe_dump({"description": description}, allow_unicode=True, width=10**6)
        document = f"---\n{header}---\n\n{content}".encode()
        self._turn += 1
        if not overwrite:
            try:
                self._run(self._kv.create(f"agent.{key}", document))
            except nats.js.errors.KeyWrongLastSequenceError:
                return False
        elif self._turn % 2:
            self._run(self._kv.put(f"agent.{key}", document))
        else:
            headers = {"KV-Operation": "PUT"}
            self._run(self._js.publish(f"$KV.{self._bucket}.agent.{key}", document, headers=headers))
        return True

    def delete(self, key: str) -> bool:
        there = self.read(key) is not None
        self._turn += 1
        self._run(self._kv.purge(f"agent.{key}") if self._turn % 2 else self._kv.delete(f"agent.{key}"))
        return there

    def read(self, key: str) -> tuple[str, str] | None:
        """Description and content."""
        try:
            text = self._run(self._kv.get(f"agent.{key}")).value.decode()
        except nats.js.errors.KeyNotFoundError:
            return None
        header, _, content = text.removeprefix("---\n").partition("\n---\n\n")
        return yaml.safe_load(header)["description"], content

    def list(self) -> dict[str, str]:
        # Not the client's `keys()`: with a single key it finds none, where its message comes just before its count.
        stream = f"KV_{self._bucket}"
        info = self._run(self._js.stream_info(stream, subjects_filter=f"$KV.{self._bucket}.agent.>"))
        names = [subject.rpartition(".")[2] for subject in info.state.subjects or {}]
        found = {name: self.read(name) for name in sorted(names)}
        return {name: note[0] for name, note in found.items() if note is not None}
