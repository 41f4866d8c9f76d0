"""The registry of checks: what each is called, how grave it is, what it needs, what it means and what to do about it.

How much of each may pass stands in ``recipe.THRESHOLDS`` under the same names.
"""

from enum import StrEnum

import msgspec

from draftmill.recipe import THRESHOLDS


class Severity(StrEnum):
    """``error``: the pipeline did it, and the data is wrong. ``warning``: the model did it, or may have; a drafter
    learns it all the same. ``note``: to be known; it fails nothing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Needs(StrEnum):
    """What a check is made of: the ids and masks of rows, the model's tokenizer beside them, how each answer ended, the
    whole run, or an engine that scores rows."""

    IDS = "ids and masks"
    MODEL = "the model's tokenizer"
    FINISH = "how each answer ended (`finish_reason`)"
    RUN = "the run"
    ENGINE = "an engine (`--replay`)"


class Check(msgspec.Struct, frozen=True):
    """One named check."""

    name: str
    severity: Severity
    needs: Needs
    means: str
    do: str

    @property
    def threshold(self) -> float:
        """How much passes unless somebody says otherwise: a share below 1, else a number."""
        return THRESHOLDS[self.name]


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_IDS, _MODEL, _FINISH, _RUN, _ENGINE = Needs.IDS, Needs.MODEL, Needs.FINISH, Needs.RUN, Needs.ENGINE
_OTHER = "find out what was served, with which template and sampling, and generate the rows again"
REBUILD = "delete tokenized_data.jsonl and rows.json, and start the run again: rows are built anew from the journal"
_RESTORE = f"restore the journal where its line was changed; where the row was, {REBUILD}"
_MASK = "mend what wrote the mask; it begins with the first generated id"

CHECKS = {
    check.name: check
    for check in (
        Check("unreadable", _E, _IDS, "the line is no row of ids and mask", "mend or drop the line"),
        Check("legacy-text", _E, _IDS, "text without ids: a trainer tokenizes it again", "generate it again as ids"),
        Check(
            "thinking-in-content",
            _E,
            _IDS,
            "text whose thinking was merged into the content",
            "generate it again as ids: templates render such an answer otherwise than it was generated",
        ),
        Check("vocabulary", _E, _IDS, "an id that the model does not have", "drop the rows; find out what wrote them"),
        Check("mask-shape", _E, _IDS, "the mask is not as long as the ids, or not 0 and 1", _MASK),
        Check("unsupervised", _E, _IDS, "not one token is learnt", "drop the rows"),
        Check("mask-early", _E, _IDS, "ids of the prompt are learnt as if generated", _MASK),
        Check("mask-late", _E, _IDS, "the first generated ids are not learnt", _MASK),
        Check("mask-gap", _E, _IDS, "ids inside the answer are not learnt", _MASK),
        Check("stop-masked", _E, _IDS, "the end of the turn is not learnt: a drafter never ends", _MASK),
        Check(
            "no-boundary",
            _E,
            _IDS,
            "what stands before the answer is not how the template asks for one",
            "render the prompts with the template that is served",
        ),
        Check(
            "inner-end", _E, _IDS, "an end of turn inside an answer", "cut the rows there, or find out why it went on"
        ),
        Check(
            "finish-reason",
            _E,
            _FINISH,
            "how the answer ended does not fit its last id",
            "the stop token was dropped, or the answer cut: generate them again",
        ),
        Check(
            "unfinished",
            _E,
            _IDS,
            "neither an end of turn nor a limit that other answers end at",
            "the stop token was dropped, or the answer cut: generate them again",
        ),
        Check(
            "marker-split",
            _E,
            _MODEL,
            "a special token stands as several ordinary tokens",
            "tokenize with special tokens recognised; such a row teaches another sequence than is served",
        ),
        Check(
            "foreign-ids",
            _E,
            _MODEL,
            "the ids are hardly ever how this tokenizer cuts their text",
            "the ids are of another tokenizer: generate them again",
        ),
        Check("row-counts", _E, _FINISH, "the row's own counts are not those of its mask", REBUILD),
        Check("row-prompt", _E, _RUN, "the row's prompt is not the one that was sent", REBUILD),
        Check("row-answer", _E, _RUN, "the row's answer is not the one in the journal", _RESTORE),
        Check("re-tokenised", _E, _RUN, "the answer has the journal's text and other ids", _RESTORE),
        Check("swapped-answer", _E, _RUN, "the answer is that of another prompt", _RESTORE),
        Check("row-twice", _E, _RUN, "an answer stands in several rows", REBUILD),
        Check("row-missing", _E, _RUN, "an answer that counts has no row", REBUILD),
        Check("beyond-cut", _E, _RUN, "a row that does not count: behind the cut, or unknown", REBUILD),
        Check("row-order", _E, _RUN, "rows do not stand in the order of positions", REBUILD),
        Check(
            "position-order",
            _E,
            _RUN,
            "positions do not follow the hash of seed and id",
            "the prompts were put in another order, or the seed was changed: the rows that count are no fair sample",
        ),
        Check(
            "prompt-rendered",
            _E,
            _RUN,
            "the template renders the conversation otherwise today",
            "restore prompts.jsonl and tokenizer/, or start a new run",
        ),
        Check("prompts-changed", _E, _RUN, "prompts.jsonl is not what was sent", "restore it, or start a new run"),
        Check(
            "tokenizer-changed", _E, _RUN, "tokenizer or template are not the run's", "restore it, or start a new run"
        ),
        Check("journal-line", _E, _RUN, "a line of the journal is no answer", "start the run again: it is owed"),
        Check(
            "thinking-unclosed", _W, _MODEL, "a finished answer whose thinking never ends", "look at some; drop them"
        ),
        Check(
            "thinking-missing",
            _W,
            _MODEL,
            "no thinking, where most answers think",
            "was it stripped, or was thinking off for some prompts?",
        ),
        Check(
            "marker-order", _W, _MODEL, "markers unbalanced, or where they mean nothing", "look at some; few are usual"
        ),
        Check("tool-call", _W, _MODEL, "a finished tool call that cannot be read", "look at some; drop them"),
        Check("unknown-tool", _W, _RUN, "a call of a tool that was not offered", "look at some; drop them"),
        Check("empty", _W, _IDS, "an answer of nothing, or of white space", "look at some; drop them"),
        Check("duplicate", _W, _IDS, "the very same row as an earlier one", "drop them"),
        Check(
            "answer-repeated",
            _W,
            _IDS,
            "a long answer that stands behind another prompt too",
            "look at some: refusals are usual; else drop them",
        ),
        Check("loop", _W, _IDS, "the answer ends in a repetition", "usual of small models; else drop them"),
        Check(
            "truncated",
            _W,
            _IDS,
            "a limit cut the answer",
            "another run with a higher limit has longer ones; `export --drop truncated` leaves these out",
        ),
        Check("utf8", _W, _MODEL, "bytes that are no text", "look at some; drop them"),
        Check(
            "special-text",
            _W,
            _RUN,
            "a user, tool or system message holds a special token as text",
            "servers read it as the token: look whether it was meant",
        ),
        Check(
            "length-by-position",
            _W,
            _RUN,
            "lengths change along the order, which is a hash",
            "answers were chosen by their length, or the engine changed on the way",
        ),
        Check("length-drift", _N, _IDS, "datasets with much shorter or longer answers than the rest", "expected?"),
        Check("language-drift", _N, _MODEL, "datasets in another script than the rest", "expected?"),
        Check(
            "journal-settled",
            _N,
            _RUN,
            "a line of the journal is no answer, and nothing is owed for it",
            "its prompt was answered again, or does not count; was the disk in order?",
        ),
        Check("owed", _N, _RUN, "answers that are still owed", "start the run again"),
        Check(
            "marker-coverage",
            _N,
            _MODEL,
            "markers that a draft vocabulary of 32k by frequency would leave out",
            "force them into the draft vocabulary",
        ),
        Check(
            "replay-likelihood",
            _E,
            _ENGINE,
            "answers are likelier, or less likely, than this engine's would be",
            _OTHER,
        ),
        Check(
            "replay-unlisted", _E, _ENGINE, "ids that are none of the engine's likeliest, too many or too few", _OTHER
        ),
        Check("replay-start", _E, _ENGINE, "answers do not begin as this engine's would behind these prompts", _OTHER),
        Check("replay-cut", _E, _ENGINE, "ids that top-k, top-p or min-p would not have let through", _OTHER),
        Check("replay-row", _E, _ENGINE, "a row that by itself is none of this engine's", _OTHER),
        Check(
            "replay-re-tokenised",
            _E,
            _ENGINE,
            "words are cut as the tokenizer cuts them where the model would have cut some otherwise",
            "the answers went through text: generate them again as ids",
        ),
        Check("replay-greedy", _E, _ENGINE, "greedy ids that are far from this engine's likeliest", _OTHER),
        Check(
            "replay-precision",
            _W,
            _ENGINE,
            "what lower precision makes of the same model, and chance does not",
            "was another quantisation or KV cache type served? `draftmill compare` measures what it does",
        ),
        Check(
            "replay-divergence",
            _N,
            _ENGINE,
            "a greedy answer that comes out otherwise when generated again",
            "near-ties are usual",
        ),
    )
}


def passes(found: int, looked: int, threshold: float) -> bool:
    """Whether so much of a fault passes: a threshold below 1 is a share of what was looked at."""
    return found <= (threshold * looked if threshold < 1 else threshold)
