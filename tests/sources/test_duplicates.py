"""Copies are found, and what only looks like one is not; the bars are measured on `copies`."""

import io
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.errors import StorageError
from draftmill.records import Conversation, Turn
from draftmill.sources.duplicates import Kind, Seen, Signature, Signer
from tests.sources.copies import SYSTEM, TOOLS, copies

LONG = (
    "Write a function that reads a list of orders from a file, groups them by the name of the customer, adds up what "
    "each of them has spent in the last year, and prints the names with the largest sums first, one on each line."
)


def asked(text: str, system: str = "", tools: object = None) -> Conversation:
    head = [{"role": "system", "content": system}] if system else []
    return Conversation([*head, {"role": "user", "content": text}], tools)  # type: ignore[arg-type]


def kinds(*rows: Conversation, near: bool = True) -> list[Kind | None]:
    found = Seen(near).first(Signer(near).sign(rows), range(len(rows)))
    return [each and each[0] for each in found]


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("What is the capital of France?", "what is the capital of france"),
        ("What is the capital of France?", "Hello! What is the capital of FRANCE? Thank you so much."),
        ("What is 17 * 23?", "Hi, can you please help me with this? what is 17*23"),
        (LONG, LONG.upper()),
        (LONG, f"Good morning! {LONG} Thanks in advance!"),
        (LONG, LONG.replace("Write", "Please write").replace("largest", "biggest")),
        (LONG, LONG.replace("function", "fucntion").replace(" of the customer", "")),
        ("请写一首关于秋天的诗,不超过一百字。", "你好!请写一首关于秋天的诗,不超过一百字"),
        ("Explain:\n```python\nprint(f(3))\n```", "hey, explain\n```\nprint(f(3))\n```"),
    ],
)
def test_the_same_request_in_other_clothes(text: str, copy: str) -> None:
    assert kinds(asked(text), asked(copy)) == [None, "near"]
    assert kinds(asked(copy), asked(text)) == [None, "near"]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("What is 17 * 23?", "What is 18 * 23?"),
        ("What is 17 * 23?", "What is 17 + 23?"),
        ("What is 17 - 4?", "What is 4 - 17?"),
        ("What is the capital of France?", "What is the capital of Peru?"),
        ("Write a poem about a cat.", "Write a poem about a dog."),
        (f"{LONG} Print 10 of them.", f"{LONG} Print 20 of them."),
        ("Translate this from English to French, please.", "Translate this from French to English, please."),
        ("Explain:\n```python\nprint(f(x))\n```", "Explain:\n```python\nprint(g(x))\n```"),
        ("Explain recursion.", "Explain recursion in Python with an example and compare it to a loop."),
        ("hi", "hello"),
        ("?", "!"),
        ("请写一首关于秋天的诗", "请写一首关于大海的歌"),
    ],
)
def test_another_request_in_the_same_clothes(text: str, other: str) -> None:
    assert kinds(asked(text), asked(other)) == [None, None]


def test_what_rows_share_says_nothing_and_what_they_differ_in_all() -> None:
    template = (
        "You are given a review of a restaurant. Is its author happy with it? Answer yes or no. Review: the {} was {}."
    )
    dishes = [f"{a}{b}" for a in "bcdfgklmnp" for b in ("ean", "ake", "oup", "ish")]
    rows = [asked(template.format(dish, "great" if n % 2 else "awful")) for n, dish in enumerate(dishes)]
    rows.append(asked(f"Hey, {template.format('bean', 'awful')} Thanks!"))
    assert kinds(*rows) == [None] * len(dishes) + ["near"]


def test_tools_and_system_prompts_are_compared_apart() -> None:
    one, other = asked(LONG, SYSTEM), asked(LONG, "You are a pirate.")
    assert kinds(one, other) == [None, None]
    assert kinds(one, asked(LONG)) == [None, "near"]
    assert kinds(asked(LONG, tools=TOOLS), asked(LONG, tools=TOOLS[:2])) == [None, None]
    assert kinds(asked(LONG, tools=TOOLS), asked(LONG.lower(), tools=TOOLS[::-1])) == [None, "near"]


def test_answers_are_not_compared_and_later_turns_are() -> None:
    def talk(answer: str, then: str) -> Conversation:
        messages = [{"role": "user", "content": LONG}, {"role": "assistant", "content": answer}]
        return Conversation(
            [*messages, {"role": "user", "content": "And in Rust?"}], later=[Turn([{"role": "user", "content": then}])]
        )

    first = talk(
        "Here it is.",
        "Add tests for every function of it, benchmark both versions, and publish the results with a changelog.",
    )
    assert kinds(
        first,
        talk(
            "Sure!",
            "add tests for every function of it, benchmark both versions and publish the results with a changelog",
        ),
    ) == [None, "near"]
    assert kinds(
        first, talk("Here it is.", "Now explain garbage collection to a gardener of seventy who never saw any computer")
    ) == [None, None]


