"""Faults as they happen in the field, made in a copy of a run: by what a pipeline does wrong, not by what a check sees.

Each is done to chosen rows. ``rows`` is what lies in tokenized_data.jsonl; a fault in generation stands in the journal
as well. ``fires`` are the checks that must find it in a run, ``bare`` those that must in a file of ids and masks alone
(none: nothing there shows it), ``also`` what it may make true beside that: shorter answers, say, and more rows count.
"""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Fast
from tokenizers import decoders, models, pre_tokenizers, trainers

from draftmill.journal.folder import RunFolder
from draftmill.ledger.rows import refresh_rows
from draftmill.ledger.settings import read_settings, write_settings
from draftmill.ledger.standing import load_standing
from draftmill.render.tokenizer import Tokenizer
from draftmill.verify.verification import Verification

Line = dict[str, Any]

OTHER_TEMPLATE = "### Instruction:\n{}\n\n### Response:\n"


def load(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def save(path: Path, lines: list[Line]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


class Copy:
    """One dataset of a copied run."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, rng: random.Random) -> None:
        self.folder, self.tokenizer, self.rng = folder, tokenizer, rng
        self.rows = load(folder / "tokenized_data.jsonl")
        self.journal = load(folder / "raw_responses.jsonl")
        self.prompts = load(folder / "prompts.jsonl")
        self.generated = False
        self.stop = tokenizer.special["<|im_end|>"]

    def save(self) -> None:
        """Write what changed; rows are built of a changed journal as a run does, unless the journal alone was hit."""
        for name, lines in (("tokenized_data", self.rows), ("raw_responses", self.journal), ("prompts", self.prompts)):
            path = self.folder / f"{name}.jsonl"
            if load(path) != lines:
                save(path, lines)
        if self.generated:
            settings = read_settings(RunFolder(self.folder.parent))
            assert settings
            (self.folder / "rows.json").unlink(missing_ok=True)
            files = RunFolder(self.folder.parent).dataset(self.folder.name)
            budget = next(d["budget"] for d in settings.recipe["datasets"] if d["name"] == self.folder.name)
            refresh_rows(files, load_standing(files, budget=budget))

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode([text])[0]

    def prompt(self, row: Line) -> list[int]:
        return list(row["input_ids"][: row["prompt_tokens"]])

    def answer(self, row: Line) -> list[int]:
        return list(row["input_ids"][row["prompt_tokens"] :])

    def rebuild(self, row: Line, prompt: list[int], answer: list[int], finish: str | None = None) -> None:
        """A row whose counts and mask fit its parts."""
        row["input_ids"] = prompt + answer
        row["loss_mask"] = [0] * len(prompt) + [1] * len(answer)
        row["prompt_tokens"], row["completion_tokens"] = len(prompt), len(answer)
        row["finish_reason"] = finish or row["finish_reason"]

    def regenerate(self, row: Line, answer: list[int], finish: str | None = None) -> None:
        """Another answer, as if the server had given it."""
        self.generated = True
        self.rebuild(row, self.prompt(row), answer, finish)
        for line in self.journal:
            if (line["id"], line["turn"]) == (row["id"], row["turn"]) and not line.get("partial"):
                line["output_ids"], line["completion_tokens"] = answer, len(answer)
                line["finish_reason"] = row["finish_reason"]
                line["matched_stop"] = answer[-1] if row["finish_reason"] == "stop" and answer else None
                if row["finish_reason"] == "length":
                    line["limit"] = len(answer)

    def pieces(self, text: str) -> list[int]:
        """A special token as ordinary text."""
        return self.encode(text[0])[:1] + self.encode(text[1:])


Apply = Callable[[Copy, list[Line]], None]


@dataclass(frozen=True)
class Corruption:
    """A fault: ``among`` says which rows it can happen to."""

    name: str
    apply: Apply
    fires: set[str]
    bare: set[str] = field(default_factory=set)
    among: str = "any"
    also: frozenset[str] = frozenset()


def each(change: Callable[[Copy, Line], None]) -> Apply:
    def apply(copy: Copy, rows: list[Line]) -> None:
        for row in rows:
            change(copy, row)

    return apply


def shifted(by: int) -> Apply:
    def change(copy: Copy, row: Line) -> None:
        mask = row["loss_mask"]
        row["loss_mask"] = mask[-by:] + [1] * -by if by < 0 else [0] * by + mask[:-by]

    return each(change)


def hole(copy: Copy, row: Line) -> None:
    at = copy.rng.randrange(row["prompt_tokens"] + 1, len(row["loss_mask"]) - 2)
    row["loss_mask"][at] = 0


def retokenised(copy: Copy, rows: list[Line]) -> None:
    """Where text and back again gives other ids: of these, as many as asked."""
    left = len(rows)
    for row in copy.rows:
        answer = copy.answer(row)
        end = answer[-1:] if answer[-1] == copy.stop else []
        again = copy.encode(copy.tokenizer.decode(answer[: len(answer) - len(end)])) + end
        if again != answer and "\ufffd" not in copy.tokenizer.decode(answer) and left:
            copy.rebuild(row, copy.prompt(row), again)
            left -= 1


def swapped(copy: Copy, rows: list[Line]) -> None:
    for one, other in zip(rows[::2], rows[1::2], strict=False):
        (a, how), (b, why) = (copy.answer(one), one["finish_reason"]), (copy.answer(other), other["finish_reason"])
        copy.rebuild(one, copy.prompt(one), b, why)
        copy.rebuild(other, copy.prompt(other), a, how)


def said(copy: Copy, row: Line) -> str:
    return next(str(p["messages"][-1]["content"]) for p in copy.prompts if p["id"] == row["id"])


def other_template(copy: Copy, row: Line) -> None:
    copy.rebuild(row, copy.encode(OTHER_TEMPLATE.format(said(copy, row))), copy.answer(row))


def prepared_otherwise(copy: Copy, row: Line) -> None:
    other_template(copy, row)
    for line in copy.prompts:
        if line["id"] == row["id"]:
            line["prompt_ids"] = copy.prompt(row)
    for line in copy.journal:
        if line["id"] == row["id"]:
            line["prompt_tokens"] = row["prompt_tokens"]


def without_first_message(copy: Copy, row: Line) -> None:
    prompt = copy.prompt(row)
    cut = prompt.index(copy.stop) + 2  # a line end stands behind it
    copy.rebuild(row, prompt[cut:], copy.answer(row))


def trained(texts: list[str]) -> Fast:
    """A tokenizer of 2,000 pieces."""
    fast = Fast(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    fast.train_from_iterator(texts, trainer)
    return fast


def other_tokenizer(copy: Copy, rows: list[Line]) -> None:
    """One trained on what the rows say: its ids lie in the vocabulary, and mean other pieces."""
    fast = trained([copy.tokenizer.decode(row["input_ids"]) for row in copy.rows])
    for row in rows:
        answer = copy.answer(row)
        end = answer[-1:] if answer[-1] == copy.stop else []
        ids = fast.encode(copy.tokenizer.decode(answer[: len(answer) - len(end)])).ids
        copy.regenerate(row, [id for id in ids if id != copy.stop] + end)


def beyond_vocabulary(copy: Copy, row: Line) -> None:
    row["input_ids"][-2] = copy.tokenizer.size + copy.rng.randrange(1000)


def marker_in_pieces(copy: Copy, row: Line) -> None:
    prompt = copy.prompt(row)
    at = len(prompt) - 1 - prompt[::-1].index(copy.stop)
    copy.rebuild(row, prompt[:at] + copy.pieces("<|im_end|>") + prompt[at + 1 :], copy.answer(row))


def end_in_pieces(copy: Copy, row: Line) -> None:
    copy.rebuild(row, copy.prompt(row), copy.answer(row)[:-1] + copy.pieces("<|im_end|>"))


def tail_cut(copy: Copy, row: Line) -> None:
    answer = copy.answer(row)
    copy.rebuild(row, copy.prompt(row), answer[: max(1, len(answer) * 7 // 10)])


def stop_dropped(copy: Copy, row: Line) -> None:
    copy.regenerate(row, copy.answer(row)[:-1])


def called_cut(copy: Copy, row: Line) -> None:
    row["finish_reason"] = "length"
    for line in copy.journal:
        if line["id"] == row["id"]:
            line["finish_reason"] = "length"


def twice(copy: Copy, rows: list[Line]) -> None:
    for row in rows:
        copy.rows.insert(copy.rows.index(row), dict(row))


def reordered(copy: Copy, rows: list[Line]) -> None:
    places = [copy.rows.index(row) for row in rows]
    for place, row in zip(places, [*rows[1:], rows[0]], strict=True):
        copy.rows[place] = row


def behind_the_cut(copy: Copy) -> list[Line]:
    """Rows of answers that do not count."""
    last = max(row["position"] for row in copy.rows)
    found = []
    for line in copy.journal:
        if line["position"] > last and not line.get("partial"):
            row = dict(copy.rows[0], id=line["id"], position=line["position"])
            prompt = next(p["prompt_ids"] for p in copy.prompts if p["id"] == line["id"])
            copy.rebuild(row, prompt, line["output_ids"], line["finish_reason"])
            found.append(row)
    return sorted(found, key=lambda row: int(row["position"]))


def other_order(copy: Copy, rows: list[Line]) -> None:
    """The prompts were put in another order before they were sent."""
    moved = {row["id"]: to["position"] for row, to in zip(rows, [*rows[1:], rows[0]], strict=True)}
    for lines in (copy.prompts, copy.journal, copy.rows):
        for line in lines:
            line["position"] = moved.get(line["id"], line["position"])
    copy.prompts.sort(key=lambda line: int(line["position"]))
    copy.rows.sort(key=lambda line: int(line["position"]))


def beyond_the_cut(copy: Copy, rows: list[Line]) -> None:
    copy.rows += behind_the_cut(copy)[: len(rows)]


def short_preferred(copy: Copy, rows: list[Line]) -> None:
    """The longest answers give way to shorter ones from behind the cut."""
    spare = sorted(behind_the_cut(copy), key=lambda row: int(row["completion_tokens"]))[: len(rows)]
    longest = sorted(copy.rows, key=lambda row: -int(row["completion_tokens"]))[: len(spare)]
    copy.rows = sorted([r for r in copy.rows if r not in longest] + spare, key=lambda row: int(row["position"]))


def lost(copy: Copy, rows: list[Line]) -> None:
    copy.rows = [row for row in copy.rows if row not in rows]


def looping(copy: Copy, row: Line) -> None:
    """The beginning of the answer goes on into a phrase that is said over and over."""
    answer = copy.answer(row)
    phrase = answer[5 : 5 + copy.rng.randrange(2, 6)]
    end = answer[-1:] if answer[-1] == copy.stop else []
    copy.regenerate(row, (answer[:8] + phrase * len(answer))[: len(answer) - len(end)] + end)


def end_inside(copy: Copy, row: Line) -> None:
    answer = copy.answer(row)
    at = copy.rng.randrange(2, len(answer) - 1)
    copy.regenerate(row, [*answer[:at], copy.stop, *answer[at:]])


def nothing_said(copy: Copy, row: Line) -> None:
    copy.regenerate(row, [copy.stop], "stop")


def one_for_all(copy: Copy, rows: list[Line]) -> None:
    text = "I'm sorry, but I can't help with that request. Is there anything else that you would like to talk about?"
    for row in rows:
        copy.regenerate(row, [*copy.encode(text), copy.stop], "stop")


def broken_bytes(copy: Copy, row: Line) -> None:
    answer = copy.answer(row)
    half = copy.encode("😀")[:1]  # the beginning of a character of several pieces
    copy.regenerate(row, answer[:4] + half + answer[4:])


def other_prompt(copy: Copy, rows: list[Line]) -> None:
    prompts = [copy.prompt(row) for row in rows]
    for row, prompt in zip(rows, [*prompts[1:], prompts[0]], strict=True):
        copy.rebuild(row, prompt, copy.answer(row))


def damaged(copy: Copy, rows: list[Line]) -> None:
    for row in rows:
        for line in copy.journal:
            if line["id"] == row["id"]:
                line["output_ids"] = line["output_ids"][1:]  # not as many as it says


def text_only(copy: Copy, rows: list[Line]) -> None:
    for row in rows:
        answer = "<think>I should be brief.</think>" + copy.tokenizer.decode(copy.answer(row)[:-1])
        messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}]
        copy.rows[copy.rows.index(row)] = {"messages": messages}


def miscounted(copy: Copy, row: Line) -> None:
    row["prompt_tokens"] += 1


def all_supervised(copy: Copy, row: Line) -> None:
    row["loss_mask"] = [1] * len(row["loss_mask"])


def none_supervised(copy: Copy, row: Line) -> None:
    row["loss_mask"] = [0] * len(row["loss_mask"])


def mask_short(copy: Copy, row: Line) -> None:
    row["loss_mask"].pop()


def stop_unsupervised(copy: Copy, row: Line) -> None:
    row["loss_mask"][-1] = 0


def also(*names: str) -> frozenset[str]:
    return frozenset(names)


CORRUPTIONS = [
    Corruption("mask one early", shifted(-1), {"mask-early"}, {"mask-early"}),
    Corruption("mask one late", shifted(1), {"mask-late"}, {"mask-late"}),
    Corruption("mask too short", each(mask_short), {"mask-shape"}, {"mask-shape"}),
    Corruption("nothing supervised", each(none_supervised), {"unsupervised"}, {"unsupervised"}),
    Corruption("all supervised", each(all_supervised), {"mask-early"}, {"mask-early"}),
    Corruption("hole in the mask", each(hole), {"mask-gap"}, {"mask-gap"}, "long"),
    Corruption("stop not supervised", each(stop_unsupervised), {"stop-masked"}, {"stop-masked"}, "stopped"),
    Corruption("re-tokenised", retokenised, {"re-tokenised"}, also=also("unfinished")),
    Corruption("swapped completions", swapped, {"swapped-answer"}),
    Corruption("another template", each(other_template), {"row-prompt"}, {"no-boundary"}),
    Corruption(
        "prepared with another template",
        each(prepared_otherwise),
        {"prompt-rendered", "prompts-changed"},
        {"no-boundary"},
    ),
    Corruption("system prompt dropped", each(without_first_message), {"row-prompt"}),
    Corruption(
        "another tokenizer", other_tokenizer, {"foreign-ids"}, {"foreign-ids"}, "long", also("utf8", "unfinished")
    ),
    Corruption("id out of range", each(beyond_vocabulary), {"vocabulary", "row-answer"}, {"vocabulary"}, "long"),
    Corruption("marker in pieces", each(marker_in_pieces), {"marker-split", "row-prompt"}, {"marker-split"}),
    Corruption(
        "end of turn in pieces",
        each(end_in_pieces),
        {"marker-split", "re-tokenised", "finish-reason"},
        {"marker-split", "unfinished"},
        "stopped",
        also("foreign-ids", "truncated"),
    ),
    Corruption("tail cut off", each(tail_cut), {"row-answer", "finish-reason"}, {"unfinished"}, "stopped"),
    Corruption("stop token dropped", each(stop_dropped), {"finish-reason"}, {"unfinished"}, "stopped"),
    Corruption("wrong finish reason", each(called_cut), {"finish-reason"}, set(), "stopped", also("truncated")),
    Corruption("rows twice", twice, {"row-twice", "duplicate"}, {"duplicate"}, also=also("truncated")),
    Corruption("positions reordered", reordered, {"row-order"}),
    Corruption("prompts in another order", other_order, {"position-order", "prompts-changed"}),
    Corruption("rows beyond the cut", beyond_the_cut, {"beyond-cut"}, also=also("truncated")),
    Corruption("short answers preferred", short_preferred, {"beyond-cut", "row-missing"}),
    Corruption("rows lost", lost, {"row-missing"}),
    Corruption("loop injected", each(looping), {"loop"}, {"loop"}, "long"),
    Corruption("end of turn inside", each(end_inside), {"inner-end"}, {"inner-end"}, "long"),
    Corruption("empty answers", each(nothing_said), {"empty"}, {"empty"}, also=also("duplicate", "truncated")),
    Corruption("one answer for all", one_for_all, {"answer-repeated"}, {"answer-repeated"}, also=also("duplicate")),
    Corruption("broken bytes", each(broken_bytes), {"utf8"}, {"utf8"}, "long"),
    Corruption("prompts mixed up", other_prompt, {"row-prompt"}),
    Corruption("journal damaged", damaged, {"journal-line", "beyond-cut"}, also=also("row-missing")),
    Corruption("text only", text_only, {"thinking-in-content", "row-missing", "beyond-cut"}, {"thinking-in-content"}),
    Corruption("miscounted", each(miscounted), {"row-counts"}),
]


def choose(copy: Copy, among: str, share: float) -> list[Line]:
    """At least two rows of a dataset, of those that a fault can happen to."""
    kinds: dict[str, Callable[[Line], bool]] = {
        "any": lambda row: True,
        "long": lambda row: row["completion_tokens"] >= 32,
        "stopped": lambda row: row["finish_reason"] == "stop" and row["completion_tokens"] > 2,
    }
    fit = [row for row in copy.rows if kinds[among](row)]
    number = min(len(fit), max(2, round(share * len(copy.rows))))
    return sorted(copy.rng.sample(fit, number), key=lambda row: int(row["position"]))


def corrupted(run: Path, target: Path, corruption: Corruption, tokenizer: Tokenizer, share: float = 0.05) -> Path:
    """A copy of a run with a fault in ``share`` of the rows of each dataset."""
    shutil.copytree(run, target, ignore=shutil.ignore_patterns("tokenizer"))
    (target / "tokenizer").symlink_to((run / "tokenizer").resolve())
    for file in sorted(target.glob("*/tokenized_data.jsonl")):
        copy = Copy(file.parent, tokenizer, random.Random(corruption.name))
        if rows := choose(copy, corruption.among, share):
            corruption.apply(copy, rows)
            copy.save()
    return target


def bare(run: Path, target: Path) -> Path:
    """The rows of a run as other tools write theirs: ids and masks alone."""
    rows = [row for file in sorted(run.glob("*/tokenized_data.jsonl")) for row in load(file)]
    keep = ("input_ids", "loss_mask", "messages")
    save(target, [{key: row[key] for key in keep if key in row} for row in rows])
    return target


def cut_to(run: Path, share: float) -> None:
    """Lower the budget of each dataset, so that the last answers do not count, and build the rows anew."""
    folder = RunFolder(run)
    settings = read_settings(folder)
    assert settings
    for dataset in settings.recipe["datasets"]:
        files = folder.dataset(dataset["name"])
        dataset["budget"] = int(share * load_standing(files).tally().counting_tokens)
        refresh_rows(files, load_standing(files, budget=dataset["budget"]))
    write_settings(folder, settings)


def fired(done: Verification, clean: Verification, rows: int) -> set[str]:
    """Which checks say that something is wrong, and of about so many ``rows`` more than of the clean one."""
    before = {result.name: result.count for result in clean.checks}
    return {r.name for r in done.checks if r.above and r.count > before.get(r.name, 0) + rows // 3}
