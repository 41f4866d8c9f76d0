"""The recipe: counts, faults in words, overrides, secrets."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from draftmill.errors import RecipeError
from draftmill.recipe import FORMATS, Overrides, Recipe, load, parse_count

SMALL = """\
model: m
engines: [embedded]
datasets:
  - {name: a, source: a.jsonl}
  - {name: b, source: b.jsonl}
"""
ONE = "model: m\nengines: [embedded]\ndatasets: [{name: a, source: x}]\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(text)
    return path


def faults(folder: Path, text: str, **overrides: Any) -> list[str]:
    """The faults of a recipe, each without the file's name."""
    path = write(folder, text)
    with pytest.raises(RecipeError) as caught:
        load(path, Overrides(**overrides))
    return [fault.removeprefix(str(path)) for fault in caught.value.faults]


# counts


@pytest.mark.parametrize(
    ("typed", "count"),
    [
        ("10M", 10_000_000),
        ("10m", 10_000_000),
        ("250k", 250_000),
        ("250K", 250_000),
        ("1.5M", 1_500_000),
        ("0.5k", 500),
        ("1.001k", 1001),  # 1.001 * 1000 is not 1001 in binary floats
        ("2b", 2_000_000_000),
        ("2G", 2_000_000_000),
        ("10 M", 10_000_000),
        (" 7 ", 7),
        ("10_000_000", 10_000_000),
        (10_000_000, 10_000_000),
        (1, 1),
        ("999999999999999", 999_999_999_999_999),
    ],
)
def test_a_count(typed: object, count: int) -> None:
    assert parse_count(typed) == count


@pytest.mark.parametrize(
    "typed",
    [
        *("", "M", "10X", "10MM", "1e6", "1.5", "0", "0.0001k", "-1", "1_", "_1", "1__0", "１０", "²", "2Gi"),
        *("9" * 400 + "k", 0, -5, True, None, 1.5, 3.0, [1], {}),
    ],
)
def test_no_count(typed: object) -> None:
    with pytest.raises(ValueError, match="is not a count; write for example 10M"):
        parse_count(typed)


@given(st.integers(1, 10**15), st.sampled_from(["", "_"]))
def test_a_count_round_trips(count: int, grouping: str) -> None:
    assert parse_count(f"{count:{grouping}}") == count
    assert parse_count(count) == count


@given(st.integers(1, 10**9), st.sampled_from([("k", 3), ("M", 6)]))
def test_a_count_with_a_suffix_and_a_fraction_is_exact(count: int, suffix: tuple[str, int]) -> None:
    letter, digits = suffix
    whole, rest = divmod(count, 10**digits)
    assert parse_count(f"{whole}.{rest:0{digits}}{letter}") == count


# a recipe that holds


def test_defaults_and_short_spellings(tmp_path: Path) -> None:
    text = "model: m\nengines: http://h:1/\ndatasets: [{name: a, source: x, budget: 10M, samples: 1k}]\n"
    recipe = load(write(tmp_path, text))
    assert recipe.engines[0].url == "http://h:1"
    assert recipe.engines[0].kind == "auto"
    assert (recipe.datasets[0].budget, recipe.datasets[0].samples) == (10_000_000, 1000)
    assert recipe.lanes["short"].max_new_tokens == 4096
    assert recipe.sampling.top_k == -1


def test_a_key_without_a_value_is_as_good_as_none(tmp_path: Path) -> None:
    text = ONE + "sampling:\ntemplate:\nlanes:\n  short:\nseed:\ntokenizer:\n"
    assert load(write(tmp_path, text)) == load(write(tmp_path, ONE))


def test_a_datasets_own_sampling_lies_over_the_recipes(tmp_path: Path) -> None:
    text = SMALL.replace("source: b.jsonl", "source: b.jsonl, sampling: {temperature: 0, top_p: }")
    recipe = load(write(tmp_path, text + "sampling: {temperature: 0.7, top_p: 0.9}\n"))
    assert [recipe.sampling_of(d).temperature for d in recipe.datasets] == [0.7, 0.0]
    assert [recipe.sampling_of(d).top_p for d in recipe.datasets] == [0.9, 0.9]


