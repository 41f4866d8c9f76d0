"""The target of a recipe: where its tokenizer comes from, and which GGUF file the embedded engine would serve."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from draftmill.engines.small_model import small_model
from draftmill.errors import StorageError
from draftmill.journal.folder import RunFolder
from draftmill.ledger.settings import Settings
from draftmill.recipe import EMBEDDED, SMALL_MODEL, Recipe
from draftmill.render import tokenizer as tokenizers
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer


@dataclass(frozen=True)
class Target:
    """``model`` and ``tokenizer`` are directories, hub ids or GGUF files; ``gguf`` is for an embedded engine."""

    tokenizer: str
    gguf: Path | None
    model: str


def resolve(recipe: Recipe, base: Path) -> Target:
    """Find the recipe's model. Relative paths start at ``base``, the recipe's folder."""
    model = _place(recipe.model, base)
    return Target(
        tokenizer=_place(recipe.tokenizer, base) if recipe.tokenizer else model,
        gguf=Path(model) if model.endswith(".gguf") else None,
        model=model,
    )


def engine_specs(recipe: Recipe, base: Path) -> Recipe:
    """The recipe with the embedded engines' own GGUF paths resolved."""
    engines = [
        spec.model_copy(update={"gguf": _place(spec.gguf, base)}) if spec.kind == EMBEDDED and spec.gguf else spec
        for spec in recipe.engines
    ]
    return recipe.model_copy(update={"engines": engines})


def context_of(recipe: Recipe, base: Path) -> int | None:
    """The tokens of prompt and answer together, as far as they are known without a server: the smallest context of the
    recipe's embedded engines, or that of the model's configuration."""
    own = [spec.context for spec in recipe.engines if spec.kind == EMBEDDED]
    if own:
        return min(own)
    try:
        config = msgspec.json.decode((Path(_place(recipe.model, base)) / "config.json").read_bytes(), type=_Config)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None
    return config.max_position_embeddings or (config.text_config or _Config()).max_position_embeddings


class _Config(msgspec.Struct):
    """What a model's ``config.json`` says of its context; models that see have it in a part of their own."""

    max_position_embeddings: int | None = None
    text_config: "_Config | None" = None


def own_tokenizer(folder: RunFolder, settings: Settings) -> tuple[Tokenizer, ChatTemplate]:
    """A run's tokenizer and template, from its own copy. Raises StorageError where that is not what it began with."""
    copy = folder.tokenizer.resolve()
    if not copy.is_dir():
        raise StorageError(f"{copy}: the run's copy of its tokenizer is gone", "restore it, or start a new run")
    loaded = tokenizers.load(str(copy), trust_remote_code=bool(settings.recipe.get("trust_remote_code")))
    template = ChatTemplate(loaded, settings.date)
    if (loaded.digest(), template.digest()) != (settings.tokenizer_sha256, settings.template_sha256):
        what = "this run was begun with another tokenizer or chat template than this copy"
        raise StorageError(f"{copy}: {what}", "restore it, or start a new run")
    return loaded, template


def _place(name: str, base: Path) -> str:
    if name == SMALL_MODEL:
        return str(small_model())
    path = base / Path(name).expanduser()
    return str(path) if path.exists() or name.endswith(".gguf") else name
