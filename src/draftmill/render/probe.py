"""Test renders: short conversations of made-up words, and a look at where these come out of the chat template.

What a template does to tools, to calls and to the reasoning of earlier answers is known before the first prompt is
rendered, and told as findings.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from draftmill.errors import RenderError
from draftmill.records import Conversation, Message, Tool
from draftmill.render.families import Role
from draftmill.render.findings import Code, Concern, Finding
from draftmill.render.form import Form, Padding
from draftmill.render.markers import Markers, Thinking
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer

_REASONING, _CONTENT, _TOOL, _CALL, _OTHER = "zqxreason", "zqxcontent", "zqxtool", "zqxcall", "zqxsecond"
_KEY, _VALUE = "zqxkey", "zqxvalue"
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")  # the servers' own name first
_FORMS: tuple[Literal["object", "text"], ...] = ("object", "text")  # as servers hand them over first
_USER: Message = {"role": "user", "content": "zqxuser"}
_OTHER_TEMPLATE = "if the model can call tools, use the chat template that it is served with for that"
_DUMMY: Tool = {
    "type": "function",
    "function": {
        "name": _TOOL,
        "description": "zqxdescription",
        "parameters": {"type": "object", "properties": {"zqxparameter": {"type": "string"}}, "required": []},
    },
}


def probe(
    tokenizer: Tokenizer, template: ChatTemplate, markers: Markers, arguments: dict[str, Any]
) -> tuple[Form, list[Finding]]:
    """The form that a template wants with these arguments, and what it does to tools, calls, reasoning and turns."""
    renders = _Renders(template, arguments)
    form, of_calls = _calls(renders)
    form, of_reasoning = _reasoning(renders, form, markers)
    prompt = renders.text([_USER])
    thinking = Thinking.UNSAID
    if prompt is not None and markers.thinks:
        thinking = markers.thinking_at_end(tokenizer.encode([prompt])[0])
    form = msgspec.structs.replace(form, padding=_padding(renders, form, markers))
    return form, [*_prompt(thinking), *_tools(renders), *of_calls, *of_reasoning, *_turns(renders), *_date(template)]


class _Renders:
    """Renders conversations with one template and its arguments; None where the template refuses."""

    def __init__(self, template: ChatTemplate, arguments: dict[str, Any]) -> None:
        self._template = template
        self._arguments = arguments

    def text(self, messages: list[Message], tools: list[Tool] | None = None) -> str | None:
        """A prompt."""
        try:
            return self._template.text(Conversation(messages, tools), self._arguments)
        except RenderError:
            return None

    def finished(self, answer: Message) -> str | None:
        """A conversation that ends with this answer."""
        try:
            return self._template.finished(Conversation([_USER, answer]), self._arguments)
        except RenderError:
            return None

    def turn(self, answer: Message) -> str | None:
        """A prompt of a second turn."""
        return self.text([_USER, answer, _USER])

    def loop(self, answer: Message) -> str | None:
        """A prompt behind the results of an answer's calls."""
        names = {call["id"]: call["function"]["name"] for call in answer["tool_calls"]}
        results = [{"role": "tool", "content": "zqxresult", "tool_call_id": i, "name": n} for i, n in names.items()]
        return self.text([_USER, answer, *results], [_DUMMY])


def _answer(content: str = _CONTENT, calls: Any = None, **reasoning: str) -> Message:
    message: Message = {"role": "assistant", "content": content, **reasoning}
    return {**message, "tool_calls": calls} if calls else message


def _call(arguments: object, name: str = _CALL, index: int = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"functions.{name}:{index}", "type": "function", "function": function}


def _arguments(form: Literal["object", "text"] | None) -> object:
    return f'{{"{_KEY}": "{_VALUE}"}}' if form == "text" else {_KEY: _VALUE}


def _prompt(thinking: Thinking) -> list[Finding]:
    if thinking is Thinking.OPENED:
        message = "the generation prompt opens the thinking"
        meaning = "answers begin inside it: the marker that opens it is in the prompt and not among what is learned"
        return [Finding(Code.THINKING_OPENED, message, meaning)]
    if thinking is Thinking.CLOSED:
        message = "the generation prompt ends the thinking before it begins"
        meaning = "answers have no thinking, so the drafter learns none"
        advice = "where the model thinks when it is served, set the template's variable for it (`template`)"
        return [Finding(Code.THINKING_CLOSED, message, meaning, advice=advice)]
    return []