def test_a_datasets_own_template_arguments_lie_over_the_recipes(tmp_path: Path) -> None:
    text = SMALL.replace("source: b.jsonl", "source: b.jsonl, template: {enable_thinking: false}")
    recipe = load(write(tmp_path, text + "template: {enable_thinking: true, depth: 2}\n"))
    assert recipe.template_of(recipe.dataset("b")) == {"enable_thinking": False, "depth": 2}


def test_a_date_stays_a_text(tmp_path: Path) -> None:
    """A frozen recipe is compared with today's: a date object would differ from its own text after a round trip."""
    text = ONE.replace("name: a", "name: 2026-01-31") + "template: {date_string: 2026-01-31}\n"
    recipe = load(write(tmp_path, text))
    assert recipe.datasets[0].name == "2026-01-31"
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe


# faults


def test_every_fault_at_once_with_its_line_its_path_and_what_would_be_right(tmp_path: Path) -> None:
    text = """\
model: 5
engine: [embedded]
datasets:
  - name: a/b
    source: x
    budget: 10X
    samples: 1.5
    n: 0
    lane: shrt
    colum: text
    sampling: {temprature: 1}
  - 7
  - {source: y}
lanes:
  short: {max_new_tokens: -1, concurrency: 0, foo: 2}
sampling:
  temprature: 1
  top_p: 2
  top_k: -5
seed: x
"""
    assert faults(tmp_path, text) == [
        ":1: model: 5 should be a text; put it in quotes",
        ":1: engines: is missing",
        ":2: engine: unknown key; did you mean engines?",
        ":4: datasets[0].name: 'a/b' must be letters, digits, '.', '_' or '-', since it names the dataset's folder",
        ":6: datasets[0].budget: '10X' is not a count; write for example 10M, 250k or 10_000_000",
        ":7: datasets[0].samples: 1.5 is not a count; write for example 10M, 250k or 10_000_000",
        ":8: datasets[0].n: 0 should be greater than or equal to 1",
        ":9: datasets[0].lane: no lane 'shrt'; did you mean short?",
        ":10: datasets[0].colum: unknown key; did you mean column?",
        ":11: datasets[0].sampling.temprature: unknown key; did you mean temperature?",
        ":12: datasets[1]: 7 should be a mapping of keys to values",
        ":13: datasets[2].name: is missing",
        ":15: lanes.short.max_new_tokens: -1 is not a count; write for example 10M, 250k or 10_000_000",
        ":15: lanes.short.concurrency: 0 must be auto or a whole number from 1 to 100000",
        ":15: lanes.short.foo: unknown key; there are max_new_tokens, concurrency",
        ":17: sampling.temprature: unknown key; did you mean temperature?",
        ":18: sampling.top_p: 2 should be less than or equal to 1",
        ":19: sampling.top_k: -5 must be -1 (off) or at least 1",
        ":20: seed: 'x' should be a whole number",
    ]


