"""The floors of docs/architecture.md, held against the imports of the code."""

import ast
from pathlib import Path

import pytest

import draftmill

ROOT = Path(draftmill.__file__).parent
FLOORS = {
    "records": 0,
    "ids": 0,
    "errors": 0,
    "examples": 0,
    "recipe": 1,
    "capacity": 1,
    "machine": 1,
    "journal": 2,
    "sources": 2,
    "render": 2,
    "engines": 2,
    "ledger": 3,
    "compare": 4,
    "mill": 4,
    "export": 4,
    "plan": 4,
    "serve": 4,
    "verify": 4,
    "watch": 4,
    "cli": 5,
}
MODULES = sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT or p.stem in FLOORS)


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    names += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    return {name.split(".")[1] for name in names if name.startswith("draftmill.")}


def test_every_room_stands_on_a_floor() -> None:
    assert {room(p) for p in MODULES} == set(FLOORS)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_only(path: Path) -> None:
    here = room(path)
    for other in imported_rooms(path) - {here}:
        assert FLOORS[other] < FLOORS[here], f"{here} imports {other}"
