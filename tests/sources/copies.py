"""Prompts that look alike and are not, and near copies of some of them: what finding duplicates is measured on.

The base mixes kinds that datasets have: requests by templates that differ in one noun, arithmetic that differs in one
number or sign, real functions and real prose of the standard library under a shared instruction, a long shared
instruction around a short issue, tools and system prompts that many rows share. Nothing is taken out of it for being
too like something else, except what is equal word for word.
"""

import ast
import importlib
import inspect
import pkgutil
import random
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from draftmill.records import Conversation

_NOUNS_TEXT = (
    "bicycle lighthouse volcano glacier orchestra sourdough telescope compost vaccine passport sailboat "
    "mortgage beehive cathedral submarine marathon origami thermostat avalanche violin aquarium blacksmith "
    "chessboard dragonfly elevator firewall greenhouse hurricane iceberg jellyfish kaleidoscope labyrinth "
    "monastery nebula observatory pendulum quarry reservoir satellite tapestry umbrella vineyard windmill "
    "xylophone yogurt zeppelin almanac bakery caravan drawbridge eclipse fountain gondola harbour inkwell "
    "jukebox kiln lantern microscope notebook orchard parachute quilt robot sundial turbine unicorn viaduct "
    "waterfall archive beacon canyon dynamo estuary"
)
_NOUNS = _NOUNS_TEXT.split()
_PLACES_TEXT = (
    "Lisbon Nairobi Kyoto Oslo Lima Cairo Hanoi Quito Dublin Prague Athens Bogota Seoul Dakar Tunis Havana "
    "Zagreb Riga Vienna Jakarta Manila Ankara Baku Minsk Sofia Warsaw Kigali Accra Doha Muscat"
)
_PLACES = _PLACES_TEXT.split()
_ROLES_TEXT = (
    "nurse pilot farmer lawyer baker plumber teacher sailor miner tailor carpenter librarian chemist gardener"
    " referee journalist translator architect firefighter beekeeper"
)
_ROLES = _ROLES_TEXT.split()
_TOPICS_TEXT = (
    "inflation;photosynthesis;plate tectonics;quantum tunnelling;supply chains;immune memory;garbage "
    "collection;public key cryptography;the tides;natural selection;compound interest;database indexing;the "
    "carbon cycle;machine translation;crop rotation;tax brackets;binary search;noise cancellation;antibiotic "
    "resistance;urban heat islands;currency pegs;optical fibres;protein folding;election systems;gradient "
    "descent;sleep cycles"
)
_TOPICS = _TOPICS_TEXT.split(";")
_ASKS = (
    "Write a short story about a {a} and a {b} who meet in {p}.",
    "Write a poem about a {a} in {p} as a {r} would tell it.",
    "Explain {t} to a {r} from {p} in simple words.",
    "Explain {t} to a curious {r}. Use an analogy with a {a}.",
    "What is the role of a {a} in the history of {p}?",
    "How would a {r} repair a {a} with the tools of a {b}?",
    "Give me five ideas for a museum exhibition in {p} about the {a} and its influence on {t}.",
    "Compare {t} with {u} for an audience of people who work as a {r}.",
    "I am a {r} in {p} and I want to buy a {a}. What should I look out for before I decide?",
    "Draft a polite email to the city of {p} that asks for a permit to put a {a} next to the {b}.",
    "Summarise what a beginner must know about {t}, then write three quiz questions that mention a {a}.",
    "Describe a day in the life of a {r} who keeps a {a} and dreams of a {b}.",
    "Which is the better gift for a {r}, a {a} or a {b}? Argue for one side only.",
    "Plan a weekend trip to {p} for a {r} who is interested in every kind of {a}.",
    "Design a board game whose theme is {t} and in which each player owns a {a}.",
)
_SUMS = (
    "What is {x} {o} {y}?",
    "Compute {x} {o} {y} and show every step of the calculation.",
    "A {r} in {p} sells {x} pieces at {y} dollars each. How much is that after a discount of {z} percent?",
    "Solve {x}a {o} {y} = {z} for a.",
    "A train leaves {p} at {x} km/h and another one {z} minutes later at {y} km/h. When does the second catch up?",
    "Is {x} a prime number? Explain how you found out.",
    "Convert {x}.{y} metres into feet and inches.",
)
_ISSUE = """We are working on the repository below, and your task is to resolve the issue that is described here.
ISSUE: {issue}
INSTRUCTIONS: You are going to solve this issue on your own. Your terminal session has started and you are in the root
folder of the repository. You can use any shell commands or the special interface to help you. Edit all the files you
need to and run any checks or tests that you want. Remember that you can only enter one command at a time. You should
always wait for feedback after every command. When you are satisfied with all of the changes you have made, you can
submit your work to the repository by simply running the submit command. Note that you cannot use any interactive
session commands in this environment, but you can write scripts and run them. If a command fails, try something else
instead of repeating it. Always start by trying to replicate the bug that the issue discusses."""
_CODE = "Explain what this function does and find its bugs:\n```python\n{code}\n```"
_FIND = "Find me a {a} near {p} and add it to my {r} list."
_CLASSIFY = """You are given a statement out of a technical manual. Decide whether the statement describes a limitation
of the product, a recommendation to the reader, or a plain fact. Answer with exactly one word, and do not explain your
decision. Statement: {text}"""
_MODULES_TEXT = (
    "argparse ast asyncio base64 bisect calendar codecs collections concurrent configparser contextlib copy "
    "csv ctypes datetime decimal difflib dis doctest email encodings enum fileinput filecmp fractions ftplib "
    "functools getpass gettext glob gzip heapq hmac html http imaplib importlib inspect io ipaddress json "
    "locale logging lzma mailbox mimetypes multiprocessing netrc numbers operator optparse os pathlib pdb "
    "pickle pkgutil platform plistlib poplib pprint profile pyclbr pydoc queue random re sched secrets "
    "selectors shelve shlex shutil smtplib socket socketserver sqlite3 ssl statistics string subprocess "
    "symtable sysconfig tarfile tempfile textwrap threading timeit tokenize trace traceback tracemalloc types"
    " typing unittest urllib uuid venv wave weakref webbrowser wsgiref xml xmlrpc zipapp zipfile zoneinfo"
)
_MODULES = _MODULES_TEXT.split()
_SYNONYMS = {
    "write": "compose", "short": "brief", "explain": "describe", "simple": "plain", "give": "show", "want": "wish",
    "describe": "explain", "buy": "purchase", "polite": "friendly", "decide": "choose", "people": "persons",
    "function": "routine", "return": "give", "list": "array", "file": "document", "show": "print", "use": "employ",
    "make": "create", "find": "locate", "big": "large", "help": "assist", "need": "require", "string": "text",
    "start": "begin", "always": "ever", "better": "nicer", "must": "should", "next": "beside", "interested": "keen",
}  # fmt: skip
_SMALL_TEXT = "a an the of and that is are to in for this which its"
_SMALL = _SMALL_TEXT.split()
_FILLERS_TEXT = "really just maybe basically quickly carefully actually perhaps kind exactly"
_FILLERS = _FILLERS_TEXT.split()
GREETINGS = (
    "Hi! ", "Hello there, ", "Hey, ", "Good morning! ", "Dear assistant, ", "Hello, I hope you are doing well. ",
    "Please ",
    "Could you please help me with this? ", "Quick question: ", "Hi ChatGPT, can you ", "I have a request. ",
)  # fmt: skip
SYSTEM = (
    "You are a careful assistant. Answer at the level of the question, name your sources, and say what you do not know."
)
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": {"type": "object"}}}
    for name in ("search", "weather", "calendar", "translate", "route")
]


