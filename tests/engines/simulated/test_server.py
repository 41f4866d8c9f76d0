"""The scheduler model: many steps at once are the same as one by one, and every token is accounted for."""

from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.engines.simulated import Answers, Lengths, ServerSpec, Speed
from draftmill.engines.simulated.admission import RATIO
from draftmill.engines.simulated.passes import NANO
from draftmill.engines.simulated.sequence import Outcome, Sequence
from draftmill.engines.simulated.server import QueueFull, Server

SMALL = ServerSpec(kv_tokens=600, speed=Speed(0.01, 0.001), prefill_rate=2000.0, chunk=100, max_running=8)
END = 10**6 * NANO

Events = list[tuple[str, Outcome | None, int | None, int, list[int]]]


class Watched(Server):
    """A server that keeps who left it, and whose pool is looked at in every pass."""

    def __init__(self, spec: ServerSpec, lengths: Lengths, jump: int = 1 << 60) -> None:
        self.left: list[Sequence] = []
        super().__init__(spec, Answers(lengths), self.left.append, jump)

    def _plan(self, now: int) -> None:
        super()._plan(now)
        under_way = sum(take.tokens for take in self._pass.takes) if self._pass else 0
        present = [*self.running, *self.queue, *(take.sequence for take in (self._pass.takes if self._pass else []))]
        assert self.pool.held == sum(s.held for s in present) + under_way <= self.spec.kv_tokens
        assert len(self.running) <= self.spec.max_running
        under_way = sum(s.generated for s in present)
        assert self.counters.generated == self.counters.delivered + self.counters.dropped + under_way

    def story(self) -> Events:
        return [(s.tag, s.outcome, s.ended, s.retractions, s.ids()) for s in self.left]


def prompt(number: int, length: int) -> list[int]:
    return [20 + number, *[30] * (length - 1)]


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 3 * NANO),  # arrival
        st.integers(1, 250),  # prompt
        st.integers(1, 300),  # limit
        st.one_of(st.none(), st.integers(0, 4 * NANO)),  # abort
    ),
    min_size=1,
    max_size=14,
)


def played(requests: list[tuple[int, int, int, int | None]], spec: ServerSpec, mean: float, jump: int) -> Watched:
    server = Watched(spec, Lengths(mean), jump)
    moments: list[tuple[int, int, str]] = []
    for number, (arrival, _, _, abort) in enumerate(requests):
        moments.append((arrival, number, "submit"))
        if abort is not None:
            moments.append((max(arrival, abort), number, "withdraw"))
    sequences: dict[int, Sequence] = {}
    for at, number, what in sorted(moments, key=lambda m: (m[0], m[2], m[1])):
        _, length, limit, _ = requests[number]
        if what == "submit":
            sequences[number] = server.submit(str(number), prompt(number, length), limit, at)
        else:
            server.abort(sequences[number], at)
    server.advance(END)
    return server


@settings(max_examples=150, deadline=None)
@given(REQUESTS, st.sampled_from([20.0, 120.0]), st.booleans())
def test_many_steps_at_once_are_the_same_as_one_by_one(
    requests: list[tuple[int, int, int, int | None]], mean: float, cached: bool
) -> None:
    spec = ServerSpec(600, SMALL.speed, 2000.0, 100, max_running=8, prefix_cache=cached)
    jumping, stepping = (played(requests, spec, mean, jump) for jump in (1 << 60, 1))
    assert jumping.story() == stepping.story()
    for server in (jumping, stepping):
        server.counters.passes = 0
        assert (len(server.left), server.pool.held, server.running, list(server.queue)) == (len(requests), 0, [], [])
    assert jumping.counters == stepping.counters
    for sequence in jumping.left:
        if sequence.outcome in (Outcome.STOP, Outcome.LENGTH):
            assert sequence.generated == sequence.total
        assert jumping.answers.check(sequence.prompt_ids, sequence.ids() or [2]) is None


def test_the_time_of_one_answer() -> None:
    server = Watched(SMALL, Lengths(50, 0))
    server.submit("a", prompt(1, 40), 100, 0)
    server.advance(END)
    (only,) = server.left
    assert only.first_token == 40 * NANO // 2000  # the prefill gives the first id
    assert only.ended == only.first_token + 49 * 11_000_000
    assert (only.outcome, only.generated) == (Outcome.STOP, 50)


