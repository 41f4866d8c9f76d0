"""The beginning of a start: what was frozen when the run began, or is frozen now."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from draftmill.errors import RunError
from draftmill.journal.folder import RunFolder
from draftmill.ledger import settings as frozen_settings
from draftmill.ledger.settings import Settings
from draftmill.mill.model import Loaded, Model
from draftmill.mill.target import Target
from draftmill.recipe import Recipe
from draftmill.render import markers
from draftmill.render import tokenizer as tokenizers
from draftmill.render.markers import custom
from draftmill.render.model_files import fingerprint
from draftmill.render.template import ChatTemplate

Note = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Begun:
    """``changed`` says in words what today's recipe has otherwise than the run's last start."""

    settings: Settings
    model: Model
    changed: list[str] = field(default_factory=list)


def begin(folder: RunFolder, recipe: Recipe, target: Target, note: Note) -> Begun:
    """The settings that may not change, of a run that begins or goes on, and its model. Raises RunError where the
    recipe or the model is not what the run was begun with.

    What the file says of a run that goes on changes when the start is accepted; until then new datasets stand beside
    it, since their prompts are made by these settings. ``note(kind, subject, message)`` hears what is worth telling.
    """
    settings, loaded = frozen_settings.read_settings(folder), None
    files = fingerprint(target.tokenizer)
    begun = [f.name for f in folder.begun()]
    if settings is None or not begun:  # a first start that failed before its first prompt has decided nothing
        if begun:
            message = f"{folder.settings}: is gone, but the run has prompts of {', '.join(begun)}"
            raise RunError(message, "restore it: it holds the settings of the answers; or give another --out")
        settings, loaded = _first(folder, recipe, target, files)
        note("start", "run", f"begun with {target.tokenizer}")
    else:
        _refuse_another_run(folder, recipe)
        frozen_settings.refuse_changes(folder, settings, recipe)
        _refuse_other_model(folder, settings, files)
        merged = frozen_settings.merged(settings, recipe)
        _keep(folder, frozen_settings.beside(settings, recipe, set(begun)))
        return Begun(merged, Model(folder, merged, recipe, None), frozen_settings.harmless(settings, merged))
    frozen_settings.write_settings(folder, settings)
    return Begun(settings, Model(folder, settings, recipe, loaded))


def accept(folder: RunFolder, settings: Settings, changed: list[str], note: Note) -> None:
    """From now on these are the run's settings, ``changed`` as ``Begun`` says."""
    _keep(folder, settings)
    if changed:
        note("recipe", "run", f"continued with {'; '.join(changed)}")


def _keep(folder: RunFolder, settings: Settings) -> None:
    if settings != frozen_settings.read_settings(folder):
        frozen_settings.write_settings(folder, settings)


def _first(folder: RunFolder, recipe: Recipe, target: Target, files: dict[str, str]) -> tuple[Settings, Loaded]:
    """Load the model's tokenizer, keep a copy of it in the run, and fix everything that may not change later."""
    today = date.today().isoformat()
    loaded = tokenizers.load(target.tokenizer, trust_remote_code=recipe.trust_remote_code)
    template = ChatTemplate(loaded, today)
    shutil.rmtree(folder.tokenizer, ignore_errors=True)  # half a copy of a start that was killed
    loaded.save(folder.tokenizer)
    settings = frozen_settings.settings_of(
        recipe,
        date=today,
        files=files,
        digests=(loaded.digest(), template.digest()),
        vocab_size=loaded.size,
        stop_ids=markers.find(loaded, template, custom(recipe.markers))[0].stop_ids,
    )
    return settings, (loaded, template)


def _refuse_another_run(folder: RunFolder, recipe: Recipe) -> None:
    """A recipe that has none of the datasets that have answers is another run's."""
    answered = [f.name for f in folder.begun() if f.answered()]
    if answered and not set(answered) & {dataset.name for dataset in recipe.datasets}:
        raise RunError(
            f"{folder.path}: has answers of {', '.join(answered)}, and the recipe has none of these datasets",
            "give another --out; to add datasets to this run, keep its own in the recipe and name the new ones: --only",
        )


def _refuse_other_model(folder: RunFolder, settings: Settings, files: dict[str, str]) -> None:
    """The model's files must hold what they held; one that is gone is replaced by the run's own copy."""
    changed = [n for n in sorted(settings.files | files) if settings.files.get(n) != files.get(n)]
    gone = not files or (files.keys() == {"hub"} and settings.files.keys() != {"hub"})
    if changed and not gone:
        raise RunError(
            f"{folder.path}: this run was begun with another model: {', '.join(changed)} changed",
            "put the model back, or give another --out: answers of two models are not mixed in one run",
        )
