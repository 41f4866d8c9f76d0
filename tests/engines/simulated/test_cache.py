"""The prefix cache of the simulated server."""

from draftmill.engines.simulated.cache import BLOCK, PrefixCache

IDS = list(range(20, 20 + 4 * BLOCK + 7))


def test_whole_blocks_of_a_shared_prefix() -> None:
    cache = PrefixCache()
    assert cache.hit(IDS) == 0
    cache.keep(IDS)
    assert cache.tokens == 4 * BLOCK
    assert cache.hit([*IDS, 1, 2]) == 4 * BLOCK
    assert cache.hit([*IDS[: 2 * BLOCK + 5], 1, 2]) == 2 * BLOCK
    assert cache.hit([1, *IDS]) == 0
    assert cache.hit(IDS[: 2 * BLOCK]) == 2 * BLOCK - 1  # the last id is always computed


def test_the_least_recently_used_goes_first_and_of_a_sequence_its_end() -> None:
    cache = PrefixCache()
    other = [7] * (2 * BLOCK)
    cache.keep(IDS)
    cache.keep(other)
    cache.shrink(4 * BLOCK + 5)
    assert (cache.tokens, cache.hit([*IDS, 1]), cache.hit([*other, 1])) == (4 * BLOCK, 2 * BLOCK, 2 * BLOCK)
    cache.shrink(0)
    assert (cache.tokens, cache.hit(other)) == (0, 0)