@pytest.mark.parametrize("value", ["off", "'off'", "false"])
def test_what_yaml_reads_as_false_turns_checkpoints_off(tmp_path: Path, value: str) -> None:
    (tmp_path / "r.yaml").write_text(ONE + f"checkpoint_partials: {value}\n")
    assert load(tmp_path / "r.yaml").checkpoint_partials is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (ONE + "lanes: {}\n", ":4: lanes: is empty; at least one is needed"),
        (ONE + "lanes: [short]\n", ":4: lanes: should be a mapping of keys to values"),
        (ONE + "lanes: {int: {max_new_tokens: x}, short: }\n", ":4: lanes.int.max_new_tokens: 'x' is not a count"),
        (ONE + "trust_remote_code: maybe\n", ":4: trust_remote_code: 'maybe' should be true or false"),
        (ONE + "seed: yes\n", ":4: seed: True is no number"),
        (ONE + "checkpoint_partials: on\n", ":4: checkpoint_partials: True is not a duration"),
        (ONE.replace("source: x", "source: x, n: on"), ":3: datasets[0].n: True is no number"),
        (ONE.replace("source: x", 'source: "a\\0b"'), ":3: datasets[0].source: 'a\\x00b' is no name of a file"),
        (ONE + "max_error_share: 5%\n", ":4: max_error_share: '5%' should be a number"),
        (
            ONE.replace("source: x", "source: x, long_prompts: {over: 4k, lane: logn}"),
            ":3: datasets[0].long_prompts.lane: no lane 'logn'",
        ),
        (
            ONE.replace("source: x", "source: x, long_prompts: {over: 4k, lane: short, ovr: 1}"),
            ":3: datasets[0].long_prompts.ovr: unknown key; did you mean over?",
        ),
        (ONE + "order: longest-first\n", ":4: order: 'longest-first'"),
        (ONE + "1: x\n", ":4: [1]: 1 should be a text"),
        (ONE + "seed: 1\nseed: 2\n", ":4: seed: stands twice, in line 4 and 5"),
        (ONE + "lanes:\n  short: {}\n  short: {}\n", ":5: lanes.short: stands twice, in line 5 and 6"),
        (ONE + "template: {tokenize: true}\n", ":4: template: tokenize cannot be set here"),
        (ONE.replace("source: x", "source: x, template: {tools: []}"), ":3: datasets[0].template: tools cannot be set"),
        (ONE.replace("[embedded]", "[]"), ":2: engines: is empty; at least one is needed"),
        (ONE.replace("[embedded]", "embeded"), ":2: engines[0].url: is not a server's URL"),
        (ONE.replace("[embedded]", "[{kind: sglang}]"), ":2: engines[0]: needs either a url or kind: embedded"),
        (
            ONE.replace("[embedded]", "[{url: 'http://h:1', slots: 4}]"),
            ":2: engines[0]: slots can be set for kind: embedded only",
        ),
        (
            ONE.replace("[embedded]", "[{url: 'http://h:1', kind: tgi}]"),
            ":2: engines[0].kind: 'tgi' should be 'auto', 'sglang', 'vllm', 'llamacpp' or 'embedded'",
        ),
        (
            ONE + "sampling: {presence_penalty: 0.5}\n",
            ":4: sampling.presence_penalty: llama.cpp (embedded) counts the prompt in it",
        ),
        (
            ONE.replace("[embedded]", "['http://h:1', {url: 'http://h:1/'}]"),
            ":2: engines[1].url: is the same server as an earlier engine",
        ),
        (ONE.replace("name: a", "name: tokenizer"), ":3: datasets[0].name: 'tokenizer' is the name of something else"),
        (
            ONE.replace("name: a", "name: voices.json"),
            ":3: datasets[0].name: 'voices.json' is the name of",
        ),
        (ONE.replace("name: a", "name: 7"), ":3: datasets[0].name: 7 should be a text; put it in quotes"),
        (ONE.replace("model: m", "model: ''"), ":1: model: '' is empty"),
        (ONE.replace("model: m", "model:"), ":1: model: is missing"),
        (SMALL.replace("name: b", "name: a"), ":5: datasets[1].name: 'a' is already taken by an earlier dataset"),
        (SMALL.replace("name: b", "name: A"), ":5: datasets[1].name: 'A' is already taken by an earlier dataset"),
        (SMALL.replace("b.jsonl", "b.jsonl, lane: long"), ":5: datasets[1].lane: no lane 'long'; there are short"),
        (
            SMALL.replace("b.jsonl", "b.jsonl, sampling: {top_p: 3}"),
            ":5: datasets[1].sampling.top_p: 3 should be less than or equal to 1",
        ),
        (
            SMALL.replace("b.jsonl", "b.jsonl, sampling: hot"),
            ":5: datasets[1].sampling: 'hot' should be a mapping of keys to values",
        ),
    ],
)
def test_one_fault(tmp_path: Path, text: str, fault: str) -> None:
    found = faults(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_a_recipe_made_in_code_is_checked_too() -> None:
    data = {"model": "m", "engines": "embedded", "datasets": [{"name": "a", "source": "x", "lane": "long"}]}
    with pytest.raises(ValidationError):
        Recipe.model_validate(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [\n", "r.yaml:2: not valid YAML: expected the node content"),
        ("model: m\na: b: c\n", "r.yaml:2: not valid YAML: mapping values are not allowed here"),
        ("model: m\n\tseed: 1\n", "r.yaml:2: not valid YAML: found character '\\t'"),
        ("model: \x00\n", "r.yaml: not valid YAML: unacceptable character #x0000"),
        ("model: !!python/object:os.system {}\n", "r.yaml:1: not valid YAML: could not determine a constructor"),
        ("a: 1\n---\nb: 2\n", "r.yaml:2: not valid YAML: but found another document"),
        ("- model\n", "r.yaml: a recipe is a mapping of model, engines, datasets"),
        ("just words\n", "r.yaml: a recipe is a mapping of model, engines, datasets"),
        ("", "r.yaml: a recipe is a mapping of model, engines, datasets"),
    ],
)
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(write(tmp_path, text))
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no such recipe") as caught:
        load(tmp_path / "none.yaml")
    assert "draftmill init" in caught.value.advice
    with pytest.raises(RecipeError, match="cannot be read: Is a directory"):
        load(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("model: é\n".encode("latin-1"))
    with pytest.raises(RecipeError, match="it is not UTF-8 text"):
        load(tmp_path / "latin.yaml")


# secrets

SECRET = "hunter2"


@pytest.mark.parametrize(
    "engine",
    [
        f"'http://bob:{SECRET}@h:1'",
        f"'http://{SECRET}@h:1/v1'",
        f"'http://h:1?token={SECRET}'",
        f"'http://h:1#{SECRET}'",
        f"'bob:{SECRET}@h:1'",
        f"{{url: 'http://bob:{SECRET}@h:1', concurrency: x}}",
        f"{{kind: embedded, url: 'http://bob:{SECRET}@h:1'}}",
        f"{{url: 'http://h:1', api_key: {SECRET}}}",
        f"{{url: 'http://h:1', api_key_env: sk-{SECRET}}}",
    ],
)
def test_a_secret_is_refused_and_not_repeated(tmp_path: Path, engine: str) -> None:
    for text in (f"[{engine}]", engine):
        found = faults(tmp_path, ONE.replace("[embedded]", text))
        assert found
        assert SECRET not in " ".join(found)


def test_a_secret_in_an_override_is_refused_and_not_repeated(tmp_path: Path) -> None:
    found = faults(tmp_path, ONE, engines=("embedded", f"http://bob:{SECRET}@h:1"))
    assert len(found) == 1
    assert found[0].startswith("--engine: url: is not a server's URL")
    assert SECRET not in found[0]


# overrides


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ("embedded:slots=x", "slots: 'x' should be a whole number"),
        ("embedded:slot=4", "slot: "),
        ("embedded:url=http://h:1", "needs either a url or kind: embedded"),
    ],
)
def test_an_engine_of_the_command_line_names_its_key(tmp_path: Path, engine: str, why: str) -> None:
    (found,) = faults(tmp_path, ONE, engines=(engine,))
    assert found.startswith(f"--engine: {why}")


