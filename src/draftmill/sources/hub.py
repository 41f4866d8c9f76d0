"""Datasets of the Hugging Face hub, streamed: ``hf:owner/name`` or ``hf:owner/name:split``, and a subset.

The revision is looked up once and then pinned, so that a dataset that changes under a run is noticed, not mixed in.
"""

import logging
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from draftmill.errors import SourceError
from draftmill.records import Where
from draftmill.sources.files import Raw
from draftmill.sources.lines import Reading
from draftmill.sources.parquet import without_nulls

PREFIX = "hf:"

_SOURCE = re.compile(r"hf:(?P<id>(?:[\w.-]+/)?[\w.-]+)(?::(?P<split>[\w.-]+))?")
_TIMEOUT_S = 20.0
_NO_SUBSET = "Config name is missing"  # so says `datasets` where a dataset has several subsets and none was named


@dataclass(frozen=True)
class HubDataset:
    """One split of one dataset at one revision. ``revision`` is "" for a dataset in a local folder."""

    id: str
    subset: str | None
    split: str
    revision: str
    stream: Any  # datasets.IterableDataset: can be iterated again from its start

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{PREFIX}{self.id}:{self.split}" + (f" ({self.subset})" if self.subset else ""),)

    def readings(self) -> Iterator[Reading]:
        """Every row, counted from 1. Raises SourceError where the hub does not deliver."""
        number, name = 0, self.names[0]
        try:
            for number, row in enumerate(self.stream, start=1):
                yield Where(name, number), without_nulls(row)
        except Exception as error:
            raise SourceError(f"{name}: row {number + 1} cannot be loaded: {_line(error)}") from None

    def raw(self) -> Iterator[Raw]:
        """The same, in the form in which files give their rows."""
        return ((where.file, where.line, row) for where, row in self.readings())

    def fingerprint(self) -> dict[str, str]:
        """The revision (a commit of the hub's repository)."""
        return {self.names[0]: self.revision}


def open_dataset(source: str, subset: str | None) -> HubDataset:
    """The dataset that ``hf:…`` names. Raises SourceError: not found, no access, offline, no such split or subset."""
    match = _SOURCE.fullmatch(source)
    if match is None:
        raise SourceError(f"{source}: not the name of a hub dataset", "write hf:owner/name or hf:owner/name:split")
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it would print a line for each of its retries
    return load(match["id"], match["split"], subset, _revision(match["id"], match["split"], subset))


def load(id_or_folder: str, split: str | None, subset: str | None, revision: str = "") -> HubDataset:
    """Open a dataset of the hub, or one in a local folder, as a stream. Raises SourceError."""
    import datasets

    place = PREFIX + id_or_folder
    try:
        splits = datasets.load_dataset(id_or_folder, subset, streaming=True, revision=revision or None)
    except Exception as error:
        advice = "name one as `subset:` in the recipe" if _NO_SUBSET in str(error) else ""
        raise SourceError(f"{place}: cannot be loaded: {_line(error)}", advice) from None
    names = list(splits)
    chosen = split or ("train" if "train" in names else names[0] if len(names) == 1 else None)
    if chosen is None or chosen not in names:
        message = f"there is no split {split!r}" if split else "there is no split 'train'"
        raise SourceError(f"{place}: {message}", f"the splits are {', '.join(names)}: write {place}:{names[0]}")
    return HubDataset(id_or_folder, subset, chosen, revision, splits[chosen])


def _revision(dataset_id: str, split: str | None, subset: str | None) -> str:
    """The commit that the dataset is at now. One question, asked first: it tells within seconds that nobody answers."""
    from huggingface_hub import HfApi
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    place = PREFIX + dataset_id
    try:
        return HfApi().dataset_info(dataset_id, timeout=_TIMEOUT_S).sha or ""
    except GatedRepoError:
        advice = "accept its terms on its page and log in with `hf auth login`"
        raise SourceError(f"{place}: its owner must grant access first", advice) from None
    except RepositoryNotFoundError:
        advice = "check owner and name; a private dataset needs `hf auth login`"
        raise SourceError(f"{place}: there is no such dataset on the hub", advice) from None
    except HfHubHTTPError as error:
        raise SourceError(f"{place}: the hub refuses: {_line(error)}") from None
    except Exception as error:
        folder = dataset_id.rpartition("/")[2]
        what = ", ".join([f"split {split or 'train'}", *([f"subset {subset}"] if subset else [])])
        fetch = f"`hf download {dataset_id} --repo-type dataset --local-dir {folder}`"
        need = f"it needs the dataset {dataset_id} ({what}) from {ENDPOINT}; where that can be reached: {fetch}"
        advice = f"{need}; then name its files here, for example source: {folder}/**/*.parquet"
        raise SourceError(f"{place}: the hub cannot be reached: {_line(error)}", advice) from None


def _line(error: BaseException) -> str:
    return textwrap.shorten(str(error), 300, placeholder=" …") or type(error).__name__
