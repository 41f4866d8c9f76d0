"""All that is known of how one model writes and reads: its markers, the form that its template wants, what was found.

The one thing that a run needs of ``markers``, ``form``, ``probe``, ``parse`` and ``answer``::

    dialect = Dialect(tokenizer, template, arguments)
    prompt = dialect.text(Conversation(messages, tools))
    parts = dialect.parts(output_ids, prompt_ids, tools)
    messages.append(dialect.answer(parts, messages).message)
"""

from collections.abc import Sequence
from typing import Any

from draftmill.errors import RenderError
from draftmill.records import Conversation, Message, Tool
from draftmill.render import answer, markers, parse, probe
from draftmill.render.answer import Answer
from draftmill.render.findings import Code, Finding
from draftmill.render.markers import Custom
from draftmill.render.parts import Parts
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer


class Dialect:
    """A model's dialect under one set of template arguments; ``findings`` is what a person should hear before a run."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        arguments: dict[str, Any],
        custom: Custom | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._arguments = arguments
        self.markers, of_markers = markers.find(tokenizer, template, custom)
        self.form, of_template = probe.probe(tokenizer, template, self.markers, arguments)
        self.findings: tuple[Finding, ...] = (*of_markers, *of_template)

    @property
    def lacks_native_tools(self) -> str:
        """Why the model has no form of its own for tools; "" where it has one.

        It has one where the template shows them to it, and calls can be told from content.
        """
        for finding in self.findings:
            if finding.code in (Code.TOOLS_IGNORED, Code.TOOLS_REFUSED):
                return finding.message
        return "" if self.markers.calls else "no markers of tool calls are known of it"

    @property
    def end(self) -> tuple[int, ...]:
        """The id that the template itself puts behind an answer, where it does."""
        return self._template.turn_ends

    def text(self, conversation: Conversation) -> str:
        """The prompt of a canonical conversation, earlier answers in the template's form. Raises RenderError."""
        return self._template.text(self._fitted(conversation), self._arguments)

    def texts(self, conversations: Sequence[Conversation]) -> list[str | RenderError]:
        """``text`` of each, or why there is none."""
        return self._template.texts([self._fitted(each) for each in conversations], self._arguments)

    def finished(self, conversation: Conversation) -> str:
        """The text of a canonical conversation that ends with an answer. Raises RenderError."""
        return self._template.finished(self._fitted(conversation), self._arguments)

    def parts(self, ids: Sequence[int], prompt_ids: list[int], tools: Sequence[Tool] | None = None) -> Parts:
        """The parts of the answer to a prompt. Never raises."""
        opened = self.markers.opened(prompt_ids)
        return parse.parse(ids, self.markers, opened=opened, decode=self._tokenizer.decode, tools=tools)

    def answer(self, parts: Parts, history: list[Message]) -> Answer:
        """The canonical message of an answer that follows on ``history``."""
        return answer.message(parts, self.markers, self.form, history)

    def _fitted(self, conversation: Conversation) -> Conversation:
        return Conversation(self.form.fitted(conversation.messages), conversation.tools)