class Copies(NamedTuple):
    """``rows`` in the order that they are shown; ``exact`` and ``near``: number of a copy → that of its original."""

    rows: list[Conversation]
    exact: dict[int, int]
    near: dict[int, int]
    kinds: list[str]


def copies(rows: int, near: int, exact: int, seed: int = 0) -> Copies:
    """``rows`` conversations, of which so many are near and exact copies of earlier ones."""
    draw = random.Random(seed)
    base = list(_base(rows - near - exact, draw))
    order = [(draw.random(), n, None) for n in range(len(base))]
    picks = draw.sample(range(len(base)), near + exact)
    for n, pick in enumerate(picks):
        order.append((draw.uniform(order[pick][0], 1), pick, n < near))
    made = Copies([], {}, {}, [])
    place: dict[int, int] = {}
    for _, pick, is_near in sorted(order, key=lambda each: (each[0], each[2] is not None)):
        kind, conversation = base[pick]
        number = len(made.rows)
        if is_near is None:
            place[pick] = number
        else:
            (made.near if is_near else made.exact)[number] = place[pick]
        made.rows.append(_edited(conversation, draw) if is_near else conversation)
        made.kinds.append(kind)
    return made


def _base(count: int, draw: random.Random) -> Iterator[tuple[str, Conversation]]:
    prose, code = (draw.sample(texts, len(texts)) for texts in _library())
    third = len(prose) // 3
    issues, statements, prose = prose[:third], prose[third : 2 * third], prose[2 * third :]
    makers: list[tuple[str, int, Callable[[int], str]]] = [
        ("template", 30, lambda _: _filled(draw.choice(_ASKS), draw)),
        ("sum", 15, lambda _: _filled(draw.choice(_SUMS), draw)),
        ("code", 15, lambda n: _CODE.format(code=code[n % len(code)])),
        ("prose", 15, lambda n: f"Rewrite this paragraph for beginners.\n\n{prose[n % len(prose)]}"),
        ("issue", 10, lambda n: _ISSUE.format(issue=_sentence(issues[n % len(issues)]))),
        ("classify", 10, lambda n: _CLASSIFY.format(text=_sentence(statements[n % len(statements)]))),
        ("tools", 5, lambda _: _filled(_FIND, draw)),
    ]  # fmt: skip
    seen: set[str] = set()
    made = dict.fromkeys((kind for kind, _, _ in makers), 0)
    while count:
        kind, _, maker = draw.choices(makers, [weight for _, weight, _ in makers])[0]
        text = maker(made[kind])
        made[kind] += 1
        if (bare := "".join(text.lower().split())) in seen:
            continue
        seen.add(bare)
        count -= 1
        system = [{"role": "system", "content": SYSTEM}] if kind in ("tools", "prose") else []
        yield kind, Conversation([*system, {"role": "user", "content": text}], TOOLS if kind == "tools" else None)


