from hypothesis import given
from hypothesis import strategies as st

from draftmill.ledger.order import canonical, conversation_id, rank
from draftmill.records import Conversation


def test_an_id_depends_on_content_dataset_and_occurrence_alone() -> None:
    one = canonical(Conversation([{"role": "user", "content": "a"}], [{"type": "function", "function": {"name": "f"}}]))
    same = canonical(
        Conversation([{"content": "a", "role": "user"}], [{"function": {"name": "f"}, "type": "function"}])
    )
    assert conversation_id("b1", one, 0) == conversation_id("b1", same, 0)
    others = {conversation_id("b1", one, 1), conversation_id("b2", one, 0), conversation_id("b1", one + b" ", 0)}
    assert len(others | {conversation_id("b1", one, 0)}) == 4


@given(st.sets(st.integers(), min_size=1), st.integers(), st.integers(0, 50))
def test_the_first_n_do_not_depend_on_n_or_on_the_order_of_the_file(items: set[int], seed: int, n: int) -> None:
    ids = [conversation_id("b", b"%d" % i, 0) for i in items]
    order = sorted(ids, key=lambda i: rank(seed, i))
    ids.reverse()
    assert sorted(ids, key=lambda i: rank(seed, i))[:n] == order[:n]


def test_another_seed_gives_another_order() -> None:
    ids = [conversation_id("b", b"%d" % i, 0) for i in range(50)]
    assert sorted(ids, key=lambda i: rank(0, i)) != sorted(ids, key=lambda i: rank(1, i))
