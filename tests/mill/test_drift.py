"""The drift of a run's answers and of recorded ones, counted."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.order import conversation_id
from draftmill.ledger.standing import Standing, load_standing
from draftmill.mill import drift as drifts
from draftmill.mill.dialogue import Dialogue
from draftmill.mill.drift import Example, Figure, of_recordings, of_run, sampled
from draftmill.mill.loop import Ending
from draftmill.records import Completion, Conversation, Finish, Message, Prompt
from draftmill.render.drift import Reason
from draftmill.sources.history import recorded
from tests.mill.test_dialogue import call, result, said, user
from tests.mill.test_turns import ANSWERS, RECORDING, Actor, Talks
from tests.render import families
from tests.render.families import FIXTURES, Model
from tests.render.test_drift import TRIMMING


class Answered:
    """A dataset with these answers, one a prompt, of a model."""

    def __init__(self, path: Path, model: Model, answers: list[list[int]]) -> None:
        self.folder = DatasetFolder(path / "a")
        self.folder.path.mkdir(parents=True)
        self.dialogue = Dialogue(model.dialect, model.tokenizer)
        self._prompt_ids = model.ids(model.dialect.text(Conversation([user("hi")])))
        prompts = [Prompt(self._id(n), n, "short", [user("hi")], self._prompt_ids) for n in range(99)]
        self.folder.prompts.write_bytes(b"".join(encode(prompt) + b"\n" for prompt in prompts))
        self.folder.journal.touch()
        for n, ids in enumerate(answers):
            self.add(n, ids)

    def add(self, position: int, ids: list[int]) -> None:
        size, finish = len(self._prompt_ids), Finish.STOP
        line = Completion(self._id(position), position, 0, ids, size, len(ids), finish, None, 0, 0.0, "e", 99)
        with self.folder.journal.open("ab") as file:
            file.write(encode(line) + b"\n")

    def standing(self, **options: Any) -> Standing:
        return load_standing(self.folder, **options)

    def figure(self, **limits: Any) -> Figure:
        return of_run(self.folder, self.standing(), self.dialogue, **limits)

    @staticmethod
    def _id(position: int) -> str:
        return conversation_id("a", b"%d" % position, 0)


def trimmed() -> Model:
    return families.made(FIXTURES["smollm2"]._replace(template=TRIMMING))


def test_reasons_places_and_examples(tmp_path: Path) -> None:
    model = trimmed()
    end = model.ids("<|im_end|>")
    letters = [id for letter in "the weather" for id in model.ids(letter)]
    padded = model.ids("Paris \n")
    answers = [letters + end, model.ids("Paris") + end, padded + end, padded, model.ids("  ") + padded + end]
    figure = Answered(tmp_path, model, answers).figure()
    assert (figure.answers, figure.drifted) == (5, 4) and figure.share == 0.8
    assert figure.reasons == {"white space": 3, "tokenisation": 1}
    assert figure.before == 0 and figure.median == 0
    shown = [(e.where, e.reason, e.at) for e in figure.examples]
    space = len(model.ids("Paris"))
    assert shown == [
        ("position 0", Reason.TOKENISATION, 0),
        ("position 2", Reason.WHITE_SPACE, space),
        ("position 3", Reason.WHITE_SPACE, space),
    ]
    assert figure.examples[1].generated == " \n<|im_end|>" and figure.examples[1].rendered == "<|im_end|>\n"


def test_a_tokenizer_whose_ids_do_not_survive(tmp_path: Path) -> None:
    """One that writes everything small, as some do before they look a text up."""
    from tokenizers.normalizers import Lowercase

    plain, small = families.plain_model("smollm2"), families.made(FIXTURES["smollm2"])
    small.tokenizer.inner.backend_tokenizer.normalizer = Lowercase()
    answers = [plain.ids("Paris<|im_end|>"), plain.ids("sea<|im_end|>")]
    assert Answered(tmp_path / "plain", plain, answers).figure().drifted == 0
    figure = Answered(tmp_path / "small", small, answers).figure()
    assert figure.reasons == {"tokenisation": 1}
    assert figure.examples[0].generated.startswith("Paris") and figure.examples[0].rendered.startswith("paris")


def test_only_answers_that_count_and_so_many_of_them(tmp_path: Path) -> None:
    model = trimmed()
    answer = model.ids("Paris ") + model.ids("<|im_end|>")
    run = Answered(tmp_path, model, [answer] * 9)
    assert run.figure().answers == 9
    assert run.figure(rows=4).answers == 4
    each = len(answer) + len(run._prompt_ids)
    assert run.figure(tokens=2 * each + 1).answers == 3  # as many as it takes to reach the tokens
    assert of_run(run.folder, run.standing(budget=2 * len(answer)), run.dialogue).answers == 2
    told: list[int] = []
    run.figure(tell=told.append)
    assert told == list(range(1, 10))


@pytest.mark.parametrize("family", ANSWERS)
def test_turns_are_looked_at_on_the_history_that_they_had(tmp_path: Path, family: str) -> None:
    run = Talks(tmp_path, family, [RECORDING])
    assert run.run(Actor(run, family, lambda _, turn: ANSWERS[family][turn])) is Ending.DONE
    figure = of_run(run.folder("a"), run.standing(), run.dialogue)
    finals = {"qwen3": [], "kimi": [2, 4]}[family]  # an answer that ends a tool loop finishes it: kimi drops reasoning
    assert figure.answers == 5 and figure.reasons == ({"reasoning dropped": 2} if finals else {})
    assert [e.where for e in figure.examples] == [f"position 0, turn {turn}" for turn in finals]
    assert figure.before == len(finals)  # the calls before them are written otherwise already


def test_a_recorded_history_is_the_one_that_an_answer_is_looked_at_on(tmp_path: Path) -> None:
    run = Talks(tmp_path, "qwen3", [RECORDING], history="recorded")
    run.run(Actor(run, "qwen3", lambda _, turn: f"<think>\n{turn}\n</think>\n\nNo.■"))
    figure = of_run(run.folder("a"), run.standing(), run.dialogue)
    assert (figure.answers, figure.drifted) == (5, 0)


# the sample of a run, kept in its folder


def once(run: Answered, **options: Any) -> Figure | None:
    options = {"renew": True} | options
    return sampled(run.folder, run.standing(), lambda: run.dialogue, **options)


def refused(*_: Any, **__: Any) -> Any:
    raise AssertionError("it was worked out again")


def test_a_sample_is_worked_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trimmed()
    run = Answered(tmp_path, model, [model.ids("Paris <|im_end|>"), model.ids("Paris<|im_end|>")])
    figure = once(run)
    assert figure is not None and (figure.answers, figure.drifted) == (2, 1)
    monkeypatch.setattr(drifts, "of_run", refused)
    assert once(run) == once(run, renew=False) == figure
    with run.folder.journal.open("ab") as file:
        file.write(b'{"torn')  # nothing of the sample
    assert once(run) == figure


@pytest.mark.parametrize("change", ["another answer", "another version", "a damaged file", "no file"])
def test_a_sample_is_worked_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    model = trimmed()
    run = Answered(tmp_path, model, [model.ids("Paris <|im_end|>")])
    assert once(run) is not None
    if change == "another answer":
        run.add(1, model.ids("Paris<|im_end|>"))
    elif change == "another version":
        monkeypatch.setattr(drifts, "__version__", "0.0.0")
    elif change == "a damaged file":
        run.folder.drift.write_text("{")
    else:
        run.folder.drift.unlink()
    assert once(run, renew=False) is None  # a start that was interrupted does not wait for it
    again = once(run)
    assert again is not None and again.answers == (2 if change == "another answer" else 1)
    assert json.loads(run.folder.drift.read_text())["figure"]["answers"] == again.answers


def test_what_comes_behind_the_sample_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drifts, "SAMPLE", 2)
    model = trimmed()
    run = Answered(tmp_path, model, [model.ids("Paris <|im_end|>")] * 2)
    figure = once(run)
    run.add(2, model.ids("a<|im_end|>"))
    monkeypatch.setattr(drifts, "of_run", refused)
    assert once(run) == figure and figure is not None and figure.answers == 2


def test_no_answer_no_sample(tmp_path: Path) -> None:
    run = Answered(tmp_path, trimmed(), [])
    assert once(run) is None and not run.folder.drift.exists()


# recorded answers


def counted(model: Model, *conversations: list[Message], tools: Any = None) -> Figure:
    def rows() -> Iterator[tuple[str, Any]]:
        for n, messages in enumerate(conversations, start=1):
            yield f"a.jsonl:{n}", recorded({}, messages, tools)

    return of_recordings(rows(), model.dialect, model.tokenizer)


TALK = [user("a"), said(" b"), user("c"), said("d\n")]


@pytest.mark.parametrize(
    ("model", "conversations", "answers", "reasons", "unjudged"),
    [
        (lambda: families.plain_model("smollm2"), [TALK, [user("a"), said("b")]], 3, {}, {}),
        (trimmed, [TALK, [user("a"), said("b")]], 3, {"white space": 2}, {}),
        (trimmed, [[user("a")], [user("a"), said("")]], 0, {}, {}),  # nothing was recorded
        (trimmed, [[said("b"), user("a")], [user("a"), said("b"), said("c")]], 1, {}, {"no question": 2}),
        (
            lambda: families.plain_model("hermes"),
            [[user("a"), said("", call("f")), result("r"), said("b")]],
            1,
            {},
            {"tool calls": 1},
        ),
        (lambda: families.plain_model("gemma"), [[user("a"), user("b"), said("c")]], 0, {}, {"prompt refused": 1}),
        (lambda: families.plain_model("gpt-oss"), [TALK], 0, {}, {"channels": 2}),
        (lambda: families.plain_model("kimi"), [TALK], 0, {}, {"thinking not recorded": 2}),
        (lambda: families.model("kimi", thinking=False), [TALK], 2, {}, {}),
        (lambda: families.plain_model("qwen3"), [[user("a"), said("b")]], 1, {"text": 1}, {}),  # an empty thinking
        (lambda: families.model("qwen3", enable_thinking=False), [[user("a"), said("b")]], 1, {}, {}),
        (
            lambda: families.plain_model("qwen3"),
            [[user("a"), said("b", reasoning_content="c")], [user("a"), said("b ", reasoning_content="c\n\n")]],
            2,
            {"white space": 1},
            {},
        ),
    ],
)
def test_recorded_answers(
    model: Callable[[], Model],
    conversations: list[list[Message]],
    answers: int,
    reasons: dict[str, int],
    unjudged: dict[str, int],
) -> None:
    figure = counted(model(), *conversations)
    assert (figure.answers, figure.reasons, figure.unjudged) == (answers, reasons, unjudged)
    assert figure.drifted == sum(reasons.values())


def test_a_recorded_answer_is_named_by_its_row_and_message() -> None:
    figure = counted(trimmed(), [user("a"), said("b")], TALK)
    assert figure.examples == [
        Example("a.jsonl:2, message 2", Reason.WHITE_SPACE, 0, " b<|im_end|>", "b<|im_end|>\n"),
        Example("a.jsonl:2, message 4", Reason.WHITE_SPACE, 1, "\n<|im_end|>", "<|im_end|>\n"),
    ]
