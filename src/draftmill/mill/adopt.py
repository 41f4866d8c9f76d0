"""Take over answers of an older run, whoever made it: each goes to the position that has the very same prompt.

The older folder is only read. An answer is matched by content (the ids of its prompt, or its conversation), never by a
line's number or a folder's name, goes through the checks of a live reply, and becomes a line of the journal that says
where it comes from. Doing it again adds nothing; a kill in between loses nothing.
"""

from collections import Counter, defaultdict
from pathlib import Path

import msgspec

from draftmill.engines.check import check_reply
from draftmill.engines.protocol import Reply, Request
from draftmill.errors import RunError, UsageFault
from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder, RunFolder
from draftmill.journal.legacy import Answer, Shape, Why, read_response, read_tokenized
from draftmill.journal.lock import locked
from draftmill.journal.writer import Appender
from draftmill.ledger.settings import Settings, read_settings
from draftmill.ledger.standing import Standing, load_standing
from draftmill.mill.older import digest_of, files_of, lines_of, prompt_of, prompts_by_answer, prompts_by_id, talk_of
from draftmill.mill.stream import penalised
from draftmill.recipe import Recipe
from draftmill.records import Completion, Conversation, Finish, Prompt

RESPONSES, TOKENIZED = "raw_responses.jsonl", "tokenized_data.jsonl"
OTHER_PROMPT = "its prompt is none of this run"
SETTLED = "this run has an answer to its prompt already"
UNVOUCHED = "tokenized, and nothing says that its ids were generated"
SAME = "tokenized, of an answer that stands in the raw responses too"
PENALTIES = "cut at a lower limit, and penalties let no answer be continued"
_FROM = "adopted from "  # before the place of an answer, where the journal names its engine
_TELLING = 64  # first ids of an answer by which it is known again
_GROUP = 256  # lines that share one sync
_FEW = 50  # answers below which nothing is said of how they ended


class Left(msgspec.Struct):
    """Lines that were left out for one reason: how many, and the first of them."""

    count: int = 0
    first: str = ""


class Adopted(msgspec.Struct):
    """What became of every line of an older run: ``lines`` = ``whole`` + ``begun`` + all that were ``left``.

    ``whole`` answers stand in the journal now; those ``begun`` had been cut at a lower limit and will be continued.
    ``datasets`` counts both by dataset. ``answers`` have ids, ``cut`` of them ended at a limit; ``refused`` is how many
    error rows the older run has.
    """

    lines: int = 0
    shapes: dict[str, int] = {}
    whole: int = 0
    begun: int = 0
    datasets: dict[str, int] = {}
    left: dict[str, Left] = {}
    answers: int = 0
    cut: int = 0
    longest: int = 0
    refused: int = 0

    def adds_up(self) -> bool:
        return self.lines == self.whole + self.begun + sum(each.count for each in self.left.values())

    def cautions(self) -> list[str]:
        """What the older run may have done to the lengths of its answers."""
        found = []
        if self.answers >= _FEW and not self.cut:
            found.append(
                f"not one of its {self.answers} answers was cut by a limit, the longest has {self.longest} tokens: if "
                "it threw such answers away, those that are left are the short ones, and so will your data be"
            )
        if self.refused:
            found.append(
                f"it gave up {self.refused} prompts: they are generated here; if they were given up for being slow or "
                "long, this draws long answers again, and makes the data shorter"
            )
        return found


class _Place(msgspec.Struct):
    """A position that one prompt of the run has."""

    dataset: str
    position: int
    id: str
    prompt_tokens: int
    limit: int
    prompt: bytes


def adopt(old: Path, path: Path, *, tokenized: bool = False) -> Adopted:
    """Take over what can be believed of the folder ``old`` into the prepared run at ``path``.

    ``tokenized``: rows of ``tokenized_data.jsonl`` too, whose ids somebody vouches for. Raises UsageFault where either
    folder is not what it should be, RunError for an older run of another model or sampling, StorageError.
    """
    folder = RunFolder(path)
    settings = read_settings(folder)
    if settings is None or not folder.datasets():
        raise UsageFault(f"{path}: holds no prepared run", "run `draftmill prepare RECIPE --out` for it first")
    here, there = path.resolve(), old.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise UsageFault(f"{old}: lies in the run that is to take it over", "give two folders beside each other")
    files = files_of(old)
    if not files:
        raise UsageFault(f"{old}: holds no {RESPONSES} and no {TOKENIZED}, nor does a folder in it")
    _refuse_other(read_settings(RunFolder(old)), settings, old)
    with locked(folder.lock):
        taker = _Taker(folder, settings)
        try:
            for each in files:
                taker.take(each, tokenized=tokenized)
        finally:
            taker.close()
    return taker.report