def _filled(template: str, draw: random.Random) -> str:
    a, b = draw.sample(_NOUNS, 2)
    t, u = draw.sample(_TOPICS, 2)
    x, y, z = (draw.randrange(2, 100) for _ in range(3))
    operator = draw.choice("+-*/")
    return template.format(a=a, b=b, t=t, u=u, x=x, y=y, z=z, o=operator, p=draw.choice(_PLACES), r=draw.choice(_ROLES))


@cache
def _library() -> tuple[list[str], list[str]]:
    """Paragraphs and functions of the standard library, each once."""
    prose: dict[str, str] = {}
    code: dict[str, str] = {}
    for module in _modules():
        try:
            source = ast_functions(inspect.getsource(module))
        except (OSError, TypeError, SyntaxError):
            continue
        for text, doc in source:
            if text:
                code.setdefault(" ".join(text.split()), text)
            for paragraph in doc.split("\n\n"):
                if len(paragraph.split()) >= 12:
                    prose.setdefault(" ".join(paragraph.lower().split()), paragraph)
    return _own(prose.values()), _own(code.values())


def _own(texts: Iterable[str]) -> list[str]:
    """Those that are not copies already: half of a text's runs of five words stand in no text before it."""
    runs: set[tuple[str, ...]] = set()
    own = []
    for text in texts:
        words = re.findall(r"\w+", text.lower())
        mine = set(zip(*(words[n:] for n in range(5)), strict=False))
        if len(mine & runs) <= len(mine) / 2:
            own.append(text)
        runs |= mine
    return own


