"""`draftmill adopt`: a run that takes over what another one left, and generates the rest."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import in_process, questions, read_jsonl, write_jsonl, write_recipe
from tests.render.tiny import END, directory

NOBODY = "http://127.0.0.1:9"  # the discard port: nothing listens there
LIMIT = 6


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A prepared run of a dataset, whose limit is LIMIT."""
    write_jsonl(tmp_path / "chat.jsonl", questions(12))
    return prepared(tmp_path, tmp_path / "run")


def prepared(folder: Path, out: Path, **more: Any) -> Path:
    model = folder / "model"
    recipe = {
        "model": str(model if model.exists() else directory(model)),
        "engines": [NOBODY],
        "lanes": {"short": {"max_new_tokens": LIMIT}},
        "datasets": [{"name": "chat", "source": "chat.jsonl"}],
    }
    done = in_process("prepare", write_recipe(folder / "recipe.yaml", **recipe | more), "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def prompts(run: Path) -> list[dict[str, Any]]:
    return read_jsonl(run / "chat" / "prompts.jsonl")


def answer(n: int, length: int = 3) -> list[int]:
    return [10 + n + i for i in range(length - 1)] + [END]


def counts(prompt: dict[str, Any], n: int, **more: Any) -> dict[str, Any]:
    """A line with counts at the top level, and the ids of its prompt."""
    ids = more.pop("output_ids", answer(n))
    head = {"prompt_ids": prompt["prompt_ids"], "prompt_tokens": len(prompt["prompt_ids"])}
    return head | {"output_ids": ids, "completion_tokens": len(ids), "finish_reason": "stop"} | more


def old_folder(tmp_path: Path, lines: list[Any], rows: list[Any] | None = None, tail: bytes = b"") -> Path:
    """An older run whose one dataset has another name."""
    folder = tmp_path / "old" / "B1_renamed"
    folder.mkdir(parents=True)
    write_jsonl(folder / "raw_responses.jsonl", lines)
    with (folder / "raw_responses.jsonl").open("ab") as file:
        file.write(tail)
    if rows is not None:
        write_jsonl(folder / "tokenized_data.jsonl", rows)
    return folder.parent


def digests(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def adopted(old: Path, run: Path, *options: str) -> dict[str, Any]:
    before = digests(old)
    done = in_process("adopt", old, run, "--json", *options)
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    assert report["adds_up"] and digests(old) == before
    return dict(report, code=done.returncode, told=done.stderr)


def journal(run: Path) -> dict[int, dict[str, Any]]:
    return {line["position"]: line for line in read_jsonl(run / "chat" / "raw_responses.jsonl")}


def test_answers_go_to_the_positions_of_their_prompts(run: Path, tmp_path: Path) -> None:
    some = prompts(run)
    lines = [counts(some[n], n) for n in (7, 2, 9)]  # in an order of their own
    report = adopted(old_folder(tmp_path, lines), run)
    assert (report["code"], report["whole"], report["datasets"], report["shapes"]) == (0, 3, {"chat": 3}, {"counts": 3})
    found = journal(run)
    assert {n: line["output_ids"] for n, line in found.items()} == {n: answer(n) for n in (2, 7, 9)}
    assert found[7]["engine"] == f"adopted from {tmp_path}/old/B1_renamed/raw_responses.jsonl:1"
    assert all(
        found[n]["id"] == some[n]["id"] and found[n]["prompt_tokens"] == len(some[n]["prompt_ids"]) for n in found
    )
    done = in_process("export", run, "--to", tmp_path / "rows.jsonl")
    assert done.returncode == 0 and "9" in done.stdout
    rows = read_jsonl(tmp_path / "rows.jsonl")
    assert [row["position"] for row in rows] == [2, 7, 9]
    assert all(row["input_ids"] == some[n]["prompt_ids"] + answer(n) for row, n in zip(rows, (2, 7, 9), strict=True))


def test_again_nothing_is_added_and_what_is_new_is(run: Path, tmp_path: Path) -> None:
    some = prompts(run)
    old = old_folder(tmp_path, [counts(some[n], n) for n in range(4)])
    adopted(old, run)
    before = (run / "chat" / "raw_responses.jsonl").read_bytes()
    again = adopted(old, run)
    assert (again["code"], again["whole"]) == (0, 0) and (run / "chat" / "raw_responses.jsonl").read_bytes() == before
    with (old / "B1_renamed" / "raw_responses.jsonl").open("a") as file:  # the older run went on
        file.write(json.dumps(counts(some[5], 5)) + "\n")
    assert adopted(old, run)["whole"] == 1


def test_a_kill_in_the_middle_of_a_write_costs_nothing(run: Path, tmp_path: Path) -> None:
    some = prompts(run)
    old = old_folder(tmp_path, [counts(some[n], n) for n in range(6)])
    adopted(old, run)
    path = run / "chat" / "raw_responses.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    assert adopted(old, run)["whole"] > 0
    assert {n: line["output_ids"] for n, line in journal(run).items()} == {n: answer(n) for n in range(6)}
    assert len(read_jsonl(path)) == 6


def test_several_positions_of_one_prompt_get_different_answers_once(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "chat.jsonl", questions(2) * 2)
    run = prepared(tmp_path, tmp_path / "run")
    first = prompts(run)[0]
    old = old_folder(tmp_path, [counts(first, 1)])
    assert adopted(old, run)["whole"] == 1
    assert adopted(old, run)["whole"] == 0  # the other position of this prompt is not given the same answer
    write_jsonl(old / "B1_renamed" / "raw_responses.jsonl", [counts(first, 1), counts(first, 2), counts(first, 3)])
    report = adopted(old, run)
    assert report["whole"] == 1 and [left["count"] for left in report["left"].values()] == [2]
    assert sorted(line["output_ids"] for line in journal(run).values()) == [answer(1), answer(2)]


def test_prompts_are_found_by_conversation_by_id_and_beside_a_row(run: Path, tmp_path: Path) -> None:
    some = prompts(run)
    bare = [{k: v for k, v in counts(some[n], n).items() if k != "prompt_ids"} for n in range(5)]
    lines = [bare[0] | {"messages": [{"role": "human", "content": some[0]["messages"][0]["content"]}]}]
    lines[0]["messages"][0]["role"] = "user"
    lines += [bare[1] | {"id": "mine-1"}, bare[2], bare[3], bare[4] | {"output_ids": answer(2), "completion_tokens": 3}]
    rows = [
        {"input_ids": some[n]["prompt_ids"] + answer(n), "loss_mask": [0] * len(some[n]["prompt_ids"]) + [1] * 3}
        for n in (2,)
    ]
    old = old_folder(tmp_path, lines, rows)
    write_jsonl(old / "B1_renamed" / "prompts.jsonl", [{"id": "mine-1", "prompt_ids": some[1]["prompt_ids"]}])
    report = adopted(old, run)
    assert sorted(journal(run)) == [0, 1, 2]
    reasons = {reason: left["count"] for reason, left in report["left"].items()}
    assert reasons == {
        "its prompt does not stand in it, nor in another file beside it": 1,
        "this run has an answer to its prompt already": 1,
        "tokenized, of an answer that stands in the raw responses too": 1,
    }


def test_text_unknown_and_torn_lines_are_counted_with_their_reason(run: Path, tmp_path: Path) -> None:
    some = prompts(run)
    chat = {"choices": [{"message": {"content": "Hi.", "reasoning_content": None}, "finish_reason": "stop"}]}
    merged = {"choices": [{"message": {"content": "Hm.</think>Hi."}, "finish_reason": "stop"}]}
    lines = [chat, merged, merged, {"error": "x"}, counts(some[0], 0), counts({"prompt_ids": [1, 2]}, 1)]
    report = adopted(old_folder(tmp_path, lines, tail=b'{"output_ids": [1, 2'), run)
    assert (report["lines"], report["whole"]) == (7, 1)
    assert {reason: left["count"] for reason, left in report["left"].items()} == {
        "text only, no ids": 1,
        "text only, no ids, the reasoning merged into it": 2,
        "a shape that is not known": 1,
        "its prompt is none of this run": 1,
        "no whole line of JSON": 1,
    }
    assert report["left"]["text only, no ids, the reasoning merged into it"]["first"].endswith("raw_responses.jsonl:2")
    assert "2: text only, no ids, the reasoning merged into it; the first: " in report["told"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt_tokens": 99},
        {"completion_tokens": 99},
        {"output_ids": [10, END, 11, END]},
        {"output_ids": [10, 11]},
        {"output_ids": [10, 9999, END]},
        {"matched_stop": 11},
    ],
    ids=str,
)
def test_what_contradicts_itself_is_left_out(run: Path, tmp_path: Path, wrong: dict[str, Any]) -> None:
    report = adopted(old_folder(tmp_path, [counts(prompts(run)[0], 0, **wrong)]), run)
    assert report["code"] == 1 and not report["whole"] and "not one answer could be taken over" in report["told"]
    assert all(reason.startswith("contradicts itself: ") for reason in report["left"])


def test_limits_of_the_older_run(run: Path, tmp_path: Path) -> None:
    """A lower one left a beginning, which goes on; of a longer answer this run's limit would have left as much."""
    some = prompts(run)
    lines = [
        counts(some[0], 0, output_ids=[10, 11, 12], finish_reason="length"),
        counts(some[1], 1, output_ids=list(range(10, 10 + LIMIT)), finish_reason="length"),
        counts(some[2], 2, output_ids=[*range(10, 10 + LIMIT), END]),
    ]
    report = adopted(old_folder(tmp_path, lines), run)
    assert (report["whole"], report["begun"]) == (2, 1)
    found = journal(run)
    assert [(found[n]["finish_reason"], found[n]["completion_tokens"]) for n in range(3)] == [
        ("abort", 3),
        ("length", LIMIT),
        ("length", LIMIT),
    ]
    assert found[0]["partial"] and adopted(tmp_path / "old", run)["begun"] == 0


def test_rows_that_are_only_tokenized_must_be_vouched_for(run: Path, tmp_path: Path) -> None:
    some = prompts(run)
    rows = [
        {"input_ids": some[n]["prompt_ids"] + ids, "loss_mask": [0] * len(some[n]["prompt_ids"]) + [1] * len(ids)}
        for n, ids in ((0, answer(0)), (1, [10, 11]))
    ]
    old = old_folder(tmp_path, [], rows)
    report = adopted(old, run)
    assert report["code"] == 1
    assert list(report["left"]) == ["tokenized, and nothing says that its ids were generated"]
    report = adopted(old, run, "--tokenized")
    assert (report["code"], report["whole"]) == (0, 1)
    assert list(report["left"]) == ["does not say how the answer ended"]


def test_survivors_are_told_of(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "chat.jsonl", questions(60))
    run = prepared(tmp_path, tmp_path / "run")
    old = old_folder(tmp_path, [counts(each, 1) for each in prompts(run)[:55]])
    write_jsonl(old / "B1_renamed" / "errors.jsonl", [{"reason": "timed out"}] * 4)
    told = adopted(old, run)["told"]
    assert "not one of its 55 answers was cut by a limit, the longest has 3 tokens" in told
    assert "it gave up 4 prompts" in told


def test_another_run_of_draftmill_must_have_the_same_model_and_sampling(run: Path, tmp_path: Path) -> None:
    some = prompts(run)
    other = prepared(tmp_path, tmp_path / "other")
    write_jsonl(
        other / "chat" / "raw_responses.jsonl",
        [counts(some[3], 3, id=some[3]["id"], position=3, turn=0, limit=4, engine="x", seconds=1.0)],
    )
    assert adopted(other, run)["whole"] == 1
    hot = prepared(tmp_path, tmp_path / "hot", sampling={"temperature": 2.0})
    write_jsonl(hot / "chat" / "raw_responses.jsonl", [counts(some[4], 4)])
    done = in_process("adopt", hot, run)
    assert done.returncode == 1 and "made with other settings: sampling" in done.stderr


@pytest.mark.parametrize(
    ("old", "told"),
    [("nowhere", "is no folder"), ("empty", "holds no raw_responses.jsonl"), ("run", "lies in the run")],
)
def test_what_is_no_older_run_is_told(run: Path, tmp_path: Path, old: str, told: str) -> None:
    (tmp_path / "empty").mkdir()
    done = in_process("adopt", tmp_path / old, run)
    assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr
    done = in_process("adopt", tmp_path / "empty", tmp_path / "nowhere")
    assert done.returncode == 2 and "holds no prepared run" in done.stderr
