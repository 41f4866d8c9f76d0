"""The model's thinking, tool-call and turn-end markers, found in the live tokenizer and chat template.

No id is written down anywhere: ``families`` knows texts, the tokenizer says which of them are one token, and the
template which of them the model uses. A marker that is not one token cannot be told apart in a sequence of ids, so it
is no marker here, and that is told.
"""

from enum import StrEnum

import msgspec

from draftmill import recipe
from draftmill.errors import RenderError
from draftmill.render.families import FAMILIES, PLAIN, THINKING, Body, Family, Role
from draftmill.render.findings import Code, Concern, Finding
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer

_CALL_ROLES = (Role.SECTION_OPEN, Role.SECTION_CLOSE, Role.CALL_OPEN, Role.CALL_SEPARATOR, Role.CALL_CLOSE)

_TOKENIZER = "use the tokenizer that the model is served with, or name its own markers (`markers` in the recipe)"
_OTHER_END = "take it out of `markers.turn_ends`, or name the other markers too (`markers` in the recipe)"


class Custom(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says about a model's markers, each as its text; whatever is left out is found as usual.

    ``family`` names one of ``families`` to start from. ``body`` says how a call is written between its markers.
    """

    family: str | None = None
    thinking: tuple[str, str] | None = None
    section: tuple[str, str] | None = None
    call: tuple[str, str] | None = None
    separator: str | None = None
    body: Body | None = None
    turn_ends: tuple[str, ...] = ()


def custom(said: recipe.Markers) -> Custom:
    """What a recipe says about the target's markers."""
    return Custom(**(said.model_dump() | {"body": Body(said.body) if said.body else None}))


class Thinking(StrEnum):
    """What a prompt says about thinking where the answer begins: nothing, it is open already, or it is over."""

    UNSAID = "unsaid"
    OPENED = "opened"
    CLOSED = "closed"


class Markers(msgspec.Struct, frozen=True):
    """The markers of one model, by id.

    ``turn_ends`` end a turn in the template's own way; ``stops`` are the other ids that the engine stops at.
    ``boundaries`` are all ids of added tokens: behind the last of them begins what a prompt says of the answer.
    """

    family: str
    body: Body | None
    roles: dict[int, Role]
    texts: dict[int, str]
    turn_ends: frozenset[int]
    stops: frozenset[int]
    boundaries: frozenset[int]

    def id(self, role: Role) -> int | None:
        """The id of the marker with this role, or None where the model has none."""
        return next((id for id, known in self.roles.items() if known is role), None)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """What an engine is asked to stop at: all ids that end an answer, ascending."""
        return tuple(sorted(self.turn_ends | self.stops))

    @property
    def thinks(self) -> bool:
        """Whether thinking can be told from content."""
        return self.body is Body.HARMONY or self.id(Role.THINK_CLOSE) is not None

    @property
    def calls(self) -> bool:
        """Whether tool calls can be told from content."""
        return self.body is not None

    def thinking_at_end(self, prompt_ids: list[int]) -> Thinking:
        """What a prompt says about thinking where its answer begins.

        Only what stands behind the last other added token counts: a user may have typed ``<think>`` further up.
        """
        for id in reversed(prompt_ids):
            role = self.roles.get(id)
            if role is Role.THINK_OPEN:
                return Thinking.OPENED
            if role is Role.THINK_CLOSE:
                return Thinking.CLOSED
            if id in self.boundaries:
                break
        return Thinking.UNSAID

    def opened(self, prompt_ids: list[int]) -> bool:
        """Whether an answer to this prompt begins inside the thinking."""
        return self.thinking_at_end(prompt_ids) is Thinking.OPENED


def find(tokenizer: Tokenizer, template: ChatTemplate, custom: Custom | None = None) -> tuple[Markers, list[Finding]]:
    """The markers of a model, and a finding for each that its template or a person names but that is not one token, or
    that cannot be what a person says.

    Raises RenderError where a person names a family that is not known.
    """
    asked = custom or Custom()
    family = _overlaid(_family(tokenizer, template, asked), asked)
    findings = []
    roles: dict[int, Role] = {}
    texts: dict[int, str] = {}
    for role, text in {**family.markers, **_thinking(tokenizer, template, asked)}.items():
        id = single(tokenizer, text)
        if id is not None:
            roles[id], texts[id] = role, text
        elif template.mentions(text) or text in _named(asked):
            findings.append(_not_one_token(tokenizer, role, text))
    _drop_halves(roles)
    ends = {text: single(tokenizer, text) for text in family.turn_ends}
    for text, id in ends.items():
        if id is None and (text in asked.turn_ends or template.mentions(text)):
            findings.append(_no_end(_split(tokenizer, text, "turn ends"), _TOKENIZER))
        elif id in roles and text in asked.turn_ends:
            findings.append(_no_end(f"the marker {text!r} ({roles[id]}) cannot end a turn as well", _OTHER_END))
    turn_ends = {*template.turn_ends, *(id for id in ends.values() if id is not None)} - roles.keys()
    texts = {id: text for id, text in texts.items() if id in roles} | {i: t for t, i in ends.items() if i in turn_ends}
    known = set(roles.values())
    body = family.body if known & ({Role.MESSAGE} if family.body is Body.HARMONY else {Role.CALL_OPEN}) else None
    markers = Markers(
        family=family.name,
        body=body,
        roles=roles,
        texts=texts,
        turn_ends=frozenset(turn_ends),
        stops=frozenset(template.stop_ids) - turn_ends,
        boundaries=frozenset(tokenizer.special.values()),
    )
    return markers, findings


def single(tokenizer: Tokenizer, text: str) -> int | None:
    """The id of a text that is one token wherever it stands, or None."""
    if text in tokenizer.special:
        return tokenizer.special[text]
    (ids,) = tokenizer.encode([text])
    return ids[0] if len(ids) == 1 and tokenizer.decode(ids) == text else None


def _family(tokenizer: Tokenizer, template: ChatTemplate, asked: Custom) -> Family:
    if asked.family is not None:
        known = {family.name: family for family in (*FAMILIES, PLAIN)}
        if asked.family not in known:
            raise RenderError(f"no family of markers {asked.family!r}", f"there are {', '.join(known)}")
        return known[asked.family]
    for family in FAMILIES:
        if any(all(map(template.mentions, group)) for group in family.signs):
            return family
    for family in FAMILIES:
        if family.tokens and all(single(tokenizer, text) is not None for text in family.tokens):
            return family
    return PLAIN


def _overlaid(family: Family, asked: Custom) -> Family:
    """The family with what a person says laid over it."""
    markers = dict(family.markers)
    if asked.call is not None:  # another way to call: nothing of the family's own remains
        markers = {role: text for role, text in markers.items() if role not in _CALL_ROLES}
    pairs = (
        (asked.section, Role.SECTION_OPEN, Role.SECTION_CLOSE),
        (asked.call, Role.CALL_OPEN, Role.CALL_CLOSE),
    )
    for pair, first, last in pairs:
        if pair is not None:
            markers |= {role: text for role, text in zip((first, last), pair, strict=True) if text}
    if asked.separator is not None:
        markers[Role.CALL_SEPARATOR] = asked.separator
    return msgspec.structs.replace(
        family,
        name=family.name if asked == Custom(family=asked.family) else f"{family.name} (custom)",
        markers=markers,
        body=asked.body or family.body or (Body.JSON if asked.call else None),
        turn_ends=asked.turn_ends or family.turn_ends,
    )


def _thinking(tokenizer: Tokenizer, template: ChatTemplate, asked: Custom) -> dict[Role, str]:
    """The pair that a person names, else one that the template names, else one that the vocabulary has."""
    named = [asked.thinking] if asked.thinking else [p for p in THINKING if any(map(template.mentions, p))]
    had = (p for p in THINKING if all(single(tokenizer, text) is not None for text in p))
    pair = next(iter(named), None) or next(had, None)
    return {} if pair is None else {Role.THINK_OPEN: pair[0], Role.THINK_CLOSE: pair[1]}


def _named(asked: Custom) -> set[str]:
    pairs = (asked.thinking or (), asked.section or (), asked.call or ())
    return {asked.separator or "", *(text for pair in pairs for text in pair)}


def _drop_halves(roles: dict[int, Role]) -> None:
    """Take out markers that are of no use without another one that is missing."""
    known = set(roles.values())
    gone: set[Role] = set()
    if not {Role.THINK_OPEN, Role.THINK_CLOSE} <= known:
        gone |= {Role.THINK_OPEN, Role.THINK_CLOSE}
    if Role.CALL_OPEN not in known:
        gone |= set(_CALL_ROLES)
    if not {Role.SECTION_OPEN, Role.SECTION_CLOSE} <= known:
        gone |= {Role.SECTION_OPEN, Role.SECTION_CLOSE}
    for id in [id for id, role in roles.items() if role in gone]:
        del roles[id]


def _not_one_token(tokenizer: Tokenizer, role: Role, text: str) -> Finding:
    message = _split(tokenizer, text, role)
    if role in (Role.THINK_OPEN, Role.THINK_CLOSE):
        meaning = "thinking cannot be told from content: it stays in the content of earlier turns"
        recorded = "thinking cannot be told from content; the recorded history does not need it"
        return Finding(Code.MARKER_SPLIT, message, meaning, Concern.TURNS, _TOKENIZER, recorded)
    meaning = "tool calls cannot be told from content: a conversation ends at the first call that it would need"
    recorded = "tool calls of an answer cannot be told from content; recorded calls are rendered as the template does"
    return Finding(Code.MARKER_SPLIT, message, meaning, Concern.CALLS, _TOKENIZER, recorded)


def _no_end(message: str, advice: str) -> Finding:
    """Of a text that cannot be sent to an engine as the end of an answer."""
    meaning = "no engine is asked to stop there: an answer goes on behind it, to another end or its limit"
    return Finding(Code.MARKER_SPLIT, message, meaning, advice=advice)


def _split(tokenizer: Tokenizer, text: str, what: str) -> str:
    (ids,) = tokenizer.encode([text])
    return f"the marker {text!r} ({what}) is {len(ids)} tokens in this tokenizer, not one"
