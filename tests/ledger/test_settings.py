from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.errors import RunError, StorageError
from draftmill.journal.folder import RunFolder
from draftmill.ledger.settings import (
    beside,
    changes,
    harmless,
    merged,
    read_settings,
    refuse_changes,
    settings_of,
    write_settings,
)
from draftmill.recipe import Recipe

BASE: dict[str, Any] = {
    "model": "m",
    "engines": ["http://127.0.0.1:1"],
    "datasets": [{"name": "a", "source": "a.jsonl"}, {"name": "b", "source": "b.jsonl"}],
}


def recipe(**values: Any) -> Recipe:
    return Recipe.model_validate(BASE | values)


def dataset(**values: Any) -> list[dict[str, Any]]:
    return [BASE["datasets"][0] | values, BASE["datasets"][1]]


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        ({}, []),
        ({"engines": ["embedded"]}, []),
        ({"lanes": {"short": {"max_new_tokens": 9, "concurrency": 3}}}, []),
        ({"max_error_share": 0.5}, []),
        ({"order": "one-by-one"}, []),
        ({"datasets": dataset(budget="1M", samples=5)}, []),
        ({"datasets": dataset(budget="1M", budget_counts="all")}, []),
        ({"datasets": BASE["datasets"][:1]}, []),
        ({"datasets": [*BASE["datasets"], {"name": "c", "source": "c"}]}, []),
        ({"seed": 1}, ["seed: 0 → 1"]),
        ({"datasets": dataset(source="x")}, ["a.source: 'a.jsonl' → 'x'"]),
        ({"datasets": dataset(n=2, system="be brief")}, ["a.n: 1 → 2", "a.system: None → 'be brief'"]),
        (
            {"sampling": {"top_p": 0.5}},
            ["a.sampling.top_p: 1.0 → 0.5", "b.sampling.top_p: 1.0 → 0.5"],
        ),
        ({"datasets": dataset(sampling={"top_k": 5})}, ["a.sampling.top_k: -1 → 5"]),
        ({"datasets": dataset(template={"thinking": True})}, ["a.template.thinking: None → True"]),
        ({"datasets": dataset(native_tools=True)}, ["a.native_tools: False → True"]),
        ({"markers": {"family": "glm"}}, ["markers.family: None → 'glm'"]),
    ],
)
def test_what_may_change_and_what_may_not(now: dict[str, Any], changed: list[str]) -> None:
    assert changes(recipe(), recipe(**now)) == changed


def test_settings_read_back_as_they_were_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert read_settings(folder) is None
    frozen = settings_of(
        recipe(), date="2026-01-01", files={"f": "1"}, digests=("t", "c"), vocab_size=9, stop_ids=(2, 5)
    )
    write_settings(folder, frozen)
    again = read_settings(folder)
    assert again == frozen
    refuse_changes(folder, frozen, Recipe.model_validate(frozen.recipe))
    with pytest.raises(RunError, match=r"begun with other settings: seed: 0 → 7"):
        refuse_changes(folder, frozen, recipe(seed=7))


def test_a_dataset_without_prompts_binds_nothing_yet(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    frozen = settings_of(recipe(), date="2026-01-01", files={}, digests=("t", "c"), vocab_size=9, stop_ids=(2,))
    mended = recipe(datasets=dataset(format="sharegpt", template={"thinking": True}))
    refuse_changes(folder, frozen, mended)
    folder.dataset("a").path.mkdir()
    folder.dataset("a").prompts.touch()
    with pytest.raises(RunError, match=r"a\.format: 'auto' → 'sharegpt'; a\.template\.thinking: None → True"):
        refuse_changes(folder, frozen, mended)


def test_a_dataset_that_is_left_out_stays_in_the_run() -> None:
    frozen = settings_of(
        recipe(lanes={"short": {}, "long": {}}, datasets=dataset(lane="long")),
        date="2026-01-01",
        files={},
        digests=("t", "c"),
        vocab_size=9,
        stop_ids=(2,),
    )
    now = merged(frozen, recipe(datasets=[BASE["datasets"][1] | {"budget": "2k"}]))
    kept = Recipe.model_validate(now.recipe)
    assert {d.name: (d.lane, d.budget) for d in kept.datasets} == {"b": ("short", 2000), "a": ("long", None)}


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"sampling": {"top_p": 0.95}}, {"sampling": {"top_p": 0.5}}),
        ({"sampling": {"top_p": 0.95}}, {}),
        ({}, {"sampling": {"top_k": 5}}),
        ({"template": {"thinking": True}}, {"template": {"thinking": False}}),
        ({}, {"template": {"thinking": True}}),
        ({"template": {"thinking": True}}, {}),
        ({"languages": ["en"]}, {"languages": ["de"]}),
        ({"duplicates": "exact"}, {"min_prompt_tokens": 7}),
    ],
)
def test_a_dataset_that_was_left_out_comes_back_only_as_it_was(
    tmp_path: Path, then: dict[str, Any], now: dict[str, Any]
) -> None:
    """What it inherits decides its answers too: by the way of another dataset as straight from one to the other."""
    folder = RunFolder(tmp_path)
    for name in "ab":
        folder.dataset(name).path.mkdir()
        folder.dataset(name).prompts.touch()
    alone, other = BASE["datasets"][:1], [{"name": "c", "source": "c.jsonl"}]
    begun = settings_of(recipe(**then), date="", files={}, digests=("", ""), vocab_size=9, stop_ids=(2,))
    between = merged(begun, recipe(datasets=other, **now))
    assert between.left_out == ["a", "b"]
    assert merged(between, recipe(datasets=other, **now)) == between
    straight = changes(recipe(**then), recipe(datasets=alone, **now))
    assert straight and changes(Recipe.model_validate(between.recipe), recipe(datasets=alone, **now)) == straight
    with pytest.raises(RunError, match="begun with other settings"):
        refuse_changes(folder, between, recipe(datasets=alone, **now))
    refuse_changes(folder, between, recipe(datasets=alone, **then))
    back = merged(between, recipe(**then))
    assert back.left_out == ["c"] and changes(recipe(datasets=other, **now), Recipe.model_validate(back.recipe)) == []
    assert harmless(begun, between) == ["datasets.a left out", "datasets.b left out", "with datasets.c"]


