"""``markers``: what a person says of a model's markers, checked as the rest of a recipe is."""

from pathlib import Path

import pytest

from draftmill.errors import RecipeError
from draftmill.recipe import Markers, Recipe, load
from draftmill.render.families import Body
from draftmill.render.markers import Custom, custom

HEAD = "model: m\nengines: [embedded]\ndatasets: [{name: a, source: x}]\n"


def read(folder: Path, markers: str) -> Recipe:
    path = folder / "r.yaml"
    path.write_text(f"{HEAD}markers: {markers}\n")
    return load(path)


def test_every_key(tmp_path: Path) -> None:
    said = read(
        tmp_path,
        "{family: qwen3, thinking: [<a>, </a>], section: [<s>, </s>], call: [<c>, ''], separator: '|', body: kimi,"
        " turn_ends: <end>}",
    ).markers
    assert custom(said) == Custom(
        family="qwen3",
        thinking=("<a>", "</a>"),
        section=("<s>", "</s>"),
        call=("<c>", ""),
        separator="|",
        body=Body.KIMI,
        turn_ends=("<end>",),
    )


def test_nothing_said_is_nothing_asked() -> None:
    assert custom(Markers()) == Custom()


def test_a_run_reads_them_back_as_they_were(tmp_path: Path) -> None:
    recipe = read(tmp_path, "{thinking: [<a>, </a>], turn_ends: [x, y]}")
    assert Recipe.model_validate(recipe.model_dump(mode="json")).markers == recipe.markers


@pytest.mark.parametrize(
    ("markers", "fault"),
    [
        ("{famly: qwen3}", "markers.famly: unknown key; did you mean family?"),
        ("{family: qwen4}", "markers.family: 'qwen4' should be 'kimi',"),
        ("{body: yaml}", "markers.body: 'yaml' should be 'json',"),
        ("{thinking: <think>}", "markers.thinking: '<think>' should be two texts: [where it begins, where it ends]"),
        ("{thinking: [a, b, c]}", "markers.thinking: should be two texts"),
        ("{thinking: [a, '']}", "markers.thinking: should be two texts, neither of them empty"),
        ("{call: ['', a]}", "markers.call: should begin with a text"),
        ("{separator: ''}", "markers.separator: '' is empty"),
        ("{turn_ends: ['']}", "markers.turn_ends[0]: '' is empty"),
        ("{thinking: [a, a]}", "markers: 'a' cannot mean two things"),
        ("{thinking: [a, b], call: [b, c], turn_ends: [c]}", "markers: 'b', 'c' cannot mean two things"),
    ],
)
def test_a_fault(tmp_path: Path, markers: str, fault: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read(tmp_path, markers)
    (found,) = caught.value.faults
    assert found.removeprefix(f"{tmp_path / 'r.yaml'}:4: ").startswith(fault)