def test_auto_is_none_of_the_formats(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, ONE.replace("source: x", "source: x, format: sharegtp"))
    assert found.endswith(
        "did you mean sharegpt? There are " + ", ".join(FORMATS[1:]) + ", or auto to have it found out"
    )


def test_engines_of_the_command_line_replace_the_recipes(tmp_path: Path) -> None:
    recipe = load(write(tmp_path, ONE), Overrides(engines=("http://h:1", "http://h:2")))
    assert [engine.url for engine in recipe.engines] == ["http://h:1", "http://h:2"]


def test_budget_and_samples_go_to_every_dataset_or_to_those_named(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL.replace("b.jsonl", "b.jsonl, budget: 7"))
    every = load(path, Overrides(budget="1k", samples="20"))
    assert [(d.budget, d.samples) for d in every.datasets] == [(1000, 20), (1000, 20)]
    only = load(path, Overrides(budget="1k", only=("a",)))
    assert [d.budget for d in only.datasets] == [1000, 7]
    each = load(path, Overrides(budget="a=4.2k", samples="9, b = 2k"))
    assert [(d.budget, d.samples) for d in each.datasets] == [(4200, 9), (7, 2000)]


def test_native_tools_go_to_every_dataset_or_to_those_named(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    for only, lifted in (((), [True, True]), (("b",), [False, True])):
        recipe = load(path, Overrides(native_tools=True, only=only))
        assert [d.native_tools for d in recipe.datasets] == lifted
    kept = load(write(tmp_path, SMALL.replace("a.jsonl", "a.jsonl, native_tools: true")), Overrides())
    assert [d.native_tools for d in kept.datasets] == [True, False]


LANES = "lanes: {short: {max_new_tokens: 100, concurrency: 4}, long: }\n"


@pytest.mark.parametrize(
    ("lanes", "overrides", "expected"),
    [
        ("", {"concurrency": "8"}, {"short": (4096, 8)}),
        ("", {"concurrency": "short=8"}, {"short": (4096, 8)}),
        ("", {"max_new_tokens": "4k"}, {"short": (4000, "auto")}),
        ("lanes:\n", {"max_new_tokens": "4k"}, {"short": (4000, "auto")}),
        (LANES, {"concurrency": "8"}, {"short": (100, 8), "long": (4096, 8)}),
        (LANES, {"concurrency": "long=8"}, {"short": (100, 4), "long": (4096, 8)}),
        (LANES, {"concurrency": "short=auto,long=32"}, {"short": (100, "auto"), "long": (4096, 32)}),
        (LANES, {"max_new_tokens": "64, long = 1.5k"}, {"short": (64, 4), "long": (1500, "auto")}),
        (LANES, {"max_new_tokens": "9", "concurrency": "1"}, {"short": (9, 1), "long": (9, 1)}),
    ],
)
def test_lanes_of_the_command_line(tmp_path: Path, lanes: str, overrides: Any, expected: object) -> None:
    recipe = load(write(tmp_path, ONE + lanes), Overrides(**overrides))
    assert {n: (lane.max_new_tokens, lane.concurrency) for n, lane in recipe.lanes.items()} == expected


@pytest.mark.parametrize(
    ("overrides", "found"),
    [
        ({"only": ("c",)}, ["--only c: no dataset 'c'; there are a, b"]),
        ({"budget": "1x"}, ["--budget 1x: is not a count; write for example 10M, 250k or 10_000_000"]),
        (
            {"budget": "a=1x,c=5"},
            [
                "--budget a=1x: is not a count; write for example 10M, 250k or 10_000_000",
                "--budget c=5: no dataset 'c'; there are a, b",
            ],
        ),
        ({"samples": "0"}, ["--samples 0: is not a count; write for example 10M, 250k or 10_000_000"]),
        ({"concurrency": "long=8"}, ["--concurrency long=8: no lane 'long'; there are short"]),
        ({"concurrency": "shor=8"}, ["--concurrency shor=8: no lane 'shor'; did you mean short?"]),
        ({"concurrency": "²"}, ["--concurrency ²: must be auto or a whole number from 1 to 100000"]),
        ({"concurrency": ""}, ["--concurrency '': must be auto or a whole number from 1 to 100000"]),
        ({"concurrency": "short=0"}, ["--concurrency short=0: must be auto or a whole number from 1 to 100000"]),
        (
            {"max_new_tokens": "short=4x"},
            ["--max-new-tokens short=4x: is not a count; write for example 10M, 250k or 10_000_000"],
        ),
        (
            {"only": ("c",), "budget": "x", "max_new_tokens": "long=8,short=0"},
            [
                "--only c: no dataset 'c'; there are a, b",
                "--budget x: is not a count; write for example 10M, 250k or 10_000_000",
                "--max-new-tokens long=8: no lane 'long'; there are short",
                "--max-new-tokens short=0: is not a count; write for example 10M, 250k or 10_000_000",
            ],
        ),
    ],
)
def test_an_override_that_does_not_fit(tmp_path: Path, overrides: Any, found: list[str]) -> None:
    assert faults(tmp_path, SMALL, **overrides) == found


def test_the_recipes_own_faults_are_told_under_overrides_too(tmp_path: Path) -> None:
    found = faults(tmp_path, "model: m\ndatasets: 3\n", only=("a",), concurrency="8")
    assert found == [":1: engines: is missing", ":2: datasets: 3 should be a list"]
