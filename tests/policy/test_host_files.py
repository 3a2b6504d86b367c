"""A host's configuration file is read as its host would, to its limits and no further."""

from pathlib import Path

import pytest

from exposure_policy.audit.hostfiles import HostFile, read_host_file


def read(tmp_path: Path, text: str, name: str = "host.json") -> HostFile:
    (tmp_path / name).write_text(text)
    return read_host_file(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.toml", "a = 1"),
        ("CONFIG.TOML", "a = 1"),
        ("config.yaml", "a: 1"),
        ("Config.YML", "a: 1"),
        ("settings.json", '{"a": 1}'),
        ("settings.JSON", '{"a": 1,} // as VS Code takes it'),
        ("no-ending", '{"a": 1}'),
    ],
)
def test_a_file_is_of_the_format_that_its_ending_says(tmp_path: Path, name: str, text: str) -> None:
    assert read(tmp_path, text, name).data == {"a": 1}


@pytest.mark.parametrize("text", ["[1/* */2]", "[1//\n2]", "[1,,]", '["a"/*"b"]', "[,]x"])
def test_a_comment_joins_nothing_that_it_stands_between(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(tmp_path, text)


@pytest.mark.parametrize(("aliases", "taken"), [(1000, True), (1001, False)])
def test_a_yaml_file_has_a_thousand_aliases_at_most(tmp_path: Path, aliases: int, *, taken: bool) -> None:
    text = "a: &x 1\nb: [" + ", ".join(["*x"] * aliases) + "]"
    if taken:
        assert read(tmp_path, text, "host.yaml").data["b"] == [1] * aliases
    else:
        with pytest.raises(ValueError, match="more than 1000 aliases"):
            read(tmp_path, text, "host.yaml")


@pytest.mark.parametrize(("depth", "taken"), [(100, True), (101, False)])
def test_a_yaml_file_is_nested_a_hundred_deep_at_most(tmp_path: Path, depth: int, *, taken: bool) -> None:
    text = "[" * depth + "1" + "]" * depth
    if taken:
        assert read(tmp_path, text, "host.yaml").data
    else:
        with pytest.raises(ValueError, match="nested more than 100 deep"):
            read(tmp_path, text, "host.yaml")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n"größe": 1}', 2),
        ('{\n\n"gr\\u00f6\\u00dfe": 1}', 3),
        ("\n\n\n'größe' = 1", 4),
        ("x: 1\ngröße: 1", 2),
        ("ungröße: 1\ngröße: 1", 2),
        ("# größer\n[größe]", 2),
        ("nothing\nhere", 1),
    ],
)
def test_a_name_stands_on_the_line_where_it_is_first_a_key_or_a_value(text: str, line: int) -> None:
    assert HostFile(text, None, None).line_of("größe") == line
