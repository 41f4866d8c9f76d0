"""The model of a run, as far as it is here: tokenizer, chat template, and its dialects by template arguments."""

import msgspec

from draftmill.journal.folder import RunFolder
from draftmill.ledger.settings import Settings
from draftmill.mill.target import own_tokenizer
from draftmill.recipe import Dataset, Recipe
from draftmill.render.dialect import Dialect
from draftmill.render.markers import custom
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer

Loaded = tuple[Tokenizer, ChatTemplate]


class Model:
    """Loaded when it is first needed, out of the run's own copy; ``loaded`` is what a first start has already."""

    def __init__(self, folder: RunFolder, settings: Settings, recipe: Recipe, loaded: Loaded | None) -> None:
        self._folder = folder
        self._settings = settings
        self._recipe = recipe
        self._loaded = loaded
        self._dialects: dict[bytes, Dialect] = {}

    @property
    def tokenizer(self) -> Tokenizer:
        return self._load()[0]

    @property
    def template(self) -> ChatTemplate:
        return self._load()[1]

    def dialect(self, dataset: Dataset) -> Dialect:
        """How the target reads and writes under a dataset's template arguments."""
        arguments = self._recipe.template_of(dataset)
        key = msgspec.json.encode(arguments, order="sorted")
        if key not in self._dialects:
            self._dialects[key] = Dialect(*self._load(), arguments, custom(self._recipe.markers))
        return self._dialects[key]

    def _load(self) -> Loaded:
        if self._loaded is None:
            self._loaded = own_tokenizer(self._folder, self._settings)
        return self._loaded