def _refuse_other(old: Settings | None, new: Settings, path: Path) -> None:
    """An older run that says what it was made with must have been made with the same."""
    if old is None:
        return
    before, now = Recipe.model_validate(old.recipe), Recipe.model_validate(new.recipe)
    known = {dataset.name: dataset for dataset in now.datasets}
    other = [k for k in ("tokenizer_sha256", "template_sha256", "stop_ids") if getattr(old, k) != getattr(new, k)]
    other += [name for name in sorted(old.files.keys() & new.files.keys()) if old.files[name] != new.files[name]]
    other += ["sampling"] * (before.sampling != now.sampling)
    for dataset in before.datasets:
        if dataset.name in known and before.sampling_of(dataset) != now.sampling_of(known[dataset.name]):
            other.append(f"{dataset.name}.sampling")
    if other:
        raise RunError(
            f"{path}: was made with other settings: {', '.join(other)}",
            "answers of two models or samplings are not mixed in one run",
        )


class _Taker:
    """Holds the run's prompts by content while older answers are shown to it."""

    def __init__(self, folder: RunFolder, settings: Settings) -> None:
        self.report = Adopted()
        self._settings = settings
        self._recipe = Recipe.model_validate(settings.recipe)
        self._folders = {each.name: each for each in folder.datasets()}
        self._journals: dict[str, Appender] = {}
        self._waiting: dict[str, list[bytes]] = defaultdict(list)
        self._standings: dict[str, Standing] = {}
        self._taken: set[tuple[str, int]] = set()
        self._places: dict[bytes, list[_Place]] = defaultdict(list)
        self._before: Counter[bytes] = Counter()  # answers that an earlier adoption took over
        self._shapes: Counter[str] = Counter()
        self._datasets: Counter[str] = Counter()
        for name, each in self._folders.items():
            self._standings[name] = load_standing(each)
            self._journals[name] = Appender(each.journal)
            self._index(each)

    def take(self, old: DatasetFolder, *, tokenized: bool) -> None:
        """Look at every line of one older folder."""
        prompts, known = prompts_by_id(old.prompts), prompts_by_answer(old.rows)
        seen: set[bytes] = set()
        for where, read in lines_of(old.journal, read_response):
            answer = read.answer
            if isinstance(answer, Answer):
                seen.add(digest_of(answer.output_ids))
                self._count(answer)
            self._settle(where, read.shape, self._try(where, answer, old.name, prompts, known))
        for where, read in lines_of(old.rows, read_tokenized):
            answer = read.answer
            if isinstance(answer, Why):
                self._settle(where, read.shape, answer)
            elif digest_of(answer.output_ids) in seen:
                self._settle(where, read.shape, SAME)
            elif not tokenized:
                self._settle(where, read.shape, UNVOUCHED)
            else:
                ends = answer.output_ids[-1] in self._settings.stop_ids
                answer = msgspec.structs.replace(answer, finish=answer.finish or (Finish.STOP if ends else None))
                self._count(answer)
                self._settle(where, read.shape, self._try(where, answer, old.name, {}, {}))
        if old.errors.is_file():
            with old.errors.open("rb") as file:
                self.report.refused += sum(1 for _ in file)

    def close(self) -> None:
        for name, journal in self._journals.items():
            self._flush(name)
            journal.close()
        self.report.shapes, self.report.datasets = dict(self._shapes), dict(self._datasets)

    def _index(self, folder: DatasetFolder) -> None:
        """Every prompt that one answer settles, by the digests of its ids and of its conversation."""
        dataset = self._recipe.dataset(folder.name)
        decoder = msgspec.json.Decoder(Prompt)
        own: dict[int, bytes] = {}
        with folder.prompts.open("rb") as file:
            for line in file:
                prompt = decoder.decode(line)
                if prompt.fault or prompt.later or prompt.loss_mask is not None:
                    continue
                lane = prompt.lane if prompt.lane in self._recipe.lanes else dataset.lane
                limit = self._recipe.lanes[lane].max_new_tokens
                key = digest_of(prompt.prompt_ids)
                place = _Place(folder.name, prompt.position, prompt.id, len(prompt.prompt_ids), limit, key)
                self._places[key].append(place)
                own[prompt.position] = key
                self._places[talk_of(Conversation(prompt.messages, prompt.tools))].append(place)

        for _, taken in lines_of(folder.journal, _adopted_before):
            if taken is not None and taken.position in own:
                self._before[_mark(own[taken.position], taken.output_ids)] += 1

    def _try(
        self, where: str, answer: Answer | Why, name: str, prompts: dict[str, bytes], known: dict[bytes, bytes | None]
    ) -> str | None:
        """Take an answer over, or say why not."""
        if isinstance(answer, Why):
            return answer
        if answer.finish is None:
            return Why.NO_END
        key = prompt_of(answer, prompts, known)
        if not isinstance(key, bytes):
            return key
        places = self._places.get(key)
        if not places:
            return OTHER_PROMPT
        if self._before[mark := _mark(places[0].prompt, answer.output_ids)]:
            self._before[mark] -= 1
            return SETTLED
        free = [place for place in places if self._is_free(place)]
        if not free:
            return SETTLED
        return self._check(where, answer, answer.finish, min(free, key=lambda p: (p.dataset != name, p.position)))

    def _is_free(self, place: _Place) -> bool:
        standing = self._standings[place.dataset]
        if (place.dataset, place.position) in self._taken or not standing.is_owed(place.position):
            return False
        return not standing.beginning(place.position)

    def _check(self, where: str, answer: Answer, finish: Finish, place: _Place) -> str | None:
        ids, limit = answer.output_ids, place.limit
        reply = Reply(
            ids,
            place.prompt_tokens if answer.prompt_tokens is None else answer.prompt_tokens,
            len(ids) if answer.completion_tokens is None else answer.completion_tokens,
            finish,
            answer.matched_stop,
        )
        sampling = self._recipe.sampling_of(self._recipe.dataset(place.dataset))
        own = len(ids) if finish is Finish.LENGTH else max(limit, len(ids))
        request = Request([0] * place.prompt_tokens, own, sampling, tuple(self._settings.stop_ids), "")
        if reason := check_reply(request, reply, self._settings.vocab_size):
            return f"contradicts itself: {_general(reason)}"
        if len(ids) > limit:
            ids, finish = ids[:limit], Finish.LENGTH  # what this run's limit would have left of it
        partial = finish is Finish.LENGTH and len(ids) < limit
        if partial and penalised(sampling):
            return PENALTIES
        self._write(
            Completion(
                id=place.id,
                position=place.position,
                turn=0,
                output_ids=ids,
                prompt_tokens=place.prompt_tokens,
                completion_tokens=len(ids),
                finish_reason=Finish.ABORT if partial else finish,
                matched_stop=ids[-1] if finish is Finish.STOP else None,
                cached_tokens=None,
                seconds=0.0,
                engine=_FROM + where,
                limit=limit,
                partial=partial,
            ),
            place,
        )
        self.report.begun += partial
        self.report.whole += not partial
        return None

    def _write(self, completion: Completion, place: _Place) -> None:
        self._taken.add((place.dataset, place.position))
        self._datasets[place.dataset] += 1
        self._waiting[place.dataset].append(encode(completion))
        if len(self._waiting[place.dataset]) >= _GROUP:
            self._flush(place.dataset)

    def _flush(self, name: str) -> None:
        if lines := self._waiting.pop(name, []):
            self._journals[name].append(lines)

    def _count(self, answer: Answer) -> None:
        self.report.answers += 1
        self.report.cut += answer.finish is Finish.LENGTH
        self.report.longest = max(self.report.longest, len(answer.output_ids))

    def _settle(self, where: str, shape: Shape, left: str | None) -> None:
        self.report.lines += 1
        self._shapes[shape.value] += 1
        if left is not None:
            reason = self.report.left.setdefault(str(left), Left(0, where))
            reason.count += 1


def _adopted_before(line: bytes) -> Completion | None:
    """A journal line that an earlier adoption wrote."""
    if _FROM.encode() not in line:
        return None
    try:
        completion = msgspec.json.decode(line, type=Completion)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return completion if completion.engine.startswith(_FROM) else None


def _mark(prompt: bytes, ids: list[int]) -> bytes:
    """What an answer to a prompt is known again by: where several positions have one prompt, no place tells."""
    return prompt + digest_of(ids[:_TELLING])


def _general(reason: str) -> str:
    """A reason without its numbers, so that equal ones are counted together."""
    return " ".join("N" if word.strip("[],").isdigit() else word for word in reason.split())
