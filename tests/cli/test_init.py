"""``draftmill init``: a recipe that holds as it stands and shows every key."""

import re
from pathlib import Path

import pytest
import yaml

from draftmill import recipe as recipes
from draftmill.recipe import Dataset, EngineSpec, Lane, Load, Markers, Plan, Recipe, Sampling, Start
from tests.cli.command import draftmill


def test_init_writes_a_recipe_that_holds(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    done = draftmill("init", path)
    assert done.returncode == 0, done.stderr
    assert f"draftmill prepare {path}" in done.stdout
    recipe = recipes.load(path)
    assert [dataset.name for dataset in recipe.datasets] == ["chat", "code"]
    assert recipe.sampling_of(recipe.dataset("code")).temperature == 0.6


def test_init_leaves_a_file_that_is_there_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine\n")
    done = draftmill("init", path)
    assert done.returncode == 1
    assert "exists already and is left as it is" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_text() == "mine\n"


def test_init_without_a_folder(tmp_path: Path) -> None:
    done = draftmill("init", tmp_path / "none" / "mine.yaml")
    assert done.returncode == 1
    assert "cannot be written: No such file or directory" in done.stderr


EXAMPLE = Path(recipes.__file__).parent.parent / "examples" / "recipe.yaml"


@pytest.mark.parametrize("part", [Recipe, Sampling, Lane, EngineSpec, Dataset, Markers, Plan, Start, Load])
def test_the_example_shows_every_key(part: type) -> None:
    shown = set(re.findall(r"(?:^[ #-]*|[{,] ?)([a-z_]+):", EXAMPLE.read_text(), re.MULTILINE))
    assert part.model_fields.keys() - shown == set()  # type: ignore[attr-defined]


def test_the_example_shows_the_defaults_where_it_says_so(tmp_path: Path) -> None:
    """With its commented lines put to work, the recipe stays valid, and a value shown as a default is the default."""
    text = re.sub(r"^( *)# ( *)(?=(- )?[a-z_]+:( |$))", r"\1\2", EXAMPLE.read_text(), flags=re.MULTILINE)
    data = yaml.safe_load(text)
    recipe = recipes.validate(data, "example")
    assert recipe.trust_remote_code is Recipe.model_fields["trust_remote_code"].default
    assert recipe.sampling == Sampling(temperature=1.0, top_p=0.95)
    assert recipe.lanes["short"] == Lane()
    assert (recipe.seed, recipe.max_error_share) == (0, 0.05)
    embedded = EngineSpec(kind="embedded")
    assert (recipe.engines[2].slots, recipe.engines[2].context) == (embedded.slots, embedded.context)
    chat = recipe.dataset("chat")
    assert (chat.format, chat.lane, chat.n) == ("auto", "short", 1)
