"""The live view of a run in a terminal: figures that renew themselves, and keys that steer the run."""

import threading
from collections.abc import Callable
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Label, OptionList, Static, TabbedContent, TabPane
from textual.widgets.option_list import Option

from draftmill.errors import DraftmillError, RecipeError
from draftmill.ledger.control import as_number, steer
from draftmill.recipe import Wish
from draftmill.watch import overview
from draftmill.watch.completions import Completions, Decoded
from draftmill.watch.diagnosis import diagnose
from draftmill.watch.figures import Recent, RunFigures
from draftmill.watch.stats import RunWatch
from draftmill.watch.words import count

_TABS = ("overview", "engines", "errors", "answers")
_ERRORS, _EVENTS = 20, 30  # lines that are shown
_PROMPT_SHOWN = 4000  # characters of a prompt, its end
_COLOURS = {
    "reasoning": "magenta",
    "content": "green",
    "call": "yellow",
    "frame": "bold yellow",
    "end": "bold cyan",
    "after": "red",
}


class Ask(ModalScreen[str | None]):
    """One line of input; escape takes it back."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]
    CSS = """
    Ask { align: center middle; }
    Ask > Vertical { width: 70; max-width: 95%; height: auto; padding: 1 2; border: round $primary; }
    """

    def __init__(self, question: str, example: str) -> None:
        super().__init__()
        self._question = question
        self._example = example

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(self._question)
            yield Input(placeholder=self._example)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class Monitor(App[None]):
    """``every``: seconds between two looks at the run's files."""

    TITLE = "draftmill"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    TabbedContent { height: 1fr; }
    TabPane { padding: 0 1; height: 1fr; }
    #answers-list { height: 10; border: none; }
    #answer { padding: 1 0; }
    #told { height: auto; color: $warning; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "pause/resume"),
        Binding("c", "cap", "cap"),
        Binding("b", "budget", "budget"),
        Binding("tab", "next_tab", "next", priority=True),
        *(Binding(str(n), f"show('{name}')", name, show=False) for n, name in enumerate(_TABS, start=1)),
        Binding("r", "look", "renew", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, watch: RunWatch, every: float = 1.0) -> None:
        super().__init__()
        self._watch = watch
        self._every = every
        self._looking = threading.Lock()
        self._completions = Completions(watch.folder)
        self._recent: list[Recent] = []
        self.figures: RunFigures | None = None

    def compose(self) -> ComposeResult:
        with TabbedContent(initial=_TABS[0]):
            for name in _TABS[:3]:
                with TabPane(name, id=name), VerticalScroll():
                    yield Static(id=f"{name}-text")
            with TabPane("answers", id="answers"):
                yield OptionList(id="answers-list")
                with VerticalScroll():
                    yield Static("choose an answer to see it decoded", id="answer")
        yield Static(id="told")
        yield Footer()

    def on_mount(self) -> None:
        self.action_look()
        self.set_interval(self._every, self.action_look)

    def on_resize(self) -> None:
        self._draw()

    # looking

    def action_look(self) -> None:
        """Read what is new, in a thread: the first look at a large run takes seconds."""
        self._look()

    @work(thread=True, group="look")
    def _look(self) -> None:
        if not self._looking.acquire(blocking=False):
            return  # the look before takes longer than the time between two
        try:
            figures = self._watch.refresh()
        except DraftmillError as error:
            self.call_from_thread(self._tell, error.message)
        else:
            self.call_from_thread(self._show, figures)
        finally:
            self._looking.release()

    def _show(self, figures: RunFigures) -> None:
        self.figures = figures
        self._draw()
        if figures.recent != self._recent:
            self._recent = figures.recent
            self._list_answers()

    def _draw(self) -> None:
        run = self.figures
        if run is None:
            self.query_one("#overview-text", Static).update("reading the run's files …")
            return
        width = max(40, self.size.width - 4)
        for name, made in (("overview", _overview), ("engines", _engines), ("errors", _errors)):
            self.query_one(f"#{name}-text", Static).update(made(run, width))

    def _list_answers(self) -> None:
        options = self.query_one("#answers-list", OptionList)
        chosen = options.highlighted
        options.clear_options()
        options.add_options([Option(_answer_line(recent)) for recent in self._recent])
        if self._recent:
            options.highlighted = min(chosen or 0, len(self._recent) - 1)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.query_one("#answer", Static).update("decoding …")
        self._decode(self._recent[event.option_index])

    @work(thread=True, exclusive=True, group="decode")
    def _decode(self, recent: Recent) -> None:
        try:
            shown: RenderableType = answer_text(self._completions.decode(recent))
        except DraftmillError as error:
            shown = Text(error.message, style="yellow")
        except (OSError, ValueError) as error:  # a file that is gone or damaged meanwhile
            shown = Text(f"cannot be read: {error}", style="yellow")
        self.call_from_thread(self.query_one("#answer", Static).update, shown)

    # steering

    def action_show(self, name: str) -> None:
        """Go to a tab."""
        self.query_one(TabbedContent).active = name
        if name == "answers":
            self.query_one("#answers-list").focus()

    def action_next_tab(self) -> None:
        if isinstance(self.screen, Ask):
            return
        self.action_show(_TABS[(_TABS.index(self.query_one(TabbedContent).active) + 1) % len(_TABS)])

    def action_pause(self) -> None:
        """Pause the run, or let it go on."""
        pause = not (self.figures and self.figures.pause)
        self._steer(lambda: steer(self._watch.folder, pause=pause), "pause" if pause else "resume")

    def action_cap(self) -> None:
        """Ask for another cap, of a lane or of an engine."""
        self.push_screen(
            Ask("How many at once? By lane or by engine:", "short=64, or http://10.0.0.1:30000=auto"), self._cap
        )

    def action_budget(self) -> None:
        """Ask for another budget."""
        self.push_screen(Ask("Which token budget? By dataset, or one for all:", "chat=12M"), self._budget)

    def _cap(self, text: str | None) -> None:
        if text is None:
            return
        name, _, value = text.rpartition("=")
        if "://" in name or name == "embedded":
            engines: dict[str, Wish] = {name: as_number(value)}
            self._steer(lambda: steer(self._watch.folder, engines=engines), text)
        else:
            self._steer(lambda: steer(self._watch.folder, concurrency=text), text)

    def _budget(self, text: str | None) -> None:
        if text is not None:
            self._steer(lambda: steer(self._watch.folder, budget=text), text)

    def _steer(self, act: Callable[[], object], what: str) -> None:
        try:
            act()
        except RecipeError as error:
            self._tell("; ".join([error.message, *error.faults]))
        except DraftmillError as error:
            self._tell(error.message)
        else:
            self._tell(f"{what}: written; a run that is on follows within a second or two")
        self.action_look()

    def _tell(self, text: str) -> None:
        self.query_one("#told", Static).update(text)


