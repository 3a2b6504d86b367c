"""The operator's YAML: strict where it is ours, silent where it is the harness's."""

import re
import threading
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory_sidecar.config import Config, ConfigError, MemoryConfig, load, parse


def refusal(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as refused:
        parse(text if isinstance(text, bytes) else text.encode())
    assert len(str(refused.value).splitlines()) == 1
    return str(refused.value)


def memory(text: str) -> MemoryConfig:
    return parse(b"harness:\n  memory:\n" + "".join(f"    {line}\n" for line in text.splitlines()).encode()).memory


def test_memory_is_opt_in() -> None:
    for text in (b"", b"# nothing\n", b"harness:\n", b"harness: {}\n", b"harness:\n  memory:\n", b"identity: x\n"):
        assert parse(text).memory.enabled is False
    assert memory("enabled: true").enabled is True
    assert memory("read_only: true").enabled is False


def test_the_whole_of_it() -> None:
    text = b"""
identity: my-agent
nats_context: production
model: something
system_prompt: |
  Tell short jokes
harness:
  max_iterations: 10
  memory:
    enabled: true
    backend: jetstream
    read_only: true
    no_index: true
    options:
      bucket: agent-memory
      prefix: ""
"""
    assert parse(text) == Config(
        identity="my-agent",
        nats_context="production",
        memory=MemoryConfig(True, "jetstream", True, True, {"bucket": "agent-memory", "prefix": ""}),
    )


def test_a_config_cannot_be_changed_once_decoded() -> None:
    with pytest.raises(AttributeError):
        parse(b"identity: x").identity = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("enable: true", "harness.memory.enable is not an option; did you mean enabled?"),
        ("readonly: true", "harness.memory.readonly is not an option; did you mean read_only?"),
        ("read-only: true", "harness.memory.read-only is not an option; did you mean read_only?"),
        ("index: false", "harness.memory.index is not an option; did you mean no_index?"),
        ("directory: x", "harness.memory.directory is not an option; known are: "),
        ("expose: {mcp: true}", "harness.memory.expose is not an option"),
        ('enabled: "yes"', "harness.memory.enabled must be true or false; found 'yes'"),
        ("enabled: 1", "harness.memory.enabled must be true or false; found 1"),
        ("read_only:", "harness.memory.read_only must be true or false; found None"),
        ("backend: 1", "harness.memory.backend must be text; found 1; put it in quotes"),
        ("backend: 2024-01-01", "harness.memory.backend must be text; found the date 2024-01-01; put it in quotes"),
        ("options: file", "harness.memory.options must be a mapping; found 'file'"),
        ("options: [a]", "harness.memory.options must be a mapping; found a list"),
    ],
)
def test_the_memory_block_is_strict(line: str, said: str) -> None:
    assert refusal(f"harness:\n  memory:\n    {line}\n").startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("identiy: x", "identiy looks like a misspelling of identity; rename one of them"),
        ("Identity: x", "Identity looks like a misspelling of identity"),
        ("nats-context: x", "nats-context looks like a misspelling of nats_context"),
        ("nats_contxt: x", "nats_contxt looks like a misspelling of nats_context"),
        ("harnes: {}", "harnes looks like a misspelling of harness"),
        ("harness: {memroy: {enabled: true}}", "harness.memroy looks like a misspelling of harness.memory"),
        ("harness: {Memory: {enabled: true}}", "harness.Memory looks like a misspelling of harness.memory"),
        ('"identity\\n": x', "'identity\\n' looks like a misspelling of identity"),
    ],
)
def test_a_misspelling_of_ours_is_refused(text: str, said: str) -> None:
    assert refusal(text).startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "model: x\ntools: [a, b]\nsystem_prompt: y",
        "harness: {max_iterations: 3, budget: 1, memory_limit: 5, tools: []}",
        "1: x\n2024-01-01: y\n~: z\n",
        "harness: {1: x}",
        "identities: [a]",
        "identity: x\nidentty: the harness's own, next to ours",
    ],
)
def test_keys_of_the_harness_are_left_alone(text: str) -> None:
    assert parse(text.encode()).memory == MemoryConfig()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("identity: 1", "identity must be text; found 1; put it in quotes"),
        ("identity: 2024-01-01", "identity must be text; found the date 2024-01-01; put it in quotes"),
        ("identity: yes", "identity must be text; found True; put it in quotes"),
        ("identity: [a]", "identity must be text; found a list"),
        ("nats_context: {a: b}", "nats_context must be text; found a mapping"),
        ("identity: 0x" + "f" * 9000, "identity must be text; found a huge number; put it in quotes"),
        ('identity: "\\ud800"', "identity holds half of a surrogate pair"),
        ("harness: true", "harness must be a mapping; write the memory block as"),
        ("harness: [memory]", "harness must be a mapping; write the memory block as"),
        (
            "harness: {memory: true}",
            "harness.memory must be a mapping of options; found True; write it as `memory: {enabled: true}`",
        ),
        (
            "harness: {memory: [enabled]}",
            "harness.memory must be a mapping of options; found a list; write them as `memory: {option: value}`",
        ),
        ('identity: ""', "identity is empty, which names nothing; write a name, or leave it out"),
        ("nats_context: ''", "nats_context is empty, which names nothing; write a name, or leave it out"),
        ("harness: {memory: {backend: ''}}", "harness.memory.backend is empty, which names nothing; write a name"),
        ("just text", "a configuration is a YAML mapping"),
        ("- a\n- list", "a configuration is a YAML mapping"),
    ],
)
def test_wrong_types(text: str, said: str) -> None:
    assert refusal(text).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("identity: a\nidentity: b", "line 2: the key 'identity' stands twice; remove one"),
        ('identity: a\n"identity": b', "line 2: the key 'identity' stands twice"),
        ("harness:\n  memory:\n    enabled: true\n    enabled: false", "line 4: the key 'enabled' stands twice"),
        ("harness: {}\nmodel: x\nharness: {}", "line 3: the key 'harness' stands twice"),
        ("model: {deep: [{a: 1, a: 2}]}", "line 1: the key 'a' stands twice"),
    ],
)
def test_a_duplicate_key_is_an_error_with_its_line(text: str, said: str) -> None:
    assert refusal(text).startswith(said)


