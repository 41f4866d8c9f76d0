"""Drift: answers whose ids their template gives back, and each way in which it does not."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from draftmill.engines.protocol import Request
from draftmill.recipe import Sampling
from draftmill.records import Conversation
from draftmill.render import tokenizer as tokenizers
from draftmill.render.dialect import Dialect
from draftmill.render.drift import Drift, Reason, Unjudged, as_generated, drift
from draftmill.render.template import ChatTemplate
from tests.render import families
from tests.render.families import FIXTURES, Model
from tests.render.test_parse import TOOLS, USER, spelt

TRIMMING = FIXTURES["smollm2"].template.replace("+ m.content +", "+ m.content.strip() +")
NARROW = FIXTURES["smollm2"].template.replace(
    "{{ '<|im_start|>' + m.role", "{{ raise_exception('no') if m.role == 'assistant' else '<|im_start|>' + m.role"
)


def drifted(model: Model, ids: list[int], messages: list[dict[str, Any]] | None = None) -> Drift:
    conversation = Conversation(messages or [USER], TOOLS)
    prompt = model.ids(model.dialect.text(conversation))
    return drift(ids, prompt, conversation, model.dialect, model.tokenizer)


@pytest.mark.parametrize(
    ("name", "arguments", "answer", "reason"),
    [
        ("smollm2", {}, "The weather is fine.■", Reason.NONE),
        ("smollm2", {}, "The weather is", Reason.NONE),  # cut, and the rendering begins with it
        ("smollm2", {}, " The weather \n■", Reason.NONE),
        ("smollm2", {}, "hi□", Reason.NONE),  # no end for this model, but text like any other
        ("gemma", {}, "hi■", Reason.NONE),
        ("gemma", {}, " hi■", Reason.WHITE_SPACE),
        ("gemma", {}, "hi\n", Reason.WHITE_SPACE),
        ("gemma", {}, "hi□", Reason.END),
        ("gemma", {}, "hi■a", Reason.END),
        ("qwen3", {}, "<think>\na\n</think>\n\nb■", Reason.NONE),
        ("qwen3", {}, '<think>\na\n</think>\n\nb\n⟨\n{"name": "f", "arguments": {"x": "ü"}}\n⟩■', Reason.NONE),
        ("qwen3", {}, '<think>\na\n</think>\n\nb\n⟨\n{"name":"f","arguments":{}}\n⟩■', Reason.CALLS),
        ("qwen3", {}, '<think>\na\n</think>\n\n⟨\n{"name": "f", "arguments": {"x": "\\u00fc"}}\n⟩■', Reason.CALLS),
        ("qwen3", {}, "<think>a</think>b■", Reason.WHITE_SPACE),
        ("qwen3", {}, "<think>\n\n\na\n</think>\n\nb■", Reason.WHITE_SPACE),
        ("qwen3", {}, "b■", Reason.TEXT),  # the template writes an empty thinking
        ("qwen3", {"enable_thinking": False}, "b■", Reason.NONE),
        ("qwen3", {}, "<think>\na", Reason.NONE),
        ("qwen3", {}, '<think>\na\n</think>\n\n⟨\n{"name": "f", "arguments": {}}\n⟩ and so■', Reason.TEXT),
        ("kimi", {}, 'a</think>⟦⟨functions.f:0¦{"x": "ü"}⟩⟨functions.g:1¦{}⟩⟧■', Reason.NONE),
        ("kimi", {}, "a</think>b⟦⟨functions.f:7¦{}⟩⟧■", Reason.CALLS),  # the index is the conversation's
        ("kimi", {}, "a</think>b■", Reason.REASONING),  # finished: the template drops it at once
        ("kimi", {"thinking": False}, "b■", Reason.NONE),
        ("deepseek-r1", {}, "a\n</think>\n\nb■", Reason.REASONING),
        ("deepseek-r1", {}, "</think>b■", Reason.PROMPT),
        ("deepseek-v3.1", {}, "b■", Reason.NONE),
        ("deepseek-v3.1", {}, 'b⟦⟨f¦{"x": "1"}⟩⟨g¦{}⟩⟧■', Reason.NONE),
        ("deepseek-v3.1", {"thinking": True}, "a</think>b■", Reason.REASONING),
        ("glm", {}, "\n<think>a</think>\nb■", Reason.NONE),
        ("glm", {}, "\n<think>a</think>\nb\n⟨f\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n⟩□", Reason.NONE),
        ("glm", {}, "\n<think>a </think>\nb■", Reason.WHITE_SPACE),
        ("minimax", {}, "a\n</think>\n\nb■", Reason.NONE),
        (
            "minimax",
            {},
            'a\n</think>\n\n\n⟨\n<invoke name="f">\n<parameter name="days">3</parameter>\n</invoke>\n'
            '<invoke name="g">\n</invoke>\n⟩■',
            Reason.NONE,
        ),
        ("gpt-oss", {}, "@analysis|a;▸@final|b■", Reason.NONE),
        ("gpt-oss", {}, "@analysis|a;▸ to=functions.f@commentary json|{}!", Reason.NONE),
        ("gpt-oss", {}, "@analysis|a;▸@commentary to=functions.f ~json|{}!", Reason.CALLS),
        ("gpt-oss", {}, "@analysis|a;▸@commentary|b;▸@commentary to=functions.f ~json|{}!", Reason.REFUSED),
        ("llama3", {}, '{"name": "f", "parameters": {"x": "1"}}■', Reason.NONE),
        ("llama3", {}, '⟨{"name": "f", "parameters": {}}▪', Reason.CALLS),
        ("hermes", {}, 'b\n⟨\n{"name": "f", "arguments": {"x": "1"}}\n⟩■', Reason.NONE),
        ("hermes", {}, "", Reason.NONE),
    ],
)
def test_why_an_answer_drifts(name: str, arguments: dict[str, Any], answer: str, reason: Reason) -> None:
    model = families.model(name, **arguments)
    found = drifted(model, model.ids(spelt(name, answer)))
    assert found.reason is reason, found


def test_a_template_that_trims_white_space() -> None:
    model = families.made(FIXTURES["smollm2"]._replace(template=TRIMMING))
    clean, padded = (drifted(model, model.ids(spelt("smollm2", text))) for text in ("hi■", "hi \n■"))
    assert clean == Drift(Reason.NONE)
    assert (padded.reason, padded.position) == (Reason.WHITE_SPACE, len(model.ids("hi")))
    assert (padded.generated, padded.rendered) == (" \n<|im_end|>", "<|im_end|>\n")


def test_ids_that_do_not_survive_decoding() -> None:
    model = families.plain_model("smollm2")
    whole, letters = model.ids("the weather"), [id for c in "the weather" for id in model.ids(c)]
    assert len(whole) < len(letters)
    end = model.ids("<|im_end|>")
    assert drifted(model, whole + end) == Drift(Reason.NONE)
    found = drifted(model, letters + end)
    assert (found.reason, found.position) == (Reason.TOKENISATION, 0)
    assert found.rendered.startswith("the weather")


def test_an_answer_that_grows_together_with_its_prompt() -> None:
    """The prompt ends in a line end and the answer begins with one: rendered at once, these are one token."""
    model = families.plain_model("smollm2")
    assert len(model.ids("\n\n")) == 1
    found = drifted(model, model.ids("\n<|im_end|>"))
    assert (found.reason, found.position) == (Reason.TOKENISATION, -1)


def test_reasoning_of_an_earlier_turn_that_the_answer_finishes() -> None:
    """Kimi's template keeps reasoning inside a tool loop only: the final answer ends the loop."""
    model = families.plain_model("kimi")
    call = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": {}}}
    loop = [
        USER,
        {"role": "assistant", "content": "", "reasoning_content": "look", "tool_calls": [call]},
        {"role": "tool", "content": "sun", "tool_call_id": "functions.f:0"},
    ]
    found = drifted(model, model.ids("</think>It is sunny.<|im_end|>"), loop)
    assert found.reason is Reason.REASONING
    assert found.position is not None and found.position < 0


