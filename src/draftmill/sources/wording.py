"""The wording of a conversation: what it asks and tells the model, in words, so that copies of a request look alike.

Left out is what copies do not share or all rows do: case, punctuation, greetings and thanks, the answers of the model,
and the system prompt and the tools, which stand apart. Numbers, signs and code in fences stand apart as well: a request
with another number or another identifier is another request, however many words the two share.
"""

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from draftmill.records import Conversation, Message
from draftmill.sources.canonical import ASSISTANT, SYSTEM, USER

_FENCE = "```"
_LANGUAGE = re.compile(r"\A\S*(?=\s)")  # what a fence says its code is
_TOKEN = re.compile(r"[^\W_]+|[+*/^=<>%&|~×÷√≤≥≠±]|-(?=\s?\d)")
_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_UNSPACED = re.compile(f"[{_DENSE}]+")  # scripts that put no white space between words
_PIECES = re.compile(f"[{_DENSE}]+|[^{_DENSE}]+")

_HELLO_TEXT = "hi hello hey hiya howdy greetings dear hallo bonjour salut hola ciao ola olá привет здравствуйте merhaba"
_HELLO = frozenset(_HELLO_TEXT.split())
_ADDRESSED_TEXT = "there everyone all folks friend assistant ai bot chatgpt gpt claude"
_ADDRESSED = _HELLO | frozenset(_ADDRESSED_TEXT.split())
_DAY = frozenset(["morning", "afternoon", "evening", "day"])
_LEADS = [
    phrase.split()
    for phrase in (
        "i hope you are doing well",
        "i hope you re doing well",
        "i hope this finds you well",
        "please",
        "kindly",
        "bitte",
        "could you",
        "can you",
        "would you",
        "will you",
        "help me with this",
    )
]
_THANKS = frozenset(["thanks", "thank", "thx", "cheers", "merci", "danke", "gracias"])
_AFTER_THANKS_TEXT = "you in advance so very much a lot for your help time please again"
_AFTER_THANKS = _THANKS | frozenset(_AFTER_THANKS_TEXT.split())
_TAIL = 8  # words in which thanks are looked for


class Wording(NamedTuple):
    """``words`` in order; ``figures``: numbers, signs and all that stands in fences of code, in order; ``system``: the
    words of the system prompt; ``setting``: how many messages ask or tell, and the names of the tools."""

    words: list[str]
    figures: list[str]
    system: list[str]
    setting: list[str]


def wording(conversation: Conversation) -> Wording:
    """The wording of all that a conversation asks for, later turns included."""
    words: list[str] = []
    figures: list[str] = []
    system: list[str] = []
    messages = 0
    for message in _all(conversation):
        if message["role"] == SYSTEM:
            system += _tokens(message["content"])
        elif message["role"] != ASSISTANT:
            messages += 1
            said: list[str] = []
            for number, part in enumerate(message["content"].split(_FENCE)):
                code = number % 2 == 1
                tokens = _tokens(_LANGUAGE.sub("", part, count=1) if code else part)
                figures += [token for token in tokens if code or _is_figure(token)]
                said += [token for token in tokens if not (code or _is_figure(token))]
            words += _request(said) if message["role"] == USER else said
    tools = sorted(str(tool["function"]["name"]) for tool in conversation.tools or ())
    return Wording(words, figures, system, [str(messages), *tools])


def text_of(conversation: Conversation) -> str:
    """What the user said, as it was written: the text whose language is asked for."""
    return "\n".join(m["content"] for m in _all(conversation) if m["role"] == USER)


def _all(conversation: Conversation) -> Iterable[Message]:
    yield from conversation.messages
    for turn in conversation.later:
        yield from turn.then


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _TOKEN.findall(text.lower())
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())
    if not _UNSPACED.search(text):
        return tokens
    return [piece for token in tokens for piece in _pieces(token)]


def _pieces(token: str) -> Iterable[str]:
    """A token, with pairs of neighbours in place of what has no white space between words."""
    for piece in _PIECES.findall(token):
        if len(piece) > 2 and _UNSPACED.match(piece):
            yield from map("".join, pairwise(piece))
        else:
            yield piece


def _is_figure(token: str) -> bool:
    """A number (``17``, ``3rd``) or a sign; ``x2`` is a word."""
    return token[0].isdigit() or not token[0].isalnum()


def _request(words: list[str]) -> list[str]:
    """A message without the greeting at its head and the thanks at its end; all of it where it is nothing else."""
    start, end = 0, len(words)
    if words and (words[0] in _HELLO or (words[0] == "good" and words[1:2] and words[1] in _DAY)):
        start = 1 if words[0] in _HELLO else 2
        while start < end and words[start] in _ADDRESSED:
            start += 1
    while lead := next((lead for lead in _LEADS if words[start : start + len(lead)] == lead), None):
        start += len(lead)
    for at in range(max(start, end - _TAIL), end):
        if words[at] in _THANKS and all(word in _AFTER_THANKS for word in words[at:end]):
            end = at
            break
    while end > start and words[end - 1] == "please":
        end -= 1
    return words[start:end] or words
