"""Whether `draftmill verify` finds what the field has reported: every kind of fault of tests/verify/corruptions in one
row of twenty of a copy of a real run, and which checks say so, of the run and of its ids and masks alone.

A run of some 400 rows is generated first with the embedded engine, at temperature 1.0, or one is named that has tools
and ids of SmolLM2. One answer in ten lies behind the cut.

Usage: bench_corruptions.py [RUN]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.verify.corruptions import CORRUPTIONS, bare, corrupted, cut_to, fired

from draftmill.examples import QUICKSTART
from draftmill.render import tokenizer as tokenizers
from draftmill.verify.judge import verify_file, verify_run

RECIPE = """\
model: smollm2
engines: [{kind: embedded, context: 512}]
sampling: {temperature: 1.0}
lanes: {short: {max_new_tokens: 48}}
datasets:
"""
MANY = 6  # findings more than in the untouched run that are no chance: a fault is in 20 rows


def generated(folder: Path) -> Path:
    recipe = folder / "recipe.yaml"
    names = ("chat", "coding", "tools", "multiturn")
    lines = [f"  - {{name: {n}, source: {QUICKSTART}/{n}.jsonl, n: 4, samples: 110}}\n" for n in names]
    recipe.write_text(RECIPE + "".join(lines))
    command = [sys.executable, "-m", "draftmill", "run", str(recipe), "--out", str(folder / "run")]
    subprocess.run(command, check=True)
    return folder / "run"


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "clean"
        shutil.copytree(Path(sys.argv[1]) if len(sys.argv) > 1 else generated(folder), run)
        cut_to(run, 0.9)
        model = str(run / "tokenizer")
        tokenizer = tokenizers.load(model)
        clean = verify_run(run, workers=1)
        alone = verify_file(bare(run, folder / "clean.jsonl"), model=model, workers=1)
        wrong = [r.name for r in clean.checks if r.above and r.severity == "error"]
        told = ", ".join(f"{r.name} {r.share:.1%}" for r in clean.checks if r.count)
        print(f"untouched: {sum(clean.rows.values())} rows; errors: {', '.join(wrong) or 'none'}; counted: {told}\n")
        missed = len(wrong)
        for number, corruption in enumerate(CORRUPTIONS):
            copy = corrupted(run, folder / str(number), corruption, tokenizer)
            found = fired(verify_run(copy, workers=1), clean, MANY)
            rows = bare(copy, folder / "rows.jsonl")
            seen = fired(verify_file(rows, model=model, workers=1), alone, MANY)
            also = corruption.also
            ok = (found - also, seen - also) == (corruption.fires - also, corruption.bare - also)
            missed += not ok
            names = ", ".join(sorted(found)), ", ".join(sorted(seen)) or "–"
            print(f"{'' if ok else 'NOT AS IT SHOULD: '}{corruption.name}: {names[0]} | ids and masks: {names[1]}")
            shutil.rmtree(copy)
        print(f"\n{len(CORRUPTIONS) - missed} of {len(CORRUPTIONS)} found, each by the check that is named for it")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
