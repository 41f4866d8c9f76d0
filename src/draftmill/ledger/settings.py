"""``run.yaml``: what a run was begun with. A continued run that would mix two kinds of data is refused.

Budgets, samples, concurrency, token limits, engines and further datasets may change from one start to the next.
What decides the distribution of the answers or the identity of a prompt may not.
"""

from collections import Counter
from typing import Any

import msgspec
import yaml
from pydantic import ValidationError

from draftmill import __version__
from draftmill.errors import RunError, StorageError
from draftmill.journal.files import replacing
from draftmill.journal.folder import RunFolder
from draftmill.recipe import Dataset, Recipe, Sampling

_SHOWN = 4  # changes that a message names
# of one dataset; `name` ties it to its older self
_FROZEN_DATASET = (
    *("source", "format", "column", "subset", "n", "system", "native_tools", "turns", "history"),
    *("where", "languages", "duplicates", "min_prompt_tokens", "max_prompt_tokens"),
)

# what datasets inherit that decides their data, as it is where a recipe says nothing of it
_INHERITED: dict[str, Any] = {
    "sampling": Sampling().model_dump(),
    "template": {},
    "duplicates": "keep",
    "languages": [],
    "min_prompt_tokens": None,
    "max_prompt_tokens": None,
}
_NEVER_UNSAID = ("template", "min_prompt_tokens", "max_prompt_tokens")  # a dataset cannot say "none" over the recipe's


class Settings(msgspec.Struct, frozen=True):
    """A run's frozen settings. ``date`` is what templates get for today; ``files`` are digests of the model's files.

    ``left_out`` are datasets that the run has and today's recipe has not.
    """

    draftmill: str
    date: str
    recipe: dict[str, Any]
    files: dict[str, str]
    tokenizer_sha256: str
    template_sha256: str
    vocab_size: int
    stop_ids: list[int]
    left_out: list[str] = []


def read_settings(folder: RunFolder) -> Settings | None:
    """The settings of a run, or None where none has begun. Raises StorageError for a damaged file."""
    try:
        settings = msgspec.convert(yaml.safe_load(folder.settings.read_text()), Settings)
        Recipe.model_validate(settings.recipe)
        return settings
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        fault = error.errors()[0]
        what = f"{'.'.join(map(str, ('recipe', *fault['loc'])))}: {fault['msg']}"
        raise StorageError(f"{folder.settings}: cannot be read: {what}", "restore it, or start a new run") from None
    except (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError) as error:
        first = str(error).splitlines()[0]
        raise StorageError(f"{folder.settings}: cannot be read: {first}", "restore it, or start a new run") from error


def write_settings(folder: RunFolder, settings: Settings) -> None:
    text = yaml.safe_dump(msgspec.to_builtins(settings), sort_keys=False, allow_unicode=True)
    with replacing(folder.settings) as temporary:
        temporary.write_text(text)


def settings_of(
    recipe: Recipe,
    *,
    date: str,
    files: dict[str, str],
    digests: tuple[str, str],
    vocab_size: int,
    stop_ids: tuple[int, ...],
) -> Settings:
    """The settings of a run that begins now. ``digests`` are the tokenizer's and the template's."""
    return Settings(__version__, date, recipe.resolved(), files, *digests, vocab_size, list(stop_ids))


def refuse_changes(folder: RunFolder, frozen: Settings, recipe: Recipe) -> None:
    """Raises RunError naming every setting that may not change and did.

    A dataset without prompts binds nothing yet: what kept it from being prepared can be mended.
    """
    begun = {dataset.name for dataset in folder.begun()}
    old = Recipe.model_validate(frozen.recipe)
    bound = old.model_copy(update={"datasets": [d for d in old.datasets if d.name in begun]})
    changed = changes(bound, recipe)
    if changed:
        raise RunError(
            f"{folder.path}: this run was begun with other settings: " + "; ".join(changed),
            "put them back, or give another --out: answers of different settings are not mixed in one run",
        )


def merged(frozen: Settings, recipe: Recipe) -> Settings:
    """The settings with what may change taken from today's recipe; a dataset that it leaves out stays in the run, with
    all that it was made with."""
    now = recipe.resolved()
    now["engines"] = now["engines"] or frozen.recipe["engines"]  # for now every one of them is taken out
    names = {dataset["name"] for dataset in now["datasets"]}
    others = [d["name"] for d in frozen.recipe["datasets"] if d["name"] not in names]
    return msgspec.structs.replace(frozen, recipe=_joined(now, frozen.recipe), left_out=others)


def beside(frozen: Settings, recipe: Recipe, begun: set[str]) -> Settings:
    """What stands in the run until today's start is accepted: what stood there, and beside it, left out, the datasets
    that are new. ``begun`` are those that have prompts; the others bind nothing and are today's."""
    now = recipe.resolved()
    today = {dataset["name"]: dataset for dataset in _spread(now)["datasets"]}
    known = list(zip(frozen.recipe["datasets"], _spread(frozen.recipe)["datasets"], strict=True))
    kept = [d for d, full in known if d["name"] in begun or today.get(d["name"], full) == full]
    joined = _joined(frozen.recipe | {"datasets": kept}, now)
    new = [name for name in today if name not in {d["name"] for d in frozen.recipe["datasets"]}]
    return msgspec.structs.replace(frozen, recipe=joined, left_out=frozen.left_out + new)


