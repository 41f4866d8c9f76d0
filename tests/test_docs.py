"""The documents name what the code has: every key of a recipe, every field of a run's lines, every verb."""

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from draftmill import recipe as recipes
from draftmill.capacity.started import Started
from draftmill.cli.app import app
from draftmill.compare import effects
from draftmill.compare.comparison import Comparison, Side
from draftmill.compare.diff import Change, DatasetDiff, Diff, Lengths, Paired, Pairs
from draftmill.compare.diff import Example as Pair
from draftmill.compare.effects import Parting
from draftmill.compare.verdict import TOLERANCE, Effect, Verdict
from draftmill.ledger.settings import Settings
from draftmill.ledger.standing import Tally
from draftmill.mill.drift import DriftFile, Example, Figure
from draftmill.mill.prepared import Prepared
from draftmill.recipe import (
    Control,
    Dataset,
    EngineSpec,
    Lane,
    Load,
    LongPrompts,
    Markers,
    Plan,
    Recipe,
    Sampling,
    Start,
    markers,
)
from draftmill.records import Completion, Failure, Prompt, Row
from draftmill.render.drift import Reason as DriftReason
from draftmill.render.drift import Unjudged
from draftmill.render.families import FAMILIES, PLAIN, Body
from draftmill.render.findings import Code, Concern
from draftmill.serve.reason import Reason
from draftmill.sources import formats
from draftmill.verify.checks import CHECKS
from draftmill.verify.likeness import Judged
from draftmill.verify.verification import Result, Shown, Verification

ROOT = Path(__file__).parent.parent


def code_words(document: str) -> set[str]:
    """What stands between backquotes in a document."""
    return set(re.findall(r"`([^`\n]+)`", (ROOT / document).read_text()))


@pytest.mark.parametrize("part", [Recipe, Sampling, Lane, EngineSpec, Dataset, LongPrompts, Markers, Plan, Start, Load])
def test_every_key_of_a_recipe(part: type[recipes.Recipe]) -> None:
    assert part.model_fields.keys() - code_words("docs/recipe.md") == set()


@pytest.mark.parametrize("line", [Settings, Prompt, Completion, Failure, Row, Prepared, DriftFile, Figure, Example])
def test_every_field_of_a_runs_lines(line: type[Prompt]) -> None:
    assert set(line.__struct_fields__) - code_words("docs/run-folder.md") == set()


def test_every_family_finding_and_reason_of_drift() -> None:
    words = code_words("docs/models.md")
    assert {family.name for family in FAMILIES} | set(Code) | set(DriftReason) | set(Unjudged) <= words


def test_every_word_of_the_markers() -> None:
    names = {family.name for family in (*FAMILIES, PLAIN)}
    assert (set(get_args(markers.Family)), set(get_args(markers.Body))) == (names, set(Body))
    assert names | set(Body) <= code_words("docs/recipe.md")


def test_every_concern() -> None:
    assert set(Concern) - {Concern.ALL} <= code_words("docs/run-folder.md")


def test_what_every_verb_prints_as_json() -> None:
    """And of those that have no such option, why."""
    text = (ROOT / "docs/run-folder.md").read_text().partition("## What `--json` prints\n")[2].partition("\n## ")[0]
    table, told = text.partition("\n`init`")[0], text.partition("\n`init`")[2]
    named = {word for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)}
    callbacks = [command.callback for command in app.registered_commands if command.callback]
    having = {call.__name__ for call in callbacks if "json" in inspect.signature(call).parameters}
    assert named == having
    assert {call.__name__ for call in callbacks} - having <= set(re.findall(r"`(\w+)`", "`init`" + told))


def test_every_format() -> None:
    for document in ("docs/recipe.md", "README.md"):
        assert set(formats.known()) - {formats.AUTO} <= code_words(document)


def test_every_key_of_the_control_file() -> None:
    assert Control.model_fields.keys() - code_words("docs/run-folder.md") == set()


def test_every_rule_of_a_refusal() -> None:
    source = (ROOT / "src/draftmill/capacity/refusal.py").read_text()
    rules = set(re.findall(r'Refusal\(\s*"([a-z_]+)"', source))
    assert len(rules) == 8
    assert rules - code_words("docs/plan.md") == set()


def test_every_reason_of_a_death_and_field_of_a_start() -> None:
    words = code_words("docs/serve.md")
    assert {reason.value for reason in Reason} | set(Started.__struct_fields__) <= words


def test_every_check_with_its_severity_and_threshold() -> None:
    text = (ROOT / "docs/verify.md").read_text()
    for check in CHECKS.values():
        share = f"{check.threshold * 100:g} %" if check.threshold else "0"
        assert f"| `{check.name}` | {check.severity.value} | {'–' if check.severity == 'note' else share} |" in text
        assert check.means in text and check.do in text


@pytest.mark.parametrize(
    "part", [Comparison, Side, Effect, Parting, Diff, Change, DatasetDiff, Pairs, Lengths, Paired, Pair]
)
def test_every_field_of_a_comparison(part: type[Comparison]) -> None:
    assert set(part.__struct_fields__) - code_words("docs/compare.md") == set()


def test_every_effect_and_verdict_of_a_comparison() -> None:
    text = (ROOT / "docs/compare.md").read_text()
    source = (ROOT / "src/draftmill/compare/effects.py").read_text()
    names = {name for name, *_ in effects._DISTANCES} | set(re.findall(r'(?:_shift|_Asked)\(\s*"([a-z ]+)"', source))
    assert {"refused", "greedy", "length", "unusable calls"} < names <= code_words("docs/compare.md")
    assert [verdict for verdict in Verdict if f"| {verdict} |" not in text] == []
    assert f"--tolerance {TOLERANCE}" in text


@pytest.mark.parametrize("part", [Verification, Result, Shown, Judged])
def test_every_field_of_a_verification(part: type[Verification]) -> None:
    assert set(part.__struct_fields__) - code_words("docs/verify.md") == set()


def test_every_state_of_a_position() -> None:
    text = (ROOT / "docs/run-folder.md").read_text()
    states = set(Tally.__struct_fields__) - {"positions", "counting_tokens"}
    assert {s for s in states if f"| {s.replace('_', ' ')} |" not in text} == set()


def test_every_verb() -> None:
    text = (ROOT / "README.md").read_text()
    verbs = [command.callback.__name__ for command in app.registered_commands if command.callback]
    assert [verb for verb in verbs if f"draftmill {verb}" not in text] == []


def test_the_readmes_recipe_holds(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    path = tmp_path / "recipe.yaml"
    path.write_text(block)
    assert [d.name for d in recipes.load(path).datasets] == ["chat", "code"]


@pytest.mark.parametrize("document", [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))], ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []
