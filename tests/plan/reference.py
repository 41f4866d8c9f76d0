"""The reference run as a recipe: its server, its datasets, its observed starts and loads."""

import json
import shutil
from pathlib import Path
from typing import Any

from draftmill import recipe as recipes
from draftmill.capacity.cards import CARDS
from draftmill.machine.machine import Machine
from draftmill.mill.scene import REFERENCE
from draftmill.plan.demand import Demand, demands
from draftmill.plan.facts import Facts
from draftmill.plan.model import read_model
from draftmill.plan.sheet import Sheet, draw
from draftmill.recipe import Recipe
from tests.capacity import models

STARTS = [{"mem_fraction": 0.85, "tokens": 116_171}, {"mem_fraction": 0.93, "tokens": 231_120, "left": "0.82GiB"}]
LOADS = [{"running": 35, "rate": 606}, {"running": 142, "rate": 1375}]
DATASETS = {  # name: samples, prompt, answer, lane
    d.name: (d.prompts, d.prompt_tokens, d.answers.mean, d.lane) for d in REFERENCE.datasets
}


def recipe(folder: Path, budget: str = "10M", **plan: Any) -> Path:
    """Write it, with the model's config beside it."""
    (folder / "kimi").mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(models.__file__).parent / "kimi-k2.5.json", folder / "kimi" / "config.json")
    data = {
        "model": "kimi",
        "engines": {"url": "http://127.0.0.1:30000", "kind": "sglang"},
        "lanes": {
            "short": {"max_new_tokens": 10_240, "concurrency": 150},
            "long": {"max_new_tokens": 16_384, "concurrency": 32},
        },
        "datasets": [
            {"name": name, "source": "x.jsonl", "samples": samples, "budget": budget, "lane": lane}
            for name, (samples, _, _, lane) in DATASETS.items()
        ],
        "plan": {
            "gpu": "rtx-pro-6000",
            "tp": 8,
            "host_memory": "449GB",
            "mem_fraction": 0.88,
            "starts": STARTS,
            "loads": LOADS,
            "prompts": {name: prompt for name, (_, prompt, _, _) in DATASETS.items()},
            "answers": {name: answer for name, (_, _, answer, _) in DATASETS.items()},
        }
        | plan,
    }
    path = folder / "ref.yaml"
    path.write_text(json.dumps(data))
    return path


def gathered(folder: Path, **plan: Any) -> tuple[Recipe, Facts, list[Demand]]:
    loaded = recipes.load(recipe(folder, **plan))
    facts = Facts(
        machine=Machine(),
        model=read_model(str(folder / "kimi")),
        card=CARDS[loaded.plan.gpu] if loaded.plan.gpu else None,
        cap=182,
        kinds=("sglang",),
        host=loaded.plan.host_memory,
    )
    return loaded, facts, demands(loaded, lambda _: None)


def sheet(folder: Path, **plan: Any) -> Sheet:
    loaded, facts, wanted = gathered(folder, **plan)
    return draw(loaded.plan, facts, wanted)