def test_a_refused_answer_says_why() -> None:
    model = families.made(FIXTURES["smollm2"]._replace(template=NARROW))
    found = drifted(model, model.ids("hi<|im_end|>"))
    assert (found.reason, found.position) == (Reason.REFUSED, None)
    assert "the chat template refuses this conversation: no" in found.rendered


THOUGHT = {"content": "b", "reasoning_content": "a"}


@pytest.mark.parametrize(
    ("name", "arguments", "message", "answer"),
    [
        ("smollm2", {}, {"content": " hi"}, " hi■"),
        ("qwen3", {}, {"content": "b"}, "b■"),
        ("qwen3", {}, THOUGHT, "<think>\na\n</think>\n\nb■"),
        ("qwen3", {}, {"content": "\n\nb", "reasoning_content": "\na\n"}, "<think>\na\n</think>\n\nb■"),
        ("kimi", {}, THOUGHT, "a</think>b■"),
        ("kimi", {}, {"content": "b"}, Unjudged.THINKING),
        ("kimi", {"thinking": False}, {"content": "b"}, "b■"),
        ("minimax", {}, THOUGHT, "a\n</think>\n\nb■"),  # the prompt has the first line end
        ("hermes", {}, THOUGHT, "b■"),
        ("llama3", {}, {"content": "b"}, "b■"),  # not at its other end, <|eom_id|>, whose id is the lower one
        ("glm", {}, THOUGHT, "\n<think>a</think>\nb"),  # its template leaves the end to the next turn
        ("qwen3", {}, {"content": "", "tool_calls": [{}]}, Unjudged.CALLS),
        ("gpt-oss", {}, {"content": "b"}, Unjudged.CHANNELS),
    ],
)
def test_a_recorded_answer_as_it_was_generated(
    name: str, arguments: dict[str, Any], message: dict[str, Any], answer: str | Unjudged
) -> None:
    model = families.model(name, **arguments)
    prompt = model.ids(model.dialect.text(Conversation([USER])))
    ids = as_generated({"role": "assistant", **message}, prompt, model.dialect, model.tokenizer)
    assert ids == (answer if isinstance(answer, Unjudged) else model.ids(spelt(name, answer)))