def test_anchors_and_merges_are_ordinary_yaml() -> None:
    text = b"common: &c {enabled: true, read_only: true}\nharness: {memory: {<<: *c, read_only: false}}\n"
    assert parse(text).memory == MemoryConfig(enabled=True, read_only=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("identity: 'open", "line 1: this is not valid YAML"),
        ("a: b: c", "line 1: this is not valid YAML"),
        ("a: 1\n\tb: 2", "line 2: this is not valid YAML"),
        ("a: 1\n---\nb: 2", "line 2: this is not valid YAML"),
        ("a: *nowhere", "line 1: this is not valid YAML"),
        ("a: &a {b: *a}", "line 1: this is not valid YAML"),
        ("a: !!python/object/apply:os.system [id]", "line 1: this is not valid YAML"),
        ("? [a]\n: b", "line 1: this is not valid YAML"),
        (b"\x00\x01\x02", "this is not YAML text; write it as YAML, or name another file"),
        (b"\xff\xfe\xfd", "this is not YAML text; write it as YAML, or name another file"),
        (b"\x7fELF\x02\x01", "this is not YAML text; write it as YAML, or name another file"),
        ("a: 2024-99-99", "a value in this file cannot be read as YAML; quote dates and large numbers"),
        ("a: " + "9" * 9000, "a value in this file cannot be read as YAML"),
        ('a: "\\UFFFFFFFF"', "a value in this file cannot be read as YAML"),
        ('a: "\\U00110000"', "a value in this file cannot be read as YAML"),
        ("a: !!float", "a value in this file cannot be read as YAML"),
        ("a: !!int", "a value in this file cannot be read as YAML"),
        ("a: !!bool maybe", "a value in this file cannot be read as YAML"),
        ("a: !!timestamp tomorrow", "a value in this file cannot be read as YAML"),
        ("a: " + "[" * 20000, "it is nested more than 100 deep; write it with fewer levels"),
    ],
)
def test_what_is_not_yaml_is_refused_in_one_line(text: str | bytes, said: str) -> None:
    assert refusal(text).startswith(said)


