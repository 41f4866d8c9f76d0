"""Where everything of a run lies on disk."""

from pathlib import Path

from draftmill.errors import StorageError


class DatasetFolder:
    """The files of one dataset of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.prompts = path / "prompts.jsonl"
        self.prompts_index = path / "prompts.index"
        self.prompts_seal = path / "prompts.sha256"
        self.prepared = path / "prepared.json"
        self.unread = path / "unread.jsonl"
        self.journal = path / "raw_responses.jsonl"
        self.journal_index = path / "raw_responses.index"
        self.sent = path / "sent"
        self.errors = path / "errors.jsonl"
        self.suspects = path / "suspects.jsonl"
        self.rows = path / "tokenized_data.jsonl"
        self.rows_stamp = path / "rows.json"
        self.drift = path / "drift.json"

    def answered(self) -> bool:
        """Whether it has answers, or rows that were passed through."""
        return any(file.exists() and file.stat().st_size for file in (self.journal, self.rows))


class ServeFolder:
    """What is kept of the servers that are launched for a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = path / "lock"
        self.events = path / "events.jsonl"
        self.starts = path / "starts.jsonl"

    def log(self, replica: int) -> Path:
        """What a replica's server writes."""
        return self.path / f"server-{replica}.log"

    def create(self) -> None:
        """Make the folder. Raises StorageError where that cannot be."""
        make(self.path)


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "run.yaml"
        self.control = path / "control.yaml"
        self.tokenizer = path / "tokenizer"
        self.lock = path / "lock"
        self.engines = path / "engines.json"
        self.voices = path / "voices.json"
        self.events = path / "events.jsonl"
        self.load = path / "load.jsonl"
        self.logs = path / "logs"
        self.serve = ServeFolder(path / "serve")

    def create(self) -> None:
        """Make the folder. Raises StorageError where that cannot be."""
        make(self.path)

    def dataset(self, name: str) -> DatasetFolder:
        return DatasetFolder(self.path / name)

    def begun(self) -> list[DatasetFolder]:
        """The datasets that have prompts, or answers to prompts that are gone, by name."""
        files = (*self.path.glob("*/prompts.jsonl"), *self.path.glob("*/raw_responses.jsonl"))
        return [DatasetFolder(folder) for folder in sorted({file.parent for file in files})]

    def datasets(self) -> list[DatasetFolder]:
        """The datasets that have been prepared here, by name."""
        return [DatasetFolder(f.parent) for f in sorted(self.path.glob("*/prompts.jsonl"))]


def make(folder: Path) -> None:
    """Make a folder and those above it. Raises StorageError where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be made: {error.strerror or error}") from error