def ast_functions(source: str) -> Iterator[tuple[str, str]]:
    """(source without its docstring, docstring) of each function of 5 to 60 lines, and of each class ("" as source)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and 5 <= (node.end_lineno or 0) - node.lineno < 60:
            doc = ast.get_docstring(node) or ""
            node.body = node.body[bool(doc) :] or [ast.Pass()]
            yield ast.unparse(node), doc
        elif isinstance(node, ast.ClassDef):
            yield "", ast.get_docstring(node) or ""


def _modules() -> Iterator[object]:
    for name in _MODULES:
        module = importlib.import_module(name)
        yield module
        for sub in pkgutil.iter_modules(getattr(module, "__path__", []), f"{name}."):
            if "__main__" not in sub.name and ".test" not in sub.name and "idle" not in sub.name:
                try:
                    yield importlib.import_module(sub.name)
                except Exception:
                    continue


def _sentence(paragraph: str) -> str:
    return " ".join(paragraph.split())[:220].rsplit(" ", 1)[0]


def _edited(conversation: Conversation, draw: random.Random) -> Conversation:
    """The conversation as somebody else would have pasted it."""
    *head, asked = conversation.messages
    text = str(asked["content"])
    kinds = draw.sample(("words", "case", "greeting", "marks"), draw.choice((1, 1, 2, 3)))
    for kind in kinds:
        text = _EDITS[kind](text, draw)
    return Conversation([*head, {"role": "user", "content": text}], conversation.tools)


def _words(text: str, draw: random.Random) -> str:
    """A word of 12 is put in, misspelt, left out if it is a small one, or replaced by one that means the same; of a
    text with fewer than 10 none, it would be another, and nothing in code."""
    text, fence, code = text.partition("```")
    pieces = text.split(" ")
    at = [n for n, piece in enumerate(pieces) if piece.isalpha() and len(piece) > 1]
    if len(pieces) < 10 or not at:
        return (text + fence + code).lower()
    for n in draw.sample(at, min(len(at), draw.randint(1, max(1, len(pieces) // 12)))):
        word = pieces[n]
        how = draw.randrange(4)
        if how == 0 and len(word) > 3:
            cut = draw.randrange(1, len(word) - 1)
            pieces[n] = word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
        elif how == 1 and word.lower() in _SMALL:
            pieces[n] = ""
        elif how == 2 and word.lower() in _SYNONYMS:
            pieces[n] = _SYNONYMS[word.lower()]
        else:
            pieces[n] = f"{word} {draw.choice(_FILLERS)}"
    return " ".join(piece for piece in pieces if piece) + fence + code


def _case(text: str, draw: random.Random) -> str:
    return draw.choice((str.lower, str.upper, str.title, str.swapcase))(text)


def _greeting(text: str, draw: random.Random) -> str:
    greeted = draw.choice(GREETINGS) + text if draw.random() < 0.8 else text
    return greeted + draw.choice(("", " Thanks!", " Thank you so much in advance.", "\n\nPlease."))


def _marks(text: str, draw: random.Random) -> str:
    return draw.choice(
        (text.rstrip(".?!"), text.replace(",", ""), f"  {text}\n", text.replace(". ", ".\n"), f'"{text}"', text + "..")
    )


_EDITS: dict[str, Callable[[str, random.Random], str]] = {
    "words": _words,
    "case": _case,
    "greeting": _greeting,
    "marks": _marks,
}