def levels(step: str) -> str:
    return "".join(step.format(n=n, before=", ".join([f"*l{n - 1}"] * 9)) + "\n" for n in range(1, 25))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "l0: &l0 [x]\n" + levels("l{n}: &l{n} [{before}]") + "harness: {memory: {options: *l24}}",
        "l0: &l0 {a: 1}\n" + levels("l{n}: &l{n} [{before}]") + "harness: {memory: {options: {directory: *l24}}}",
        "l0: &l0 {a: 1}\n" + levels("l{n}: &l{n} {{<<: [{before}]}}") + "harness: {memory: {options: *l24}}",
        "l0: &l0 [x]\n" + levels("l{n}: &l{n} [{before}]") + "identity: *l24",
    ],
    ids=["options", "option", "merges", "identity"],
)
def test_anchor_bombs_cost_nothing(text: str) -> None:
    try:
        parse(text.encode())
    except ConfigError as refused:
        assert len(str(refused)) < 300  # noqa: PT017 - both ways out are right


@pytest.mark.parametrize("wrong", ["true", "1", "1.5", "word", "[a]", "{a: b}", "2024-01-01", "null"])
@pytest.mark.parametrize(
    "place",
    ["identity: {}", "nats_context: {}", "harness: {}", "harness: {{memory: {}}}"]
    + [f"harness: {{{{memory: {{{{{name}: {{}}}}}}}}}}" for name in MemoryConfig._fields],
)
def test_every_wrong_type_comes_with_what_to_write_instead(place: str, wrong: str) -> None:
    try:
        parse(place.format(wrong).encode())
    except ConfigError as refused:
        remedy = str(refused).rpartition("; ")[2]
        wanted = r"^write .*`.*:.*`|^put it in quotes$|^known are: "
        assert re.search(wanted, remedy), refused  # noqa: PT017 - some of these are right


# Files


def test_load_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("identity: ümlaut 🐄\n")
    assert load(str(path)).identity == "ümlaut 🐄"
    path.write_bytes("identity: x\n".encode("utf-8-sig"))
    assert load(str(path)).identity == "x"
    path.write_bytes(b"identity: x\r\nharness:\r\n  memory:\r\n    enabled: true\r\n")
    assert load(str(path)).memory.enabled


def test_a_refusal_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("harness: {memory: {enable: true}}")
    with pytest.raises(ConfigError) as refused:
        load(str(path))
    assert str(refused.value) == f"{path}: harness.memory.enable is not an option; did you mean enabled?"


def test_a_file_that_cannot_be_read_is_refused_with_the_option(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "file" / "below"):
        (tmp_path / "file").write_text("x")
        with pytest.raises(ConfigError, match=r"cannot read the configuration .*; check --config"):
            load(str(path))


def test_a_file_that_is_no_configuration_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"a: b\n" + b"#" * (1024 * 1024 - 5))
    load(str(path))
    path.write_bytes(b"a: b\n" + b"#" * (1024 * 1024 - 4))
    with pytest.raises(ConfigError, match="larger than 1048576 bytes; check --config"):
        load(str(path))
    with pytest.raises(ConfigError, match="is not a regular file; check --config"):
        load("/dev/zero")


@given(st.binary(max_size=100) | st.text(alphabet="aeidntyhrsmo: {}[]&*!-\n\"'<,|>?%@`#~\t1", max_size=60))
def test_anything_is_a_configuration_or_refused_in_one_line(text: bytes | str) -> None:
    try:
        parse(text if isinstance(text, bytes) else text.encode())
    except ConfigError as refused:
        assert len(str(refused).splitlines()) == 1  # noqa: PT017 - both ways out are right


def test_decoding_in_threads_is_safe() -> None:
    """The strict loader is built for each call: no call may see another's rules."""
    results: list[bool] = []
    text = yaml.safe_dump({"harness": {"memory": {"enabled": True}}}).encode()
    threads = [threading.Thread(target=lambda: results.append(parse(text).memory.enabled)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8


@pytest.mark.parametrize(
    "text",
    [
        '{"identity": "a", "harness": {"memory": {"options": {"prefix": "\\u00e9"}}}, "model": [null]}',
        '{"harness": {"memory": {"enabled": true, "backend": "file"}}}\n',
        "{}",
        "{harness: {memory: {enabled: yes}}}",
        '{"harness": {"memory": {"enabled": true}},}',
    ],
)
def test_json_means_what_it_means_as_yaml(text: str) -> None:
    assert parse(text.encode()) == parse(b" " + text.encode())


@pytest.mark.parametrize(
    "text",
    ['{"harness": {}, "model": 1, "harness": {}}', '{"harness": {"memory": {"enabled": 1}}}', '{"harness": [', "{"],
)
def test_what_is_wrong_with_json_is_told_as_of_yaml(text: str) -> None:
    assert refusal(text) == refusal(" " + text)  # which only YAML allows here
