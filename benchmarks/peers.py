"""Other programs for the same job: ``ready`` installs them into a virtual environment of theirs, where it is missing.

They do not share ours: speculators wants torch. The environment lies in ``.peers`` of the repository (git ignores it).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import loopback
from clients import Cost
from tokenizers import Tokenizer, decoders, models

HOME = Path(__file__).parent.parent / ".peers"
PINNED = ("speculators==0.9.0", "torch==2.13.0", "httpx==0.28.1", "uvloop==0.23.0")
# CUDA builds on PyPI, which break the import beside a CPU torch; text models do not need them
UNUSED = ("torchvision", "torchaudio")
CLIENTS = Path(__file__).parent / "peer_clients.py"


def ready() -> Path:
    """The Python of the peers' environment."""
    python, mark = HOME / "bin" / "python", HOME / "installed"
    wanted = "\n".join(PINNED)
    if not mark.exists() or mark.read_text() != wanted:
        print(f"installing {', '.join(PINNED)} into {HOME} (1 to 2 GiB, minutes) …", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", HOME], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PINNED], check=True)
        subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", *UNUSED], check=True)
        mark.write_text(wanted)
    return python


def measured(name: str, url: str, count: int, at_once: int) -> Cost:
    """What one peer takes, in a process of its own, from its first request on: without imports and preparations."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "speculators":
            write_dataset(Path(folder), count)
            write_tokenizer(Path(folder))
        command = [ready(), CLIENTS, name, url, str(count), str(at_once), folder]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def write_dataset(folder: Path, count: int) -> None:
    with (folder / "dataset.jsonl").open("w") as out:
        for number in range(count):
            out.write(json.dumps({"id": str(number), "prompt": loopback.WORD * loopback.PROMPT}) + "\n")


def write_tokenizer(folder: Path) -> None:
    """A tokenizer as large as a model's: speculators writes the text of every row beside its ids."""
    words = {f"Ġ{n:04x}": n for n in range(50_000)}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
