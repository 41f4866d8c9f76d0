"""A mix like a real run's, prepared by one recipe: ten datasets of ten kinds, and a report that adds up."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import draftmill, in_process, read_jsonl, write_jsonl, write_recipe
from tests.render.tiny import END, directory

drawn = random.Random(5)


def text(words: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(drawn.choice(letters) for _ in range(drawn.randint(2, 9))) for _ in range(words))


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": text(5), "parameters": {"type": "object"}}}


def call(name: str) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps({"x": text(2)})}}


def messages() -> dict[str, Any]:
    said = [{"role": "user", "content": text(20)}, {"role": "assistant", "content": "", "tool_calls": [call("find")]}]
    said += [{"role": "tool", "tool_call_id": "c1", "content": text(30)}]
    return {"messages": said, "tools": [tool("find")], "lang": drawn.choice(["en", "de"])}


def glaive() -> dict[str, Any]:
    system = "SYSTEM: You are a helpful assistant with access to the following functions. Use them if required -\n"
    definition = {"name": "look", "description": text(4), "parameters": {"type": "object", "properties": {}}}
    chat = (
        f'USER: {text(9)}\n\n\nASSISTANT: <functioncall> {{"name": "look", "arguments": \'{{}}\'}} <|endoftext|>\n\n\n'
    )
    return {
        "system": system + json.dumps(definition),
        "chat": chat + f"FUNCTION RESPONSE: {{}}\n\n\nASSISTANT: {text(5)}",
    }


def sharegpt() -> dict[str, Any]:
    turns = [(who, text(12)) for _ in range(drawn.randint(1, 4)) for who in ("human", "gpt")]
    return {"conversations": [{"from": who, "value": said} for who, said in turns]}


def trajectory() -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"role": "system", "content": text(40)}, {"role": "user", "content": text(200)}]
    for _ in range(25):
        steps += [{"role": "assistant", "content": text(10), "tool_calls": [call("bash")]}]
        steps += [{"role": "tool", "tool_call_id": "c1", "name": "bash", "content": text(60)}]
    return {"trajectory": [*steps, {"role": "assistant", "content": text(9)}]}


def tokenized() -> dict[str, Any]:
    ids = [drawn.randint(0, 200) for _ in range(drawn.randint(5, 400))]
    return {"input_ids": [*ids, END], "loss_mask": [0] * len(ids) + [1]}


KINDS: dict[str, tuple[Any, str]] = {
    "A1_tokens": (tokenized, "tokenized"),
    "B1_glaive": (glaive, "glaive"),
    "B2_messages": (messages, "messages"),
    "B3_sharegpt": (sharegpt, "sharegpt"),
    "C1_alpaca": (lambda: {"instruction": text(9), "input": text(5), "output": text(5)}, "alpaca"),
    "C2_code": (lambda: {"input": text(30), "output": text(9), "unit_tests": "[]"}, "opencodeinstruct"),
    "C3_humaneval": (lambda: {"prompt": f"def f():\n    '''{text(9)}'''\n", "entry_point": "f"}, "humaneval"),
    "D1_ultrachat": (lambda: {"data": [text(9) for _ in range(4)]}, "ultrachat"),
    "D2_turns": (lambda: {"turns": [text(9), text(5)]}, "turns"),
    "E1_agent": (trajectory, "trajectory"),
}
ROWS, COPIES = 60, 12


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("mix")
    directory(base / "model")
    for name, (make, _) in KINDS.items():
        rows = [make() for _ in range(ROWS)]
        rows += rows[:COPIES]  # again, in this dataset
        path = write_jsonl(base / f"{name}.jsonl", rows)
        with path.open("a") as file:
            file.write('{"broken\n[1, 2]\n')
    later = write_jsonl(base / "Z_again.jsonl", [])
    own = (base / "B3_sharegpt.jsonl").read_text().splitlines(keepends=True)
    later.write_text("".join([*own[:30], *(json.dumps(sharegpt()) + "\n" for _ in range(20))]))
    datasets: list[dict[str, Any]] = [{"name": name, "source": f"{name}.jsonl"} for name in (*KINDS, "Z_again")]
    by_name = {dataset["name"]: dataset for dataset in datasets}
    by_name["B2_messages"] |= {"where": {"lang": "en"}, "n": 3}
    by_name["E1_agent"] |= {"turns": "all", "history": "recorded"}
    by_name["D1_ultrachat"] |= {"turns": "all"}
    by_name["C1_alpaca"] |= {"samples": 25}
    by_name["C2_code"] |= {"max_prompt_tokens": 200}
    by_name["B3_sharegpt"] |= {"share": 2}
    by_name["Z_again"] |= {"share": 1, "duplicates": "near"}
    write_recipe(
        base / "recipe.yaml",
        model=str(base / "model"),
        engines=["http://127.0.0.1:9"],
        duplicates="exact",
        samples=54,
        datasets=datasets,
    )
    return base


def prepared(mix: Path, out: str, *options: str) -> dict[str, Any]:
    done = in_process("prepare", mix / "recipe.yaml", "--out", mix / out, "--json", *options)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_report_of_ten_kinds_adds_up(mix: Path) -> None:
    done = draftmill("prepare", mix / "recipe.yaml", "--out", mix / "run", "--json", "--cores", "2")
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    for name, (_, format) in KINDS.items():
        report = reports[name]
        lines = read_jsonl(mix / "run" / name / "prompts.jsonl")
        assert report["format"] == format and report["read"] == ROWS + COPIES + 2
        assert report["read"] * report["n"] == report["positions"] + sum(report["dropped"].values())
        assert report["positions"] == len(lines) == sum(report["lengths"].values())
        assert (report["unread"], report["dropped"]["unread"]) == (2, 2 * report["n"])
        assert report["prompt_tokens"] == sum(len(line["prompt_ids"]) for line in lines)
        assert report["longest_prompts"][0][0] == max(len(line["prompt_ids"]) for line in lines) == report["longest"]
    simple = [name for name in KINDS if reports[name]["dropped"] == {"unread": 2, "exact duplicate": COPIES}]
    assert len(simple) == 6 and all(reports[name]["positions"] == ROWS for name in simple)
    assert reports["B2_messages"]["positions"] % 3 == 0 and reports["B2_messages"]["dropped"]["filtered"] > 0
    assert reports["C1_alpaca"]["positions"] == 25 and reports["C1_alpaca"]["dropped"]["not sampled"] == ROWS - 25
    assert reports["C2_code"]["dropped"]["too long"] > 0 and reports["C2_code"]["longest"] <= 200
    assert reports["A1_tokens"]["passed_through"] == ROWS and reports["E1_agent"]["most_turns"] == 26
    assert reports["B1_glaive"]["with_tools"] == reports["B1_glaive"]["positions"] == ROWS
    assert (reports["B3_sharegpt"]["positions"], reports["Z_again"]["positions"]) == (36, 18), "54 by 2 to 1"
    assert reports["Z_again"]["dropped"] == {"exact duplicate of B3_sharegpt": 30, "not sampled": 2}
    assert "+ exact duplicate of B3_sharegpt" in done.stderr and "= prompts" in done.stderr


def test_it_does_not_matter_what_is_prepared_when(mix: Path) -> None:
    """The later of two datasets gives way, also where it is prepared first, by itself."""
    prepared(mix, "run")
    prepared(mix, "backwards", "--only", "Z_again")
    for name in sorted(KINDS, reverse=True):
        prepared(mix, "backwards", "--only", name)
    for name in (*KINDS, "Z_again"):
        for file in ("prompts.jsonl", "prepared.json", "unread.jsonl"):
            one, other = (mix / run / name / file for run in ("run", "backwards"))
            assert one.read_bytes() == other.read_bytes(), (name, file)
