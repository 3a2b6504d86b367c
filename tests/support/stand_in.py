"""Another implementation of the store on files, by its documented rules.

It takes no lock, links (a new note) or renames (an overwrite) a temporary file, leaves the YAML header to its library,
removes by `unlink` and lists names as ours does.
"""

import os
from pathlib import Path

import yaml

__all__ = ["StandIn"]


class StandIn:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, key: str, description: str, content: str, *, overwrite: bool) -> bool:
        """False if the note is there already."""
        header = yaml.safe_dump({"description": description}, allow_unicode=True, width=10**6)
        staged = self.directory / f".memtmp-{os.urandom(6).hex()}"
        staged.write_bytes(f"---\n{header}---\n\n{content}".encode())
        try:
            if overwrite:
                os.rename(staged, self.directory / f"{key}.md")
            else:
                os.link(staged, self.directory / f"{key}.md")
        except FileExistsError:
            return False
        finally:
            staged.unlink(missing_ok=True)
        return True

    def delete(self, key: str) -> bool:
        try:
            os.unlink(self.directory / f"{key}.md")
        except FileNotFoundError:
            return False
        return True

    def read(self, key: str) -> tuple[str, str] | None:
        """Description and content."""
        try:
            text = (self.directory / f"{key}.md").read_bytes().decode()
        except FileNotFoundError:
            return None
        header, _, content = text.removeprefix("---\n").partition("\n---\n\n")
        return yaml.safe_load(header)["description"], content

    def list(self) -> dict[str, str]:
        found = {}
        for path in sorted(self.directory.glob("[!.]*.md")):
            read = self.read(path.name.removesuffix(".md"))
            if read is not None:
                found[path.name.removesuffix(".md")] = read[0]
        return found
