from typing import Any

import pytest

from draftmill.sources import humaneval
from draftmill.sources.fault import RowFault
from tests.sources.talk import user


def row(prompt: Any, **more: Any) -> dict[str, Any]:
    shape = {
        "task_id": "HumanEval/0",
        "entry_point": "f",
        "canonical_solution": "    return 1\n",
        "test": "def check(c): …",
    }
    return {**shape, "prompt": prompt, **more}


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ('def f(x):\n    """ Add one. """\n', 'def f(x):\n    """ Add one. """'),
        ("\n\ndef f(x):\n    '''Tabs\tand ünïcode'''\n", "def f(x):\n    '''Tabs\tand ünïcode'''"),
        (
            "from typing import List\n\n\ndef f(x: List[int]) -> int:\n",
            "from typing import List\n\n\ndef f(x: List[int]) -> int:",
        ),
        ("    def f(self):", "    def f(self):"),
        ("def g():\n    pass\n\ndef f():\n    >>> f()\n    1\n", "def g():\n    pass\n\ndef f():\n    >>> f()\n    1"),
    ],
)
def test_golden_rows(prompt: str, code: str) -> None:
    assert humaneval.recognise(row(prompt)) == "column 'prompt' is the head of the function that 'entry_point' names"
    read = humaneval.read(row(prompt))
    assert read.prompt.messages == [user(f"Complete this Python function.\n\n```python\n{code}\n```")]


def test_a_fence_is_longer_than_those_in_the_code() -> None:
    (message,) = humaneval.read(row('def f():\n    """```\n    a\n    ```"""')).prompt.messages
    assert message["content"].split("\n")[2] == "````python" and message["content"].endswith("\n````")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (row("  "), "column 'prompt' is empty"),
        (row(None), "column 'prompt' is null, not a text"),
        (row("def f():", entry_point=None), "no text in column 'entry_point'"),
        ({"prompt": "def f():"}, "no text in column 'entry_point'"),
        ({"entry_point": "f"}, "no column 'prompt'"),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        humaneval.read(row)
    assert caught.value.reason.startswith(reason)
