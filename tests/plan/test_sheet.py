"""The whole plan, on the reference run and around it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.capacity.headroom import GIB
from draftmill.errors import UsageFault
from draftmill.plan.model import Drafter
from draftmill.plan.sheet import draw
from draftmill.recipe import Start
from tests.plan.reference import STARTS, gathered, sheet


def test_the_reference_run(tmp_path: Path) -> None:
    found = sheet(tmp_path, hicache=48)
    assert found.refusals == []
    assert (found.tokens, found.cell, found.hicache_tokens) == (159_277, 70_272, 683_060)
    assert found.memory_from == "calibrated by 2 starts"
    assert found.left is not None and found.left / GIB == pytest.approx(5.5, abs=0.1)
    assert found.needed == 2 * GIB
    assert 30 <= found.running <= 60, "34 to 72 ran"
    assert found.rate == pytest.approx(700, rel=0.25), "606 to 930 were seen"
    assert "the KV cache" in found.binds
    assert found.span and found.span.low < found.span.seconds < found.span.high
    assert found.span.seconds / 3600 == pytest.approx(32, rel=0.1), "what a rehearsal of this run takes"
    assert {"B1_glaive", "B8_sweagent"} < {s.name for s in found.shares}
    assert found.launch[0].startswith("python -m sglang.launch_server --model-path")
    assert "--mem-fraction-static 0.88" in found.launch[0] and "--hicache-size 48" in found.launch[0]


@pytest.mark.parametrize(
    ("plan", "rules"),
    [
        ({}, []),
        ({"hicache": 48}, []),
        ({"hicache": 51}, []),
        ({"hicache": 52}, ["hicache"]),
        ({"hicache": 300}, ["hicache"]),
        ({"hicache": 48, "host_memory": None}, ["hicache"]),
        ({"mem_fraction": 0.91}, []),
        ({"mem_fraction": 0.93}, ["headroom"]),
        ({"kv": "fp8"}, ["quantised_kv"]),
        ({"mem_fraction": 0.769}, ["no_pool"]),
        ({"context": 10_247}, ["token_limit"]),
        ({"context": 16_390}, []),
        ({"context": 16_389}, ["token_limit"]),
        ({"context": 8006}, ["token_limit", "token_limit", "context"]),  # a prompt of the very length is refused
    ],
)
def test_refusals(tmp_path: Path, plan: dict[str, Any], rules: list[str]) -> None:
    found = sheet(tmp_path, **plan)
    if rules == ["no_pool"]:
        assert found.refusals[0].rule == "no_pool"
        assert found.running == 0 and found.span is None
    else:
        assert [r.rule for r in found.refusals] == rules


def test_a_default_fraction_that_leaves_nothing(tmp_path: Path) -> None:
    found = sheet(tmp_path, starts=[], loaded="80GiB", mem_fraction=None)
    assert [r.rule for r in found.refusals] == ["no_pool"]
    assert "default fraction" in found.refusals[0].message


def test_one_start_and_the_free_memory(tmp_path: Path) -> None:
    found = sheet(tmp_path, starts=STARTS[:1], gpu_free="94.04GiB")
    assert found.tokens == pytest.approx(159_277, rel=0.001)
    assert found.memory_from == "calibrated by one start"


def test_what_the_runs_servers_said(tmp_path: Path) -> None:
    loaded, facts, wanted = gathered(tmp_path, starts=[])
    facts = msgspec.structs.replace(facts, starts=[Start.model_validate(s) for s in STARTS])
    found = draw(loaded.plan, facts, wanted)
    assert (found.tokens, found.memory_from) == (159_277, "calibrated by 2 starts of the run's servers")


def test_starts_keep_their_own_dtype(tmp_path: Path) -> None:
    assert abs(sheet(tmp_path, kv="fp8", mem_fraction=0.90).tokens - 376_029) <= 3


def test_without_a_start(tmp_path: Path) -> None:
    found = sheet(tmp_path, starts=[], loaded="72.33GiB", gpu_free="94.04GiB")
    assert found.tokens == pytest.approx(159_277, rel=0.01)
    assert "not calibrated" in found.memory_from


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"starts": [], "gpu": None}, "no GPU is found"),
        ({"starts": []}, "nothing says how large its weights are"),
        ({"starts": [STARTS[1], {"mem_fraction": 0.95, "tokens": 10}]}, "contradict"),
    ],
)
def test_what_only_a_person_can_say(tmp_path: Path, plan: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageFault, match=said):
        sheet(tmp_path, **plan)


def test_a_guess_says_so_and_has_a_wide_range(tmp_path: Path) -> None:
    fitted, guessed = sheet(tmp_path), sheet(tmp_path, loads=[], loaded="72.33GiB")
    assert guessed.span and fitted.span
    assert guessed.span.high / guessed.span.low > fitted.span.high / fitted.span.low
    assert any("guess" in note for note in guessed.notes)


def test_one_load_holds_near_itself(tmp_path: Path) -> None:
    loaded, facts, wanted = gathered(tmp_path, loads=[])
    near, far = (draw(loaded.plan, msgspec.structs.replace(facts, pace=(n, 15.0 * n)), wanted) for n in (47.0, 8.0))
    assert near.rate == far.rate == pytest.approx(15 * 47)
    assert near.span and far.span and far.span.high > near.span.high
    assert near.speed_from == "one load, 47 at once"


def test_replicas_share_the_work(tmp_path: Path) -> None:
    one, two = sheet(tmp_path), sheet(tmp_path, dp=2)
    assert one.span and two.span and two.span.seconds == pytest.approx(one.span.seconds / 2, rel=0.01)
    assert [line.split()[0] for line in two.launch] == [
        "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7",
        "CUDA_VISIBLE_DEVICES=8,9,10,11,12,13,14,15",
    ]
    assert "--port 30001" in two.launch[1]


@pytest.mark.parametrize(("algorithm", "rules"), [("EAGLE", ["drafter_flag"]), ("EAGLE3", []), (None, [])])
def test_a_drafter(tmp_path: Path, algorithm: str | None, rules: list[str]) -> None:
    loaded, facts, wanted = gathered(tmp_path, drafter="d", algorithm=algorithm)
    facts = msgspec.structs.replace(facts, drafter=Drafter("d", 1, True))
    found = draw(loaded.plan, facts, wanted)
    assert [r.rule for r in found.refusals] == rules
    assert found.cell == 70_272 + 1152
    assert f"--speculative-algorithm {algorithm or 'EAGLE3'}" in found.launch[0]


def test_vllm_and_llamacpp(tmp_path: Path) -> None:
    vllm = sheet(tmp_path, engine="vllm", context=32_768, kv_space="20GiB")
    assert vllm.tokens == pytest.approx(20 * GIB / 70_272, rel=0.001)
    assert "--kv-cache-memory-bytes 21474836480 --max-model-len 32768" in vllm.launch[0]
    assert "--gpu-memory-utilization 0.9 " in sheet(tmp_path, engine="vllm", mem_fraction=0.9).launch[0]
    llama = sheet(tmp_path, engine="llamacpp", context=20_000, slots=4, kv="q8_0")
    assert (llama.tokens, llama.running) == (4 * 20_224, 4)
    assert "-np 4 -c 80896 -ngl 999 -fa on -ctk q8_0 -ctv q8_0" in llama.launch[0]


def test_the_disk_is_what_binds(tmp_path: Path) -> None:
    loaded, facts, wanted = gathered(tmp_path)
    found = draw(loaded.plan, msgspec.structs.replace(facts, disk=1e6), wanted)
    assert found.binds.startswith("the disk")


def test_one_start_that_serve_has_seen_calibrates_all_others(tmp_path: Path) -> None:
    """From the first point of the reference run and what its log found free, the others within 0.1 %."""
    loaded, facts, wanted = gathered(tmp_path, starts=[])
    seen = [Start.model_validate({"mem_fraction": 0.85, "tokens": 116_171})]
    facts = msgspec.structs.replace(facts, starts=seen, free=94.04 * 2**30)
    for fraction, tokens in ((0.88, 159_277), (0.93, 231_120)):
        found = draw(loaded.plan.changed({"mem_fraction": fraction}), facts, wanted)
        assert found.tokens == pytest.approx(tokens, rel=1e-3)
        assert found.memory_from == "calibrated by one start of the run's servers"


def test_starts_that_were_found_and_contradict_each_other_fail_no_plan(tmp_path: Path) -> None:
    loaded, facts, wanted = gathered(tmp_path, starts=[], gpu_free="94.04GiB")
    seen = [Start.model_validate({"mem_fraction": f, "tokens": n}) for f, n in ((0.85, 300_000), (0.88, 159_277))]
    found = draw(loaded.plan, msgspec.structs.replace(facts, starts=seen), wanted)
    assert found.tokens == pytest.approx(159_277, abs=1)