def test_without_near_only_equal_conversations_are_copies() -> None:
    assert kinds(asked(LONG), asked(LONG.lower()), asked(LONG), near=False) == [None, None, "exact"]


def test_a_copy_names_the_place_of_the_earlier_row() -> None:
    signer, seen = Signer(near=True), Seen(near=True)
    first, near = signer.sign([asked(LONG), asked(LONG.lower())])
    assert seen.first([first], [1 << 40]) == [None]
    assert seen.first([near, near, first], [5, 6, 7]) == [("near", 1 << 40), ("exact", 5), ("exact", 1 << 40)]


def test_rows_that_are_tokenized_are_copies_when_ids_and_mask_are_equal() -> None:
    rows = [([1, 2, 3], [0, 1, 1]), ([1, 2, 3], [0, 0, 1]), ([1, 2, 3], [0, 1, 1])]
    found = Seen(near=True).first(Signer(near=True).sign_tokenized(rows), range(3))
    assert found == [None, None, ("exact", 0)]  # without a wording there is nothing near


def measured(rows: int, near: int, exact: int, seed: int = 0) -> tuple[float, float, list[Kind | None]]:
    """(recall, precision) of near copies, and what the exact ones were found as."""
    made = copies(rows, near, exact, seed)
    signer, seen = Signer(near=True), Seen(near=True)
    signatures = [each for at in range(0, rows, 256) for each in signer.sign(made.rows[at : at + 256])]
    found = seen.first(signatures, range(rows))
    as_near = {n for n, each in enumerate(found) if each and each[0] == "near"}
    wrong = as_near - made.near.keys() - made.exact.keys()
    hits = sum(found[n] is not None for n in made.near)
    return hits / near, 1 - len(wrong) / len(as_near), [(found[n] or (None,))[0] for n in made.exact]


def test_the_bar_at_a_fifth_of_its_size() -> None:
    """20,000 rows with 2,000 near copies: `benchmarks/bench_duplicates.py`."""
    recall, precision, exact = measured(4000, 400, 200)
    assert recall >= 0.95
    assert precision >= 0.98  # a single wrong one in 400 is a quarter per cent
    assert set(exact) == {"exact"}


@pytest.mark.parametrize("near", [True, False])
def test_what_was_saved_goes_on_as_if_it_never_was(near: bool, tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = copies(600, 60, 60)
    signatures = Signer(near).sign(made.rows)
    whole, half = Seen(near), Seen(near)
    assert whole.first(signatures[:300], range(300)) == half.first(signatures[:300], range(300))
    with (tmp_path / "seen").open("wb") as file:
        half.save(file)
    with (tmp_path / "seen").open("rb") as file:
        again = Seen.load(file)
    assert (len(again), again.near) == (len(half), near)
    assert again.first(signatures[300:], range(300, 600)) == whole.first(signatures[300:], range(300, 600))


@pytest.mark.parametrize("cut", [0, 10, 1000, -10])
def test_a_damaged_file_says_so(cut: int) -> None:
    seen = Seen(near=True)
    seen.first(Signer(near=True).sign([asked(LONG)]), [0])
    file = io.BytesIO()
    seen.save(file)
    with pytest.raises(StorageError, match="cannot be read"):
        Seen.load(io.BytesIO(file.getvalue()[:cut]))


def test_signers_and_signatures_go_to_other_processes() -> None:
    signer = pickle.loads(pickle.dumps(Signer(near=True)))
    assert pickle.loads(pickle.dumps(signer.sign([asked(LONG)]))) == Signer(near=True).sign([asked(LONG)])


texts = st.text(max_size=60) | st.lists(
    st.sampled_from(["a", "cat", "7", "+", "猫", "\n", "```", "Hi"]), max_size=20
).map(" ".join)


@settings(deadline=None)
@given(st.lists(texts, max_size=12))
def test_any_text_is_signed_and_its_copy_found(asks: list[str]) -> None:
    rows = [asked(text) for text in asks]
    found = Seen(near=True).first(Signer(near=True).sign([*rows, *rows]), range(2 * len(rows)))
    assert all(each and each[0] == "exact" for each in found[len(rows) :])
    assert all(each is None or each[1] < n for n, each in enumerate(found))


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=12))
def test_a_batch_is_signed_as_its_rows_alone(asks: list[str]) -> None:
    rows = [asked(text) for text in asks]
    alone: list[Signature] = [Signer(near=True).sign([row])[0] for row in rows]
    assert Signer(near=True).sign(rows) == alone
