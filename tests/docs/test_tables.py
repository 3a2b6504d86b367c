"""The documents' tables of tools are those of the code."""

from pathlib import Path

import pytest
from tests.support.tables import DOCUMENTS, rewrite

from exposure_policy import TABLE


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_each_table_is_what_the_code_says(path: Path) -> None:
    text = path.read_text()
    assert rewrite(text) == text, "python -m tests.support.tables rewrites it"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_each_document_names_every_tool(path: Path) -> None:
    table = path.read_text().partition("<!-- end -->")[0]
    assert all(f"| `{row.name}` |" in table for row in TABLE)
