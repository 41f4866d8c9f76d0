"""Special tokens that somebody typed as text: the serving stack reads them as tokens, so they are counted and told."""

import re
from collections.abc import Iterable

from draftmill.records import Conversation, Message

_SHORTEST = 3  # a special token of one or two characters is ordinary text


class SpecialText:
    """Finds the texts of special tokens inside what users, tools and system prompts say."""

    def __init__(self, tokens: Iterable[str]) -> None:
        texts = sorted({t for t in tokens if len(t.strip()) >= _SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, texts))) if texts else None

    def found(self, conversation: Conversation) -> list[str]:
        """The distinct special tokens in a conversation's content, answers left out, in order of appearance."""
        if self._pattern is None:
            return []
        texts = (text for m in conversation.messages if m.get("role") != "assistant" for text in _texts(m))
        return list(dict.fromkeys(match for text in texts for match in self._pattern.findall(text)))


def _texts(message: Message) -> Iterable[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