def _tools(renders: _Renders) -> list[Finding]:
    without, shown = renders.text([_USER]), renders.text([_USER], [_DUMMY])
    if without is None or (shown is not None and _TOOL in shown):
        return []
    verb, code = ("refuses", Code.TOOLS_REFUSED) if shown is None else ("ignores", Code.TOOLS_IGNORED)
    meaning = "the model is not shown the tools of a conversation, and cannot call what it does not know of"
    return [Finding(code, f"the chat template {verb} `tools`", meaning, Concern.TOOLS, _OTHER_TEMPLATE)]


def _calls(renders: _Renders) -> tuple[Form, list[Finding]]:
    """How calls must be handed over so that they come out: as servers do where that works."""
    seen = False
    for arguments in _FORMS:
        text = renders.loop(_answer("", [_call(_arguments(arguments))]))
        seen |= text is not None
        if text is not None and _CALL in text and _well_written(text):
            form = Form(arguments=arguments)
            return form, [*_as_text(form), *_parallel(renders, form)]
    verb, code = ("leaves out", Code.CALLS_IGNORED) if seen else ("refuses", Code.CALLS_REFUSED)
    meaning = "results stand without their calls; turn by turn, a conversation ends where a later turn would need one"
    message = f"the chat template {verb} the tool calls of earlier answers"
    recorded = "results stand without their calls"
    return Form(), [Finding(code, message, meaning, Concern.CALLS, _OTHER_TEMPLATE, recorded)]


def _well_written(text: str) -> bool:
    """Whether the arguments came out as they are, neither quoted once more nor as Python's own notation."""
    _, key, _ = text.partition(_KEY)
    return bool(key) and _VALUE in text and f'\\"{_KEY}' not in text and f"'{_KEY}'" not in text


def _as_text(form: Form) -> list[Finding]:
    if form.arguments != "text":
        return []
    message = "the chat template takes the arguments of tool calls as text, not as an object"
    return [Finding(Code.ARGUMENTS_AS_TEXT, message, "they are handed to it as JSON with spaces", Concern.CALLS)]


def _parallel(renders: _Renders, form: Form) -> list[Finding]:
    arguments = _arguments(form.arguments)
    calls = [_call(arguments), _call(arguments, _OTHER, 1)]
    text = renders.loop(_answer("", calls))
    if text is not None and _OTHER in text:
        return []
    verb, code = ("refuses", Code.PARALLEL_REFUSED) if text is None else ("leaves out", Code.PARALLEL_IGNORED)
    message = f"the chat template {verb} all but one of an answer's tool calls"
    what = "become error rows" if text is None else "lose the others"
    recorded = f"conversations with a recorded answer that makes several {what}"
    meaning = "a conversation ends at an answer that makes several"
    return [Finding(code, message, meaning, Concern.CALLS, recorded=recorded)]


def _reasoning(renders: _Renders, form: Form, markers: Markers) -> tuple[Form, list[Finding]]:
    """Where the template looks for reasoning, and of which earlier answers it keeps it."""
    kept_in: dict[str, bool] = {}
    for key in _REASONING_KEYS:
        reasoning = {key: _REASONING}
        calls = [_call(_arguments(form.arguments))]
        texts: Mapping[str, str | None] = {
            "turn": renders.turn(_answer(**reasoning)),
            "loop": renders.loop(_answer("", calls, **reasoning)) if form.arguments else None,
            "last": renders.finished(_answer(**reasoning)),
        }
        kept_in = {where: _REASONING in text for where, text in texts.items() if text is not None}
        if any(kept_in.values()):
            needed = renders.turn(_answer()) is None and texts["turn"] is not None
            form = msgspec.structs.replace(form, reasoning_key=key, needs_reasoning=needed)
            break
    return form, [*(_of_reasoning(form, kept_in) if markers.thinks else ()), *_needed(form)]


