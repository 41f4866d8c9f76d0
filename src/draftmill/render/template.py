"""The chat template: conversations → the text that the serving stack would tokenize, and the ids that end a turn."""

import difflib
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from draftmill.errors import RenderError
from draftmill.records import Conversation
from draftmill.render.tokenizer import Tokenizer

_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_PROBE = "zqxprobe"  # an answer whose end is easy to find in a rendered conversation


class ChatTemplate:
    """A tokenizer's own chat template, rendered by transformers as SGLang and vLLM do.

    ``date`` (ISO) is what a template that inserts today's date gets, so that a run renders the same tomorrow.
    ``turn_ends`` is the id that the template itself puts behind an answer, if it does; ``stop_ids`` are the model's
    end-of-sequence ids and that one.
    """

    def __init__(self, tokenizer: Tokenizer, date: str) -> None:
        self._tokenizer = tokenizer
        if not tokenizer.inner.chat_template:
            raise RenderError(
                f"the tokenizer of {tokenizer.name!r} has no chat template",
                "use an instruction-tuned model, or put its chat_template.jinja beside the tokenizer",
            )
        self.date = date
        self._date = datetime.fromisoformat(date)
        try:
            self._variables()
        except Exception as error:  # Jinja's errors of every kind
            raise RenderError(f"the chat template of {tokenizer.name!r} is not valid: {error}") from error
        self.turn_ends = tuple(self._turn_end())
        self.stop_ids = tuple(dict.fromkeys([*tokenizer.stop_ids, *self.turn_ends]))
        if not self.stop_ids:
            raise RenderError(
                "neither the model's files nor its chat template name a token that ends an answer",
                "add eos_token_id to the model's generation_config.json",
            )

    def text(self, conversation: Conversation, arguments: dict[str, Any]) -> str:
        """The prompt's text, ending where the answer begins. Raises RenderError with the template's own words."""
        text: str = self._render(conversation.messages, conversation.tools, arguments, True)
        return text

    def texts(self, conversations: Sequence[Conversation], arguments: dict[str, Any]) -> list[str | RenderError]:
        """``text`` of each, or why there is none. Those without tools go through transformers together, which is half
        its time."""
        plain = [c.messages for c in conversations if c.tools is None]
        together: Iterator[str] = iter(())
        if len(plain) > 1 and not self._has_own_code():
            with suppress(RenderError):  # one of them is refused: each by itself tells which
                together = iter(self._render(plain, None, arguments, True))
        texts: list[str | RenderError] = []
        for conversation in conversations:
            text = next(together, None) if conversation.tools is None else None
            try:
                texts.append(self.text(conversation, arguments) if text is None else text)
            except RenderError as error:
                texts.append(error)
        return texts

    def finished(self, conversation: Conversation, arguments: dict[str, Any]) -> str:
        """The text of a conversation that asks for nothing more: its last message is an answer. Raises RenderError."""
        text: str = self._render(conversation.messages, conversation.tools, arguments, False)
        return text

    def mentions(self, text: str) -> bool:
        """Whether the template's source holds a text, in any of its variants."""
        return any(text in source for source in self._sources())

    def refuse_unknown(self, arguments: dict[str, Any]) -> None:
        """Raises RenderError for an argument that the template never reads: Jinja would ignore a misspelt one."""
        if self._has_own_code():
            return  # it may read more than its template
        known = self._variables()
        for name in arguments:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"it reads {', '.join(sorted(known)) or 'none'}"
                raise RenderError(f"template.{name}: the chat template reads no such variable; {hint}")

    def digest(self) -> str:
        """SHA-256 of the template's source (of all its variants, where it has several)."""
        return hashlib.sha256(repr(self._tokenizer.inner.chat_template).encode()).hexdigest()

    def _has_own_code(self) -> bool:
        """Whether the tokenizer renders by code of its own."""
        from transformers import PreTrainedTokenizerBase

        return type(self._tokenizer.inner).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template

    def _render(self, messages: Any, tools: Any, arguments: dict[str, Any], prompt: bool) -> Any:
        """The text; of a list of conversations the texts."""
        try:
            self._freeze()
            text = self._tokenizer.inner.apply_chat_template(
                messages, tools=tools, add_generation_prompt=prompt, tokenize=False, **arguments
            )
        except Exception as error:  # a template may raise anything, from its own raise_exception to a TypeError
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise RenderError(f"the chat template refuses this conversation: {first}") from error
        return text

    def _turn_end(self) -> list[int]:
        """The first special token behind an answer in a rendered conversation."""
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": _PROBE}]
        try:
            text: str = self._render(messages, None, {}, False)
        except RenderError:
            return []  # a template that cannot render a finished turn has no end of turn to tell
        _, probe, behind = text.rpartition(_PROBE)
        if not probe:
            return []  # it leaves the answer out, so nothing tells what would stand behind it
        (ids,) = self._tokenizer.encode([behind])
        special = set(self._tokenizer.special.values())
        return [i for i in ids if i in special][:1]

    def _sources(self) -> list[str]:
        source = self._tokenizer.inner.chat_template
        return list(source.values()) if isinstance(source, dict) else [source]

    def _variables(self) -> set[str]:
        """What the template reads and does not set itself, less what a rendering always gives it."""
        from jinja2.meta import find_undeclared_variables
        from transformers.utils import chat_template_utils

        found: set[str] = set()
        for template in self._sources():
            environment = chat_template_utils._compile_jinja_template(template).environment
            found |= find_undeclared_variables(environment.parse(template)) - environment.globals.keys()
        return found - {"messages", "tools", "documents", "add_generation_prompt", *_TOKENS}

    def _freeze(self) -> None:
        """Fix ``strftime_now``, the function with which templates ask for today.

        At every rendering, since transformers keeps one compiled template for all who have the same source.
        """
        for template in self._sources():
            if "strftime_now" in template:
                from transformers.utils import chat_template_utils

                compiled = chat_template_utils._compile_jinja_template(template)
                compiled.environment.globals["strftime_now"] = self._date.strftime
