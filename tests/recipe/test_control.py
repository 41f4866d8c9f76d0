from pathlib import Path

import pytest

from draftmill.errors import RecipeError
from draftmill.recipe import Control, EngineSpec, Recipe, read_control

A, B, C = "http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"


@pytest.fixture
def recipe() -> Recipe:
    return Recipe.model_validate(
        {
            "model": "m",
            "engines": [A, {"url": B, "kind": "vllm", "concurrency": 9}, "embedded", "embedded"],
            "lanes": {"short": {"concurrency": 150}, "long": {}},
            "datasets": [{"name": "chat", "source": "x", "budget": "10M"}, {"name": "code", "source": "y"}],
        }
    )


def follow(tmp_path: Path, text: str) -> Control:
    path = tmp_path / "control.yaml"
    path.write_text(text)
    return read_control(path)


def engines(recipe: Recipe) -> list[tuple[str | None, str, object]]:
    return [(spec.url, spec.kind, spec.concurrency) for spec in recipe.engines]


def test_no_file_and_an_empty_one_change_nothing(tmp_path: Path, recipe: Recipe) -> None:
    for control in (read_control(tmp_path / "none"), follow(tmp_path, ""), follow(tmp_path, "# nothing yet\n")):
        assert control.over(recipe) == recipe and not control.pause


def test_caps_and_budgets_lie_over_the_recipe_s(tmp_path: Path, recipe: Recipe) -> None:
    now = follow(tmp_path, "concurrency: {short: auto, long: 32}\nbudgets: {code: 8M}\n").over(recipe)
    assert [lane.concurrency for lane in now.lanes.values()] == ["auto", 32]
    assert [d.budget for d in now.datasets] == [10_000_000, 8_000_000]
    assert recipe.datasets[1].budget is None


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        (f"{A}: off", [(B, "vllm", 9), (None, "embedded", "auto"), (None, "embedded", "auto")]),
        (f"{B}: off\n  embedded: off", [(A, "auto", "auto")]),
        (f"{A}/: 64\n  {B}: auto\n  embedded: off", [(A, "auto", 64), (B, "vllm", "auto")]),
        (f"{A}: on\n  embedded: off\n  {C}: on", [(A, "auto", "auto"), (B, "vllm", 9), (C, "auto", "auto")]),
        (
            f"{A}: off\n  embedded: off\n  {C}: {{kind: sglang, concurrency: 7, api_key_env: K}}",
            [(B, "vllm", 9), (C, "sglang", 7)],
        ),
    ],
)
def test_engines_come_and_go(tmp_path: Path, recipe: Recipe, wishes: str, expected: object) -> None:
    assert engines(follow(tmp_path, f"engines:\n  {wishes}\n").over(recipe)) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pause: on\n\npaus: yes\n", "control.yaml:3: paus: unknown key; did you mean pause?"),
        ("budgets:\n  chat: 12Q\n", "control.yaml:2: budgets.chat: '12Q' is not a count"),
        (f"engines:\n  {A}: -3\n", f"engines.{A}: must be auto or a whole number"),
        (f"engines:\n  {A}: {{slots: 3}}\n", "slots can be set for kind: embedded only"),
        ("engines: {http://me:secret@host: on}\n", "a key is not a server's URL"),
        ("- 1\n", "control.yaml:1: control: should be a mapping"),
        ("pause: [\n", "control.yaml:2: not valid YAML"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_no_secret(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(RecipeError) as caught:
        follow(tmp_path, text)
    said = " ".join([caught.value.message, *caught.value.faults])
    assert told in said and "secret" not in said


def test_a_name_that_the_run_does_not_have_is_told(recipe: Recipe) -> None:
    control = Control(concurrency={"lonh": 3}, budgets={"chatt": 5})
    with pytest.raises(RecipeError) as caught:
        control.over(recipe)
    assert caught.value.faults == [
        "budgets: no dataset 'chatt'; did you mean chat?",
        "concurrency: no lane 'lonh'; did you mean long?",
    ]


def test_its_text_reads_back(tmp_path: Path) -> None:
    control = Control(
        pause=True, concurrency={"short": "auto"}, budgets={"chat": 5}, engines={A: False, B: 4, C: {"kind": "vllm"}}
    )
    assert follow(tmp_path, control.text()) == control
    assert Control().text() == ""


def test_an_engine_keeps_what_the_recipe_says_of_it(recipe: Recipe) -> None:
    (spec,) = [s for s in Control(engines={B: {"api_key_env": "K"}}).over(recipe).engines if s.url == B]
    assert spec == EngineSpec(url=B, kind="vllm", concurrency=9, api_key_env="K")


def test_a_server_is_the_same_by_another_of_its_names(tmp_path: Path, recipe: Recipe) -> None:
    local = A.replace("127.0.0.1", "LocalHost")
    now = follow(tmp_path, f"engines: {{{local}: off, embedded: off}}").over(recipe)
    assert [spec.url for spec in now.engines] == [B]
    control = Control(engines={A: 64})
    assert control.engines_with({local: False}) == {local: False}
    assert control.engines_with({B: True}) == {A: 64, B: True}
    with pytest.raises(RecipeError, match="cannot be followed") as caught:
        follow(tmp_path, f"engines: {{{local}: on, {A}: off}}")
    assert f"{local} and {A} are the same server" in " ".join(caught.value.faults)