def _of_reasoning(form: Form, kept_in: Mapping[str, bool]) -> list[Finding]:
    findings = []
    if form.reasoning_key is None or not kept_in.get("turn", True):
        message = "the chat template drops the reasoning of finished turns"
        meaning = "later turns are generated and learned without it, as they are served"
        findings.append(Finding(Code.REASONING_DROPPED, message, meaning, Concern.TURNS))
    elif "turn" in kept_in:
        message = "the chat template keeps the reasoning of finished turns"
        findings.append(Finding(Code.REASONING_KEPT, message, "each later prompt holds it again", Concern.TURNS))
    if form.arguments and not kept_in.get("loop", True):
        message = "the chat template drops the reasoning before tool calls, inside a tool loop as well"
        meaning = "answers after a tool result are generated and learned without it, as they are served"
        findings.append(Finding(Code.REASONING_DROPPED_IN_LOOP, message, meaning, Concern.CALLS))
    return findings


def _needed(form: Form) -> list[Finding]:
    if not form.needs_reasoning:
        return []
    message = f"the chat template refuses earlier answers without `{form.reasoning_key}`"
    meaning = "those that have none are given an empty one"
    return [Finding(Code.REASONING_NEEDED, message, meaning, Concern.ANSWERS)]


def _turns(renders: _Renders) -> list[Finding]:
    findings = []
    if renders.text([_USER]) is not None and renders.text([_USER, _USER]) is None:
        message = "the chat template refuses two user messages in a row"
        meaning = "conversations that have them become error rows"
        findings.append(Finding(Code.TURNS_MUST_ALTERNATE, message, meaning, Concern.ALTERNATION))
    if renders.text([_USER]) is not None and renders.text([{"role": "system", "content": "zqx"}, _USER]) is None:
        message = "the chat template refuses system prompts"
        meaning = "conversations that have one become error rows"
        advice = '`system: ""` takes them away'
        findings.append(Finding(Code.SYSTEM_REFUSED, message, meaning, Concern.SYSTEM, advice))
    return findings


def _date(template: ChatTemplate) -> list[Finding]:
    if not template.mentions("strftime_now"):
        return []
    meaning = f"every prompt of this run gets {template.date}, on whatever day it is rendered"
    return [Finding(Code.DATE_INSERTED, "the chat template writes today's date into prompts", meaning)]


def _padding(renders: _Renders, form: Form, markers: Markers) -> Padding:
    """The white space that the template itself puts between markers and words."""
    texts = {role: markers.texts.get(id, "") for id, role in markers.roles.items()}
    opens, closes = texts.get(Role.THINK_OPEN), texts.get(Role.THINK_CLOSE)
    calls = texts.get(Role.SECTION_OPEN) or texts.get(Role.CALL_OPEN)
    reasoning = {form.reasoning_key: _REASONING} if form.reasoning_key else {}
    rendered = [renders.finished(_answer(**reasoning))]
    if form.arguments:
        rendered.insert(0, renders.loop(_answer(calls=[_call(_arguments(form.arguments))], **reasoning)))
    prompt = renders.text([_USER]) or ""
    before_reasoning = _between(rendered, opens, _REASONING)
    in_prompt = prompt.rpartition(opens)[2] if opens and opens in prompt else ""
    return Padding(
        before_reasoning=before_reasoning,
        after_reasoning=_between(rendered, _REASONING, closes),
        before_content=_between(rendered, closes, _CONTENT),
        before_calls=_between(rendered, _CONTENT, calls),
        in_prompt=in_prompt if before_reasoning.startswith(in_prompt) else "",
        before_thinking=_between(rendered[-1:], prompt, opens),
    )


def _between(texts: Sequence[str | None], first: str | None, last: str | None) -> str:
    """What stands between two texts where that is white space, in the first rendering where it is some."""
    if not first or not last:
        return ""
    for text in filter(None, texts):
        end = text.find(last, max(text.find(first), 0))
        start = text.rfind(first, 0, max(end, 0))
        if start >= 0 and (gap := text[start + len(first) : end]).isspace():
            return gap
    return ""
