"""Lines as older tools wrote them: golden ones of each shape, odd ones included, and any at all."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.journal.legacy import Answer, Read, Shape, Why, read_response, read_tokenized
from draftmill.records import Finish

IDS = [5, 6, 7]
COUNTS = {"prompt_tokens": 9, "completion_tokens": 3}
STOPPED = {"type": "stop", "matched": 7}
CUT = {"finish_reason": {"type": "length", "length": 3}, "completion_tokens": 3}
ASKED = [{"role": "user", "content": "hi"}]
OWN = {"id": "ab", "position": 3, "turn": 0, "output_ids": IDS, "limit": 9}
CHAT = {"id": "chatcmpl-1", "object": "chat.completion", "model": "kimi", "usage": COUNTS}


def chat(content: str | None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "reasoning_content": None} | more
    return CHAT | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def read(line: Any) -> Read:
    return read_response(line if isinstance(line, bytes) else msgspec.json.encode(line))


@pytest.mark.parametrize(
    ("line", "shape", "answer"),
    [
        # counts at the top level, as the reference run had them after its change to token ids
        (
            {"id": "B1-7", "prompt_tokens": 2, "completion_tokens": 3, "output_ids": IDS, "finish_reason": "stop"},
            Shape.COUNTS,
            Answer(IDS, Finish.STOP, None, 2, 3, id="B1-7"),
        ),
        (
            {"prompt_token_ids": [1, 2], "output_token_ids": IDS, "completion_tokens": 3, "finish_reason": "length"},
            Shape.COUNTS,
            Answer(IDS, Finish.LENGTH, [1, 2], None, 3),
        ),
        (
            {"messages": ASKED, "output_ids": IDS, "finish_reason": STOPPED},
            Shape.COUNTS,
            Answer(IDS, Finish.STOP, matched_stop=7, messages=ASKED),
        ),
        # SGLang's reply to /generate, as it is and wrapped
        (
            {
                "text": "…",
                "output_ids": IDS,
                "meta_info": {"id": "x", "finish_reason": STOPPED} | COUNTS,
            },
            Shape.SGLANG,
            Answer(IDS, Finish.STOP, None, 9, 3, 7),
        ),
        (
            {
                "id": 12,
                "prompt_ids": [1, 2],
                "response": {"output_ids": IDS, "meta_info": CUT},
            },
            Shape.SGLANG,
            Answer(IDS, Finish.LENGTH, [1, 2], None, 3, id="12"),
        ),
        # vLLM with return_token_ids
        (
            CHAT
            | {"prompt_token_ids": [1, 2], "choices": [{"token_ids": IDS, "finish_reason": "stop"}]},
            Shape.OPENAI,
            Answer(IDS, Finish.STOP, [1, 2], 9, 3, id="chatcmpl-1"),
        ),
        # draftmill's own
        (
            OWN | COUNTS
            | {"finish_reason": "stop", "matched_stop": 7, "engine": "x", "seconds": 1.0, "cached_tokens": None},
            Shape.DRAFTMILL,
            Answer(IDS, Finish.STOP, None, 9, 3, 7, "ab"),
        ),
        (OWN | {"partial": True}, Shape.DRAFTMILL, Why.BEGINNING),
        (OWN | {"turn": 1}, Shape.DRAFTMILL, Why.BEGINNING),
        # text only
        (chat("Hello."), Shape.OPENAI, Why.TEXT),
        (chat("Let me think.</think>Hello."), Shape.OPENAI, Why.MERGED),
        (chat("Hello.", reasoning_content="Let me think.</think>"), Shape.OPENAI, Why.TEXT),
        (chat(None, tool_calls=[{"function": {"name": "f", "arguments": "{}"}}]), Shape.OPENAI, Why.TEXT),
        ({"id": 1, "response": chat("Hello.")}, Shape.OPENAI, Why.TEXT),
        (CHAT | {"choices": [{"text": "Hello.", "finish_reason": "stop"}]}, Shape.OPENAI, Why.TEXT),
        ({"completion_tokens": 3, "text": "Hello.", "finish_reason": "stop"}, Shape.COUNTS, Why.TEXT),
        # odd and broken
        ({"output_ids": IDS, "completion_tokens": 3}, Shape.COUNTS, Why.NO_END),
        ({"output_ids": IDS, "finish_reason": "abort"}, Shape.COUNTS, Why.NO_END),
        ({"output_ids": IDS, "finish_reason": ["stop"]}, Shape.COUNTS, Why.NO_END),
        ({"output_ids": "5 6 7", "finish_reason": "stop"}, Shape.COUNTS, Why.NOT_IDS),
        ({"output_ids": [5, True], "finish_reason": "stop"}, Shape.COUNTS, Why.NOT_IDS),
        ({"output_ids": [5, -1], "finish_reason": "stop"}, Shape.COUNTS, Why.NOT_IDS),
        ({"output_ids": [], "finish_reason": "stop"}, Shape.COUNTS, Why.NOT_IDS),
        (CHAT | {"choices": []}, Shape.OPENAI, Why.UNKNOWN),
        (CHAT | {"choices": [None]}, Shape.OPENAI, Why.UNKNOWN),
        ({"error": "rate limited"}, Shape.UNKNOWN, Why.UNKNOWN),
        ([1, 2], Shape.UNKNOWN, Why.UNKNOWN),
        (b'{"output_ids": [5, 6', Shape.UNKNOWN, Why.BROKEN),
        (b"\0\0\0\0\n", Shape.UNKNOWN, Why.BROKEN),
    ],
)  # fmt: skip
def test_a_response(line: Any, shape: Shape, answer: Answer | Why) -> None:
    assert read(line) == (shape, answer)


@pytest.mark.parametrize(
    ("line", "shape", "answer"),
    [
        ({"input_ids": [1, 2, 5, 7], "loss_mask": [0, 0, 1, 1]}, Shape.TOKENIZED, Answer([5, 7], None, [1, 2])),
        (
            {"input_ids": [1, 2, 5, 7], "loss_mask": [0, 0, 1, 1], "finish_reason": "length"},
            Shape.TOKENIZED,
            Answer([5, 7], Finish.LENGTH, [1, 2]),
        ),
        ({"input_ids": [1, 2, 5, 7], "loss_mask": [0, 1, 0, 1]}, Shape.TOKENIZED, Why.MASK),
        ({"input_ids": [1, 2, 5, 7], "loss_mask": [0, 1, 1, 0]}, Shape.TOKENIZED, Why.MASK),
        ({"input_ids": [1, 2], "loss_mask": [1, 1]}, Shape.TOKENIZED, Why.MASK),
        ({"input_ids": [1, 2], "loss_mask": [0, 0]}, Shape.TOKENIZED, Why.MASK),
        ({"input_ids": [1, 2], "loss_mask": [1]}, Shape.TOKENIZED, Why.NOT_IDS),
        ({"input_ids": [1, "2"], "loss_mask": [0, 1]}, Shape.TOKENIZED, Why.NOT_IDS),
        ({"input_ids": [1, 2]}, Shape.UNKNOWN, Why.UNKNOWN),
        ({"text": "Hello."}, Shape.UNKNOWN, Why.UNKNOWN),
        (b'{"input_ids": [1', Shape.UNKNOWN, Why.BROKEN),
    ],
)
def test_a_tokenized_row(line: Any, shape: Shape, answer: Answer | Why) -> None:
    assert read_tokenized(line if isinstance(line, bytes) else msgspec.json.encode(line)) == (shape, answer)


KEYS = ["choices", "message", "content", "usage", "output_ids", "meta_info", "finish_reason", "response", "position"]
KEYS += ["turn", "limit", "completion_tokens", "input_ids", "loss_mask", "token_ids", "type", "id"]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(-2, 9), max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(values | st.binary(max_size=40))
def test_any_line_is_an_answer_or_has_a_reason(value: Any) -> None:
    line = value if isinstance(value, bytes) else msgspec.json.encode(value)
    for each in (read_response(line), read_tokenized(line)):
        assert isinstance(each.answer, Why) or (each.answer.output_ids and min(each.answer.output_ids) >= 0)