def _joined(recipe: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A resolved recipe with the datasets and lanes of the other that it lacks, these with all that they inherited."""
    names = {dataset["name"] for dataset in recipe["datasets"]}
    others = [dataset for dataset in _spread(other)["datasets"] if dataset["name"] not in names]
    if others and any(recipe[key] != other.get(key, _INHERITED[key]) for key in _NEVER_UNSAID):
        datasets = [d | {"template": recipe["template"] | d["template"]} for d in recipe["datasets"]]
        recipe = recipe | {key: _INHERITED[key] for key in _NEVER_UNSAID} | {"datasets": datasets}
    return recipe | {"datasets": recipe["datasets"] + others, "lanes": other["lanes"] | recipe["lanes"]}


def _spread(recipe: dict[str, Any]) -> dict[str, Any]:
    """The same recipe with what its datasets inherit written into each of them, and nothing left to inherit."""
    read = Recipe.model_validate(recipe)
    full = read.resolved()["datasets"]
    own = [{"sampling": read.sampling_of(d).model_dump(), "template": read.template_of(d)} for d in read.datasets]
    return recipe | _INHERITED | {"datasets": [one | values for one, values in zip(full, own, strict=True)]}


def harmless(old: Settings, new: Settings) -> list[str]:
    """What differs between two resolved recipes, as ``path: old → new``, a few of the first.

    A dataset, lane or engine that only one of them has is named as a whole.
    """
    before, after = _parts(_spread(old.recipe)), _parts(_spread(new.recipe))
    changed = [f"without {name}" for name in before if name not in after]
    changed += [f"with {name}" for name in after if name not in before]
    changed += [f"datasets.{name} left out" for name in new.left_out if name not in old.left_out]
    changed += [f"datasets.{name} again" for name in old.left_out if name not in new.left_out]
    both = before.keys() & after.keys()
    pairs = [each for name in both for each in _differing(before[name], after[name], name)]
    changed += [f"{path}: {_said(one)} → {_said(other)}" for path, one, other in pairs]
    shown = sorted(changed)[:_SHOWN]
    return shown + ([f"and {len(changed) - _SHOWN} more"] if len(changed) > _SHOWN else [])


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Every path at which two resolved recipes have another value, with both; None where one of them has none there.

    A dataset, lane or engine that only one of them has is named as a whole.
    """
    before, after = _parts(one), _parts(other)
    found = [(name, part, None) for name, part in before.items() if name not in after]
    found += [(name, None, part) for name, part in after.items() if name not in before]
    both = [name for name in before if name in after]
    return found + [each for name in both for each in _differing(before[name], after[name], name)]


def _differing(one: Any, other: Any, name: str) -> list[tuple[str, Any, Any]]:
    a, b = _leaves(one, name), _leaves(other, name)
    return [(path, a.get(path), b.get(path)) for path in a | b if a.get(path) != b.get(path)]


def _said(value: object) -> str:
    return "none" if value is None else repr(value)


def _parts(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe's datasets, lanes, engines and other keys, each by its name."""
    named: dict[str, Any] = {}
    for key, value in recipe.items():
        if key == "lanes":
            named |= {f"lanes.{name}": lane for name, lane in value.items()}
        elif key in ("datasets", "engines"):
            seen: Counter[str] = Counter()
            for item in value:
                seen[name := item.get("name") or item.get("url") or item.get("kind")] += 1
                named[f"{key}.{name}" if seen[name] == 1 else f"{key}.{name}-{seen[name]}"] = item
        else:
            named[key] = value
    return named


def _leaves(value: Any, path: str) -> dict[str, Any]:
    """Every plain value of nested settings by its path."""
    if not isinstance(value, dict):
        return {path: value}
    return {k: v for key, item in value.items() for k, v in _leaves(item, f"{path}.{key}").items()}


def changes(old: Recipe, new: Recipe) -> list[str]:
    """Each setting that decides the data and differs, as ``path: old → new``. Pure."""
    pairs: list[tuple[str, object, object]] = [("seed", old.seed, new.seed)]
    markers = old.markers.model_dump(), new.markers.model_dump()
    pairs += [(f"markers.{key}", markers[0][key], markers[1][key]) for key in markers[0]]
    known = {dataset.name: dataset for dataset in old.datasets}
    for dataset in new.datasets:
        if dataset.name in known:
            pairs += _dataset_pairs(old, known[dataset.name], new, dataset)
    return list(dict.fromkeys(f"{path}: {a!r} → {b!r}" for path, a, b in pairs if a != b))


def _dataset_pairs(old: Recipe, before: Dataset, new: Recipe, now: Dataset) -> list[tuple[str, object, object]]:
    name = now.name
    pairs = [(f"{name}.{field}", getattr(before, field), getattr(now, field)) for field in _FROZEN_DATASET]
    sampling = old.sampling_of(before).model_dump(), new.sampling_of(now).model_dump()
    pairs += [(f"{name}.sampling.{key}", sampling[0][key], sampling[1][key]) for key in sampling[0]]
    template = old.template_of(before), new.template_of(now)
    keys = sorted(template[0].keys() | template[1].keys())
    return pairs + [(f"{name}.template.{key}", template[0].get(key), template[1].get(key)) for key in keys]
