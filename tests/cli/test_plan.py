"""``draftmill plan`` as a person uses it."""

import json
from pathlib import Path
from typing import Any

import pytest

from draftmill.journal.folder import DatasetFolder
from tests.capacity import models
from tests.cli.command import in_process, questions, write_jsonl, write_recipe
from tests.plan.reference import recipe
from tests.render.tiny import directory
from tests.watch.folders import append, completion


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    def run(*args: str, **settings: Any) -> Any:
        done = in_process("plan", recipe(tmp_path, **settings), "--out", tmp_path / "run", *args)
        assert "Traceback" not in done.stderr
        return done

    return run


def test_a_page_to_decide_from(plan: Any) -> None:
    done = plan(hicache=48)
    assert done.returncode == 0, done.stderr
    for said in (
        "61 layers, MLA, 70,272 bytes of KV a token",
        "8 × rtx-pro-6000 (named), host 449 GB (given)",
        "159,277 tokens, 10.4 GiB a GPU at 70,272 bytes a token (calibrated by 2 starts)",
        "hicache 48 GB a rank is 384 GB in all and holds 683,060 distinct tokens",
        "hierarchical cache keeps prefixes for reuse and adds no decodes",
        "6,341",
        "2,636",
        "the KV cache: ",
        "python -m sglang.launch_server --model-path",
    ):
        assert said in done.stdout, said


def test_what_is_refused_is_not_launched(plan: Any) -> None:
    done = plan(hicache=300)
    assert done.returncode == 1
    assert "2,400 GB" in done.stdout and "launch_server" not in done.stdout
    forced = plan("--force", hicache=300)
    assert forced.returncode == 0
    assert "2,400 GB" in forced.stdout and "launch_server" in forced.stdout


def test_a_server_that_does_not_answer_is_told(plan: Any) -> None:
    done = plan("--ask", engine="sglang")
    assert done.returncode == 0
    assert "absent" in done.stderr and "127.0.0.1:30000" in done.stderr


def test_variants_side_by_side(plan: Any) -> None:
    done = plan("--what-if", "mem_fraction=0.93,hicache=300,kv=fp8", "--json")
    assert done.returncode == 0, "the plan itself is sound"
    figures = json.loads(done.stdout)
    assert {name: [r["rule"] for r in each["refusals"]] for name, each in figures.items()} == {
        "plan": [],
        "mem_fraction=0.93": ["headroom"],
        "hicache=300": ["hicache"],
        "kv=fp8": ["quantised_kv"],
        "mem_fraction=0.93 hicache=300 kv=fp8": ["headroom", "hicache", "quantised_kv"],
    }
    assert figures["mem_fraction=0.93"]["tokens"] == 231_120
    assert figures["plan"]["datasets"][0]["needed"] == 6341
    assert "KV tokens" in done.stderr and "hicache=300: hicache 300 is GB a rank" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--what-if", "mem_fractoin=0.9"], "mem_fractoin: unknown key; did you mean mem_fraction?"),
        (["--what-if", "kv"], "'kv' is no KEY=VALUE"),
        (["--with", "mem_fraction=9"], "mem_fraction: 9 is a share of the memory"),
        (["--with", "gpu=h300"], "no accelerator 'h300' is known; there are"),
        (["--with", "drafter=nowhere"], "no config.json of a drafter"),
    ],
)
def test_bad_values_are_named(plan: Any, args: list[str], said: str) -> None:
    done = plan(*args)
    assert done.returncode == 2
    assert said in done.stderr


def test_the_command_line_lays_over_the_recipe(plan: Any) -> None:
    done = plan("--with", "engine=vllm,kv_space=20GiB,context=32k", "--only", "B1_glaive", "--budget", "1M", "--json")
    figures = json.loads(done.stdout)["plan"]
    assert figures["engine"] == "vllm" and figures["context"] == 32_000
    assert [d["name"] for d in figures["datasets"]] == ["B1_glaive"]
    assert "vllm serve" in done.stderr


def test_a_simulated_run_bears_the_forecast_out(plan: Any, tmp_path: Path) -> None:
    done = plan("--simulate", "--json", "--only", "B1_glaive", "--only", "B2_opencodeinstruct", budget="1M")
    assert done.returncode == 0, done.stderr
    assert "KV in use" in done.stderr and "█" in done.stderr
    assert (tmp_path / "run" / "plan.svg").read_text().startswith("<svg")
    figures = json.loads(done.stdout)
    forecast, simulated = figures["plan"]["span"], figures["simulated"]["seconds"]
    assert forecast["low"] <= simulated <= forecast["high"]


def test_a_run_that_is_over_has_no_forecast(tmp_path: Path) -> None:
    directory(tmp_path / "model", config=models.config("smollm2-135m"))
    write_jsonl(tmp_path / "s.jsonl", questions(2))
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model=str(tmp_path / "model"),
        engines=["http://127.0.0.1:9"],
        datasets=[{"name": "d", "source": "s.jsonl"}],
        plan={
            "gpu": "h200",
            "engine": "sglang",
            "loaded": "1GiB",
            "loads": [{"running": 8, "rate": 600}, {"running": 64, "rate": 2000}],
        },
    )
    assert in_process("prepare", recipe, "--out", tmp_path / "run").returncode == 0
    planned = in_process("plan", recipe, "--out", tmp_path / "run")
    page = planned.stdout
    assert planned.returncode == 0, planned.stderr
    assert "between" in page and "settled" not in page
    folder = DatasetFolder(tmp_path / "run" / "d")
    ids = [json.loads(line)["id"] for line in folder.prompts.read_text().splitlines()]
    append(folder.journal, *(completion(n, 5, id=id) for n, id in enumerate(ids)))
    page = in_process("plan", recipe, "--out", tmp_path / "run").stdout
    assert "nothing is owed any more: the run is over" in page and "between" not in page and "settled" in page