def test_until_a_start_is_accepted_its_new_datasets_stand_beside_the_run() -> None:
    frozen = settings_of(
        recipe(datasets=dataset(samples=5)), date="", files={}, digests=("", ""), vocab_size=9, stop_ids=(2,)
    )
    assert beside(frozen, recipe(datasets=dataset(samples=5)), {"a"}) == frozen
    assert beside(frozen, recipe(datasets=dataset(samples=9), engines=["embedded"]), {"a", "b"}) == frozen
    today = recipe(datasets=[*BASE["datasets"], {"name": "c", "source": "c"}], sampling={"top_p": 0.5})
    stands = beside(frozen, today, {"a"})  # b has no prompts yet: today's are made as today's recipe says
    read = Recipe.model_validate(stands.recipe)
    assert stands.left_out == ["c"]
    assert {d.name: read.sampling_of(d).top_p for d in read.datasets} == {"a": 1.0, "b": 0.5, "c": 0.5}
    assert beside(stands, today, {"a", "b", "c"}) == stands
    assert merged(stands, recipe(datasets=dataset(samples=5))).left_out == ["c"]


@pytest.mark.parametrize("text", ["", "recipe: [", "date: 5", "\0"])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(StorageError, match=r"run\.yaml: cannot be read"):
        read_settings(RunFolder(tmp_path))


def test_what_changed_harmlessly_is_named() -> None:
    old = settings_of(recipe(), date="2026-01-01", files={}, digests=("t", "c"), vocab_size=9, stop_ids=(2,))
    new = merged(old, recipe(datasets=dataset(budget="1k")))
    assert harmless(old, new) == ["datasets.a.budget: none → 1000"]
    assert harmless(old, old) == []
    moved = merged(old, recipe(engines=["http://127.0.0.1:2", "embedded"]))
    expected = ["with engines.embedded", "with engines.http://127.0.0.1:2", "without engines.http://127.0.0.1:1"]
    assert harmless(old, moved) == expected
    twice = merged(moved, recipe(engines=["http://127.0.0.1:2", "embedded", "embedded"]))
    assert harmless(moved, twice) == ["with engines.embedded-2"]


def test_a_dataset_that_leaves_the_recipe_and_comes_back_is_told() -> None:
    frozen = settings_of(recipe(), date="", files={}, digests=("", ""), vocab_size=9, stop_ids=(2,))
    without = merged(frozen, recipe(datasets=BASE["datasets"][:1]))
    assert without.left_out == ["b"] and changes(recipe(), Recipe.model_validate(without.recipe)) == []
    assert harmless(frozen, without) == ["datasets.b left out"]
    again = merged(without, recipe())
    assert again == frozen and harmless(without, again) == ["datasets.b again"]


@pytest.mark.parametrize(
    ("data", "told"), [({"modell": "x"}, "recipe.model: Field required"), ([], "Expected `object`")]
)
def test_a_recipe_that_was_damaged_in_it_is_told(tmp_path: Path, data: Any, told: str) -> None:
    folder = RunFolder(tmp_path)
    frozen = settings_of(recipe(), date="", files={}, digests=("", ""), vocab_size=9, stop_ids=(2,))
    write_settings(folder, msgspec.structs.replace(frozen, recipe=data))
    with pytest.raises(StorageError, match=r"run\.yaml: cannot be read: ") as caught:
        read_settings(folder)
    assert told in caught.value.message
