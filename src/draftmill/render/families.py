"""How model families mark thinking, tool calls and the end of a turn: texts only, never ids.

A family is recognised by what the chat template says, or by the tokens that the vocabulary has; ids always come from
the live tokenizer (``markers.find``). A new family is one entry in FAMILIES, and a reader in ``calls`` if it writes its
calls in a way of its own.
"""

from enum import StrEnum

import msgspec


class Body(StrEnum):
    """How a tool call is written between its markers; ``calls.read`` reads each of them."""

    JSON = "json"  # {"name": …, "arguments": {…}}, or a list of such
    KIMI = "kimi"  # functions.NAME:INDEX, separator, {…}
    DEEPSEEK = "deepseek"  # NAME, separator, {…}; or function, separator, NAME and a fenced block
    KEYS = "keys"  # NAME, then <arg_key>…</arg_key> and <arg_value>…</arg_value> in turn
    INVOKE = "invoke"  # <invoke name="NAME"> with <parameter name="…">, several in one block
    FUNCTION = "function"  # <function=NAME> with <parameter=…>
    PYTHON_TAG = "python_tag"  # {"name": …, "parameters": {…}}, several separated by ";", up to the end of the turn
    HARMONY = "harmony"  # messages on channels; a call is a message with a recipient


class Role(StrEnum):
    """What a marker does. The last five are harmony's."""

    THINK_OPEN = "thinking begins"
    THINK_CLOSE = "thinking ends"
    SECTION_OPEN = "tool section begins"
    SECTION_CLOSE = "tool section ends"
    CALL_OPEN = "tool call begins"
    CALL_SEPARATOR = "arguments begin"
    CALL_CLOSE = "tool call ends"
    START = "message begins"
    CHANNEL = "channel"
    CONSTRAIN = "content type"
    MESSAGE = "content begins"
    MESSAGE_END = "message ends"


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One way to mark an answer.

    ``signs``: the template that holds all texts of one of these groups is of this family. ``tokens``: a template that
    tells nothing is, where the vocabulary has all of these. ``turn_ends`` are those that an answer can end with; the
    template's own end of turn comes to them.
    """

    name: str
    signs: tuple[tuple[str, ...], ...] = ()
    tokens: tuple[str, ...] = ()
    markers: dict[Role, str] = {}
    body: Body | None = None
    turn_ends: tuple[str, ...] = ()


# any family may think in one of these pairs; that which the template names comes first
THINKING = (("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>"))

_TAGS = {Role.CALL_OPEN: "<tool_call>", Role.CALL_CLOSE: "</tool_call>"}

PLAIN = Family(name="plain")

FAMILIES = (  # the most telling signs first
    Family(
        name="kimi",
        signs=(("<|tool_calls_section_begin|>",), ("<|im_middle|>",)),
        tokens=("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
        markers={
            Role.SECTION_OPEN: "<|tool_calls_section_begin|>",
            Role.SECTION_CLOSE: "<|tool_calls_section_end|>",
            Role.CALL_OPEN: "<|tool_call_begin|>",
            Role.CALL_SEPARATOR: "<|tool_call_argument_begin|>",
            Role.CALL_CLOSE: "<|tool_call_end|>",
        },
        body=Body.KIMI,
        turn_ends=("<|im_end|>",),
    ),
    Family(
        name="gpt-oss",
        signs=(("<|channel|>", "<|message|>"),),
        tokens=("<|channel|>", "<|message|>", "<|call|>"),
        markers={
            Role.START: "<|start|>",
            Role.CHANNEL: "<|channel|>",
            Role.CONSTRAIN: "<|constrain|>",
            Role.MESSAGE: "<|message|>",
            Role.MESSAGE_END: "<|end|>",
        },
        body=Body.HARMONY,
        turn_ends=("<|return|>", "<|call|>"),
    ),
    Family(
        name="minimax",
        signs=(("<minimax:tool_call>",), ("]~b]",)),
        tokens=("<minimax:tool_call>", "</minimax:tool_call>"),
        markers={Role.CALL_OPEN: "<minimax:tool_call>", Role.CALL_CLOSE: "</minimax:tool_call>"},
        body=Body.INVOKE,
        turn_ends=("[e~[",),
    ),
    Family(
        name="deepseek",
        signs=(("<｜tool▁calls▁begin｜>",), ("<｜Assistant｜>",)),
        tokens=("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
        markers={
            Role.SECTION_OPEN: "<｜tool▁calls▁begin｜>",
            Role.SECTION_CLOSE: "<｜tool▁calls▁end｜>",
            Role.CALL_OPEN: "<｜tool▁call▁begin｜>",
            Role.CALL_SEPARATOR: "<｜tool▁sep｜>",
            Role.CALL_CLOSE: "<｜tool▁call▁end｜>",
        },
        body=Body.DEEPSEEK,
        turn_ends=("<｜end▁of▁sentence｜>",),
    ),
    Family(
        name="glm",
        signs=(("<tool_call>", "<arg_key>"), ("[gMASK]",)),
        tokens=("<tool_call>", "<arg_key>"),
        markers=_TAGS,
        body=Body.KEYS,
        turn_ends=("<|user|>", "<|observation|>", "<|endoftext|>"),
    ),
    Family(
        name="qwen3-coder",
        signs=(("<tool_call>", "<function="),),
        markers=_TAGS,
        body=Body.FUNCTION,
        turn_ends=("<|im_end|>",),
    ),
    Family(
        name="qwen3",
        signs=(("<tool_call>", "</think>"),),
        tokens=("<tool_call>", "</tool_call>", "<think>"),
        markers=_TAGS,
        body=Body.JSON,
        turn_ends=("<|im_end|>",),
    ),
    Family(
        name="hermes",
        signs=(("<tool_call>",),),
        tokens=("<tool_call>", "</tool_call>"),
        markers=_TAGS,
        body=Body.JSON,
        turn_ends=("<|im_end|>",),
    ),
    Family(name="gemma", signs=(("<start_of_turn>",),), turn_ends=("<end_of_turn>",)),
    Family(
        name="llama3",
        signs=(("<|start_header_id|>",),),
        tokens=("<|python_tag|>", "<|eom_id|>"),
        markers={Role.CALL_OPEN: "<|python_tag|>"},
        body=Body.PYTHON_TAG,
        turn_ends=("<|eot_id|>", "<|eom_id|>"),
    ),
)
