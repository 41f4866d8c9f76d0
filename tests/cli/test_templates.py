"""What a chat template does to the data, from end to end: told before a run, and what becomes of the prompts."""

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftmill.render import tokenizer as tokenizers
from tests.cli.command import KEY, in_process, read_jsonl, write_jsonl, write_recipe
from tests.conftest import EmbeddedServer
from tests.render import families

USER, SAID, AGAIN = (
    {"role": role, "content": text} for role, text in (("user", "hi"), ("assistant", "Hello."), ("user", "and now?"))
)
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": {}}}
IN_TEXT = "You are a helpful assistant with access to the following functions. Use them if required -\n" + json.dumps(
    TOOL["function"], indent=4
)
CHATML = (
    "{% for m in messages %}HEAD{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
STAMPED = "{{ 'Today is ' + strftime_now('%Y-%m-%d') + '. ' }}" + CHATML.replace("HEAD", "")
ALTERNATING = CHATML.replace(
    "HEAD",
    "{% if m.role == 'user' and loop.previtem is defined and loop.previtem.role == 'user' %}"
    "{{ raise_exception('After a user must come an assistant') }}{% endif %}",
)
REASONING = CHATML.replace("HEAD", "{% if m.role == 'assistant' %}{{ '(' + m.reasoning_content + ')' }}{% endif %}")
PLAIN = CHATML.replace("HEAD", "")


class Recipe:
    """A recipe for the small model's tokenizer with another chat template, and its run folder."""

    def __init__(self, folder: Path, model: Path, template: str | None, **dataset: Any) -> None:
        self.folder, self.out = folder, folder / "run"
        self.path = folder / "recipe.yaml"
        self.model = folder / "model"
        shutil.copytree(model, self.model)
        if template is not None:
            (self.model / "chat_template.jinja").write_text(template)
        self.values: dict[str, Any] = {
            "model": str(self.model),
            "engines": ["http://127.0.0.1:9"],
            "lanes": {"short": {"max_new_tokens": 4}},
            "datasets": [{"name": "d", "source": "d.jsonl", **dataset}],
        }

    def rows(self, *messages: list[dict[str, Any]], **more: Any) -> None:
        write_jsonl(self.folder / "d.jsonl", [{"messages": each, **more} for each in messages])

    def call(self, verb: str, *options: str) -> Any:
        write_recipe(self.path, **self.values)
        return in_process(verb, self.path, "--out", self.out, *options)

    def prepare(self, *options: str) -> tuple[dict[str, Any], str]:
        """The dataset's report, and what was told."""
        done = self.call("prepare", "--json", *options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["d"], done.stderr

    def prompts(self) -> list[dict[str, Any]]:
        return read_jsonl(self.out / "d" / "prompts.jsonl")

    def texts(self) -> list[str]:
        loaded = tokenizers.load(str(self.model))
        return [loaded.decode(prompt["prompt_ids"]) for prompt in self.prompts()]


def codes(report: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in report["findings"]]


def test_a_template_that_stamps_the_date_gets_that_of_the_runs_first_day(
    tmp_path: Path, tokenizer_folder: Path
) -> None:
    recipe = Recipe(tmp_path, tokenizer_folder, STAMPED)
    recipe.rows([USER], [AGAIN])
    today = date.today().isoformat()
    report, told = recipe.prepare("--samples", "1")
    assert codes(report) == ["date-inserted"]
    assert "the chat template writes today's date into prompts" in told
    assert f"every prompt of this run gets {today}, on whatever day it is rendered" in told
    assert recipe.texts()[0].startswith(f"Today is {today}.")
    settings = recipe.out / "run.yaml"
    begun = yaml.safe_load(settings.read_text())
    assert begun["date"] == today
    settings.write_text(yaml.safe_dump(begun | {"date": "2001-02-03"}))  # as if it had begun on that day
    recipe.prepare()
    assert [text[:20] for text in recipe.texts()] == ["Today is 2001-02-03."] * 2


def test_a_template_that_refuses_two_user_turns_in_a_row(tmp_path: Path, tokenizer_folder: Path) -> None:
    recipe = Recipe(tmp_path, tokenizer_folder, ALTERNATING)
    recipe.rows([USER], [USER, SAID, AGAIN])
    assert codes(recipe.prepare()[0]) == []  # nothing of this dataset is of that kind
    shutil.rmtree(recipe.out)
    recipe.rows([USER], [USER, AGAIN], [USER, SAID, AGAIN])
    report, told = recipe.prepare()
    assert (report["positions"], report["refused"], codes(report)) == (3, 1, ["turns-must-alternate"])
    assert "the chat template refuses two user messages in a row" in told
    assert "conversations that have them become error rows" in told
    (fault,) = [prompt["fault"] for prompt in recipe.prompts() if prompt.get("fault")]
    assert fault == "the chat template refuses this conversation: After a user must come an assistant"


def test_a_template_that_ignores_tools(tmp_path: Path, tokenizer_folder: Path) -> None:
    recipe = Recipe(tmp_path, tokenizer_folder, None)
    recipe.rows([USER])
    assert codes(recipe.prepare()[0]) == []
    shutil.rmtree(recipe.out)
    call = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    called = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]
    recipe.rows([USER], [*called, {"role": "tool", "content": "sun", "tool_call_id": "a"}], tools=[TOOL])
    report, told = recipe.prepare()
    assert codes(report) == ["tools-ignored", "calls-ignored"]
    assert told.count("use the chat template that it is served with") == 1
    assert "the chat template ignores `tools`" in told
    assert "the model is not shown the tools of a conversation, and cannot call what it does not know of" in told
    assert not any("get_weather" in text for text in recipe.texts())
    events = [e["message"] for e in read_jsonl(recipe.out / "events.jsonl") if e["kind"] == "finding"]
    assert [event.partition(":")[0] for event in events] == ["tools-ignored", "calls-ignored"]


def test_native_tools_are_refused_where_the_model_has_no_form_for_them(tmp_path: Path, tokenizer_folder: Path) -> None:
    recipe = Recipe(tmp_path, tokenizer_folder, None)
    recipe.rows([{"role": "system", "content": IN_TEXT}, USER])
    report, told = recipe.prepare()
    assert (report["tools_as_text"], codes(report)) == (1, []) and "--native-tools" not in told
    shutil.rmtree(recipe.out)
    refused = recipe.call("prepare", "--native-tools")
    assert refused.returncode == 1
    assert "native_tools: this model has no form of its own for tools: the chat template ignores `tools`" in (
        refused.stderr
    )
    assert recipe.prepare()[0]["tools_lifted"] == 0  # without the option the same folder does


@pytest.fixture
def hermes(tmp_path: Path) -> Recipe:
    """A tool-capable family, whose tokenizer is a directory."""
    families.plain_model("hermes").tokenizer.save(tmp_path / "hermes")
    recipe = Recipe(tmp_path, tmp_path / "hermes", None)
    broken = IN_TEXT + '\n{"name": "g", "description": "never ends", "parameters": {"type": '
    recipe.rows(*([{"role": "system", "content": text}, USER] for text in (IN_TEXT, "Be brief.", broken)))
    return recipe


def test_tools_as_text_are_counted_and_told(hermes: Recipe) -> None:
    report, told = hermes.prepare()
    assert (report["tools_as_text"], report["tools_lifted"], report["with_tools"]) == (2, 0, 0)
    assert report["tools_as_text_first"].startswith(f"{hermes.folder / 'd.jsonl'}:")
    assert codes(report) == ["tools-as-text"]
    assert "2 of 3 prompts have their tools as text in the system prompt" in told
    assert "`--native-tools` (`native_tools: true` in the recipe) makes them its own" in told


@pytest.mark.parametrize("how", ["option", "recipe"])
def test_native_tools_are_lifted_into_the_models_own_form(hermes: Recipe, how: str) -> None:
    option = ["--native-tools"] if how == "option" else []
    hermes.values["datasets"][0] |= {} if option else {"native_tools": True}
    report, told = hermes.prepare(*option)
    assert (report["tools_lifted"], report["tools_as_text"], report["with_tools"]) == (1, 1, 1)
    assert "1 row" in told and "rendered in the model's own form now" in told
    assert "1 of 3 prompts still have their tools as text" in told and "not JSON" in told
    (lifted,) = [p for p in hermes.prompts() if p.get("tools")]
    assert lifted["tools"] == [TOOL]
    assert lifted["messages"][0] == {"role": "system", "content": "You are a helpful assistant."}
    (text,) = [text for text in hermes.texts() if "<tools>" in text]
    assert "You are a helpful assistant.<|im_end|>" in text and '"name": "get_weather"' in text
    assert f"draftmill run {hermes.path} --out {hermes.out}{' --native-tools' if option else ''}\n" in told
    hermes.values["datasets"][0].pop("native_tools", None)
    changed = hermes.call("prepare")
    assert changed.returncode == 1 and "d.native_tools: True → False" in changed.stderr


def test_markers_of_the_recipe(tmp_path: Path, tokenizer_folder: Path) -> None:
    """Two tokens that the small model has, and one that it does not have."""
    recipe = Recipe(tmp_path, tokenizer_folder, None)
    recipe.rows([USER, SAID, AGAIN], tools=[TOOL])
    recipe.values["datasets"][0]["turns"] = "all"
    recipe.values["markers"] = {"call": ["<jupyter_code>", "<jupyter_output>"], "separator": "<no such token>"}
    report, told = recipe.prepare()
    assert codes(report) == ["marker-split", "tools-ignored", "calls-ignored"]
    assert "the marker '<no such token>' (arguments begin) is" in told and "not one" in told
    recipe.values["markers"] = {"family": "hermes"}
    changed = recipe.call("prepare")
    assert changed.returncode == 1 and "markers.separator: '<no such token>' → None" in changed.stderr


def test_turn_ends_of_the_recipe_are_frozen_as_stop_ids(tmp_path: Path, tokenizer_folder: Path) -> None:
    recipe = Recipe(tmp_path, tokenizer_folder, None)
    recipe.rows([USER])
    recipe.values["markers"] = {"turn_ends": ["<jupyter_output>", "<no such end>"]}
    report, told = recipe.prepare()
    assert codes(report) == ["marker-split"]
    assert "the marker '<no such end>' (turn ends) is" in told and "no engine is asked to stop there" in told
    (id,) = tokenizers.load(str(recipe.model)).encode(["<jupyter_output>"])[0]
    assert yaml.safe_load((recipe.out / "run.yaml").read_text())["stop_ids"] == [2, id]
    recipe.values["markers"] = {"turn_ends": "<jupyter_output>"}
    changed = recipe.call("prepare")
    assert changed.returncode == 1 and "markers.turn_ends: " in changed.stderr


@pytest.mark.embedded
def test_a_template_that_needs_reasoning(
    tmp_path: Path, tokenizer_folder: Path, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded answers get an empty one, and so do generated ones that have none."""
    monkeypatch.setenv(KEY, embedded_server.key)
    recipe = Recipe(tmp_path, tokenizer_folder, REASONING)
    recipe.rows([USER, SAID, AGAIN], [USER, {**SAID, "reasoning_content": "Hm."}, AGAIN])
    recipe.values["engines"] = [{"url": embedded_server.url, "api_key_env": KEY}]
    recipe.values["datasets"].append({"name": "all", "source": "d.jsonl", "turns": "all"})
    done = recipe.call("run")
    assert done.returncode == 0, done.stderr
    assert "the chat template refuses earlier answers without `reasoning_content`" in done.stderr
    assert "those that have none are given an empty one" in done.stderr
    heads = [text.partition("<|im_end|>\n")[2].partition("<|im_start|>")[0] for text in recipe.texts()]
    assert sorted(heads) == ["()", "(Hm.)"]
    seconds = [line for line in read_jsonl(recipe.out / "all" / "raw_responses.jsonl") if line["turn"] == 1]
    loaded = tokenizers.load(str(tokenizer_folder))
    assert all("()<|im_start|>assistant\n" in loaded.decode(line["prompt_ids"]) for line in seconds)
    ended = [line.get("ended") for line in read_jsonl(recipe.out / "all" / "raw_responses.jsonl") if line["turn"] == 0]
    assert len(seconds) == ended.count(None)


@pytest.mark.embedded
def test_what_a_template_refuses_becomes_an_error_row_with_its_words(
    tmp_path: Path, tokenizer_folder: Path, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, embedded_server.key)
    recipe = Recipe(tmp_path, tokenizer_folder, ALTERNATING)
    recipe.rows([USER], [USER, AGAIN])
    recipe.values |= {"engines": [{"url": embedded_server.url, "api_key_env": KEY}], "max_error_share": 0.5}
    done = recipe.call("run")
    assert done.returncode == 0, done.stderr
    assert done.stderr.index("refuses two user messages in a row") < done.stderr.index("  engine ")
    (failure,) = read_jsonl(recipe.out / "d" / "errors.jsonl")
    assert failure["kind"] == "render" and failure["reason"].endswith("After a user must come an assistant")
    assert len(read_jsonl(recipe.out / "d" / "tokenized_data.jsonl")) == 1