@pytest.mark.parametrize("name", ["smollm2", "qwen3", "minimax", "hermes", "llama3", "glm"])
def test_a_recorded_answer_that_the_template_would_write_alike_does_not_drift(name: str) -> None:
    model = families.plain_model(name)
    prompt = model.ids(model.dialect.text(Conversation([USER])))
    ids = as_generated({"role": "assistant", **THOUGHT}, prompt, model.dialect, model.tokenizer)
    assert isinstance(ids, list)
    assert drift(ids, prompt, Conversation([USER]), model.dialect, model.tokenizer).reason is Reason.NONE


def test_with_the_small_models_own_tokenizer(tokenizer_folder: Path) -> None:
    loaded = tokenizers.load(str(tokenizer_folder))
    template = ChatTemplate(loaded, families.DAY)
    model = Model(loaded, template, Dialect(loaded, template, {}))
    conversation = Conversation([{"role": "user", "content": "What is the capital of France?"}])
    prompt = model.ids(model.dialect.text(conversation))
    end = loaded.special["<|im_end|>"]

    def of(ids: list[int]) -> Reason:
        return drift(ids, prompt, conversation, model.dialect, loaded).reason

    assert of([*model.ids(" The capital of France is Paris.\n\n1. It is"), end]) is Reason.NONE
    assert of(model.ids("The capital")) is Reason.NONE
    assert of([*model.ids("The"), *model.ids(" cap"), *model.ids("ital"), end]) is Reason.TOKENISATION


@pytest.mark.embedded
def test_the_share_among_real_answers_is_the_one_counted_by_hand(with_embedded: Any, small_model: Path) -> None:
    """200 answers of the small model, hot enough that it often leaves the tokenizer's own way of cutting words."""
    loaded = tokenizers.load(str(small_model))
    template = ChatTemplate(loaded, families.DAY)
    model = Model(loaded, template, Dialect(loaded, template, {}))
    conversation = Conversation([{"role": "user", "content": "Write one line about the sea."}])
    prompt = model.ids(model.dialect.text(conversation))
    hot = Sampling(temperature=1.5)

    async def answers(engine: Any) -> list[list[int]]:
        requests = [Request(prompt, 6, hot, template.stop_ids, f"drift-{n}", seed=n) for n in range(200)]
        return [reply.output_ids for reply in await asyncio.gather(*map(engine.generate, requests))]

    found = with_embedded(answers)
    end = loaded.special["<|im_end|>"]
    by_hand = 0
    for ids in found:
        content = [id for id in ids if id != end]
        again = loaded.encode([template.text(conversation, {}) + loaded.decode(content)])[0]
        by_hand += again != [*prompt, *content]
    reasons = Counter(drift(ids, prompt, conversation, model.dialect, loaded).reason for ids in found)
    assert 0 < by_hand < len(found) == 200
    assert len(found) - reasons[Reason.NONE] == by_hand
    assert set(reasons) == {Reason.NONE, Reason.TOKENISATION}