def test_a_long_prompt_is_prefilled_in_chunks_before_anybody_decodes() -> None:
    server = Watched(SMALL, Lengths(5, 0))
    server.submit("a", prompt(1, 250), 100, 0)
    server.submit("b", prompt(2, 10), 100, 0)
    server.advance(NANO * 100 // 2000)
    assert (server.load(0).running, server.load(0).queued, server.pool.held) == (1, 1, 200)  # nobody decodes
    server.advance(END)
    assert [s.first_token for s in server.left] == [NANO * 260 // 2000] * 2  # the last chunk has room for the other


def test_an_arrival_joins_at_the_next_step() -> None:
    server = Watched(SMALL, Lengths(200, 0))
    server.submit("a", prompt(1, 20), 300, 0)
    start = NANO * 20 // 2000
    server.submit("b", prompt(2, 20), 5, start + 15_000_000)  # in the second step of 11 ms
    server.advance(END)
    assert server.left[0].first_token == start + 22_000_000 + NANO * 20 // 2000


def crowded() -> Watched:
    """Six answers of 250 tokens in a pool of 600, let in one after another by a ratio that is too low."""
    server = Watched(SMALL, Lengths(250, 0))
    for number in range(6):
        server.submit(str(number), prompt(number, 20 + number), 280, number * NANO // 10)
        server._ratio = (0.098, server.counters.steps)
    return server


def test_a_full_pool_retracts_who_lost_least_and_computes_it_again() -> None:
    server = crowded()
    server.advance(END)
    counters = server.counters
    assert counters.retractions > 0
    assert counters.recomputed > 0
    assert counters.prefilled == counters.prompt_tokens + counters.recomputed
    assert counters.most_held <= SMALL.kv_tokens
    assert {len(s.ids()) for s in server.left} == {250}
    assert sum(s.retractions for s in server.left) == counters.retractions
    assert server.ratio == RATIO  # idle again


def test_a_retraction_raises_the_ratio() -> None:
    server = crowded()
    while not server.counters.retractions:
        server.advance(server.due() or END)
    assert server.ratio > 0.2


def test_kv_bound_plateau() -> None:
    """Answers of 4,000 tokens on average in 159,277 tokens: the reference run saw about 680 tokens a second."""
    server = Watched(ServerSpec(), Lengths(4000, 0.9))
    count, running = 0, []
    while count < 900:
        due = server.due() or 0
        server.advance(due)
        while server.load(due).running + len(server.queue) < 150:
            server.submit(str(count), [100, *(20 + int(d) for d in str(count)), *[30] * 395], 10_240, due)
            count += 1
        if count > 300:
            running.append(server.load(due).running)
    rate = server.counters.generated * NANO / due
    assert 620 < rate < 740
    assert 34 <= fmean(running) <= 72  # as many as were seen running
    assert server.counters.most_held > 0.99 * server.spec.kv_tokens


@pytest.mark.parametrize(
    ("limit", "dies"), [({"most_prefills": 3}, True), ({"most_prefill_tokens": 79}, True), ({}, False)]
)
def test_a_prefill_peak_kills(limit: dict[str, int], dies: bool) -> None:
    spec = ServerSpec(600, SMALL.speed, 2000.0, 100, max_running=8, **limit)
    server = Watched(spec, Lengths(10, 0))
    server.submit("first", prompt(0, 20), 50, 0)
    for number in range(4):
        server.submit(str(number), prompt(number, 20), 50, 1)
    server.advance(END)
    assert server.alive is not dies
    assert [s.outcome for s in server.left] == [Outcome.LOST if dies else Outcome.STOP] * 5
    assert server.counters.deaths == dies
    if dies:
        assert (server.pool.held, server.due(), server.counters.dropped) == (0, None, 1)
        server.revive(END)
        server.submit("again", prompt(0, 20), 50, END)
        server.advance(2 * END)
        assert server.left[-1].outcome is Outcome.STOP


def test_a_queue_that_is_full() -> None:
    spec = ServerSpec(600, SMALL.speed, 2000.0, 100, max_running=1, max_queued=2)
    server = Watched(spec, Lengths(10, 0))
    for number in range(3):
        server.submit(str(number), prompt(number, 20), 50, 0)
    with pytest.raises(QueueFull):
        server.submit("3", prompt(3, 20), 50, 0)
    assert (server.load(0).running, server.load(0).queued, server.counters.refused) == (1, 2, 1)


def test_a_limit_beyond_the_pool_is_lowered_without_a_word() -> None:
    server = Watched(SMALL, Lengths(5000, 0))
    server.submit("a", prompt(1, 100), 5000, 0)
    server.advance(END)
    assert (server.left[0].outcome, server.left[0].generated) == (Outcome.LENGTH, 600 - 2 - 100)


def test_the_cache_saves_the_prefill_of_a_continuation() -> None:
    spec = ServerSpec(4000, SMALL.speed, 2000.0, 100, prefix_cache=True)
    server = Watched(spec, Lengths(400, 0))
    asked = prompt(1, 100)
    server.submit("a", asked, 300, 0)
    server.advance(END)
    first = server.left[0].ids()
    server.submit("b", asked + first, 300, END)
    server.advance(2 * END)
    assert server.left[1].cached == 384  # six blocks of 64 of the 399 that were held
    assert first + server.left[1].ids() == server.answers.of(asked).ids(0, 400)


def test_load_inside_a_pass() -> None:
    server = Watched(SMALL, Lengths(150, 0))
    sequence = server.submit("a", prompt(1, 20), 300, 0)
    start = NANO * 20 // 2000
    for steps in (0, 1, 70):
        now = start + steps * 11_000_000 + 5
        server.advance(now)
        load = server.load(now)
        assert (load.running, load.kv_used, server.generated(sequence, now)) == (1, 20 + steps, 1 + steps)
    server.advance(END)
    assert server.load(END).generation_rate == 0.0