def answer_text(decoded: Decoded) -> RenderableType:
    """An answer with its parts in colours, behind the end of its prompt; what is learnt stands between the marks."""
    prompt = decoded.prompt
    cut = "… " if len(prompt) > _PROMPT_SHOWN else ""
    line = Text.assemble((cut + prompt[-_PROMPT_SHOWN:], "dim"), ("⟦", "bold green"))
    for span in decoded.answer:
        line.append(span.text, style=_COLOURS.get(span.kind, ""))
    line.append("⟧", style="bold green")
    legend = Text.assemble(*((f"{name}  ", style) for name, style in _COLOURS.items()))
    return Group(legend, Text(), line)


def _overview(run: RunFigures, width: int) -> RenderableType:
    return overview.overview(run, diagnose(run), width)


def _engines(run: RunFigures, width: int) -> RenderableType:
    parts: list[RenderableType] = [overview.engines(run.engines, width)]
    for e in run.engines:
        history = list(e.history)
        rows = (
            ("tok/s", [rate for *_, rate in history], e.rate),
            ("running", [float(n) for _, n, *_ in history], e.running),
            ("queued", [float(n) for _, _, n, *_ in history], e.queued),
            ("KV %", [_percent(use) for *_, use, _ in history], _percent(e.kv_use)),
        )
        parts += [Text(), Text(e.name, style="bold")]
        parts += [Text(f"  cap      {e.cap_why}", style="dim")] if e.cap_why else []
        parts += [Text(f"  {e.state}: {e.why}", style="red")] if e.why else []
        parts += [
            Text.assemble((f"  {name:<8} ", "dim"), (overview.sparkline(values), "cyan"), f" {count(last)}")
            for name, values, last in rows
            if last is not None
        ]
    return Group(*parts, Text(), Text("what happened", style="bold"), overview.events(run, _EVENTS))


def _errors(run: RunFigures, width: int) -> RenderableType:
    if not run.total.errors:
        return Text("no prompt has failed")
    parts: list[RenderableType] = []
    for d in run.datasets:
        if d.error_reasons:
            parts += [Text(d.name, style="bold"), overview.errors(d, _ERRORS), Text()]
    return Group(*parts)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _answer_line(recent: Recent) -> str:
    turn = f" turn {recent.turn}" if recent.turn else ""
    place = f"#{recent.position}{turn}" if recent.position >= 0 else "older shape"
    return f"{recent.dataset}  {place}  {count(recent.tokens)} tokens  {recent.finish}"
