"""Rounds of chaos with real processes: ``draftmill run`` against simulated servers over HTTP, all of them killed."""

import json
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from draftmill.engines.simulated import Answers, Draw, Lengths
from draftmill.errors import StorageError
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.stamp import lost
from draftmill.ledger.standing import load_standing
from tests.cli.command import command, environment, with_file_limit, write_jsonl, write_recipe
from tests.journal.power import last_newline, tear
from tests.mill.chaos import model
from tests.mill.chaos.check import Asked, Found, drawn_again, incomplete, look, promise_broken, tally_differs
from tests.mill.chaos.outcome import Outcome
from tests.mill.chaos.servers import Served, trouble

_CONTEXT = 1500
_LONGEST = 300.0  # seconds that the last start may take
_LONGEST_STORM = 8.0  # and a storm, where nothing comes any more (all servers paused)
_LIMITS = {"short": 150, "long": 300}


ENDINGS = ("kill", "kill", "kill", "stop", "disk full")


def play(seed: str, path: Path, endings: Sequence[str] = (), prompts: int = 60) -> Outcome:
    """One round of datasets of so many prompts, whose starts end in these ways, or in drawn ones. Its plan follows from
    the seed; when exactly things strike, the machine decides too."""
    draw = random.Random(seed)
    played = _Round(draw, path, prompts)
    try:
        return played.play(endings or draw.choices(ENDINGS, k=draw.randint(2, 5)))
    finally:
        played.close()


class _Round:
    def __init__(self, draw: random.Random, path: Path, prompts: int) -> None:
        self.draw = draw
        self.prompts = prompts
        self.path = path
        self.run = path / "run"
        self.outcome = Outcome("real processes")
        self.draws = draw.choice([Draw.NEVER, Draw.NEVER, Draw.SEED, Draw.ALWAYS])
        self.model = Answers(Lengths(draw.uniform(60, 130), 0.8), draw=self.draws, vocab_size=len(model.VOCABULARY))
        self.servers = [self._server() for _ in range(draw.randint(1, 2))]
        self.recipe = self._recipe()
        self.found: dict[str, Found] = {}
        self.kept: dict[Path, bytes] = {}
        self.milled = 0

    def play(self, endings: Sequence[str]) -> Outcome:
        for ending in endings:
            self._start(ending)
            self._tear()
        for server in self.servers:  # fresh ones, without a trouble
            server.kill()
            server.start()
        told = self._last_start()
        for name in self.datasets:
            asked, found = self._asked(name), self.found[name]
            self.outcome.note(name, incomplete(asked, found))
            if told and (line := told["datasets"][name]):
                self.outcome.note(name, tally_differs(found, line | {"counting_tokens": line["tokens"]}))
            self.outcome.figures += found.marks
        return self.outcome

    def close(self) -> None:
        for server in self.servers:
            server.kill()
            self.outcome.struck += server.struck

    # what is asked

    def _server(self) -> Served:
        draw, lengths = self.draw, self.model.lengths
        options = {
            "base": 0.008,
            "per-sequence": 0.0002,
            "prefill-rate": 50_000,
            "kv-tokens": draw.choice([3000, 20_000]),
            "context": _CONTEXT,
            "mean": lengths.mean,
            "sigma": lengths.sigma,
            "vocab-size": self.model.vocab_size,
            "draw": self.draws.name.lower(),
            "max-queued": draw.choice([2, 1000]),
        }
        return Served(*(f"--{name}={value}" for name, value in options.items()))

    def _recipe(self) -> Path:
        draw = self.draw
        self.datasets: dict[str, dict[str, Any]] = {}
        for index in range(draw.randint(2, 3)):
            rows = [{"prompt": "".join(draw.choices("abc def", k=draw.randint(1, 200)))} for _ in range(self.prompts)]
            if draw.random() < 0.5:
                rows += [{"prompt": "x" * (_CONTEXT + 100)}]
            write_jsonl(self.path / f"d{index}.jsonl", rows)
            dataset: dict[str, Any] = {"name": f"d{index}", "source": f"d{index}.jsonl"}
            if draw.random() < 0.4:
                dataset["budget"] = draw.randint(500, 3000)
            self.datasets[f"d{index}"] = dataset | {"lane": "long" if index == 1 else "short"}
        return write_recipe(
            self.path / "recipe.yaml",
            model=str(model.directory(self.path / "model")),
            engines=[{"url": s.url, "concurrency": draw.choice(["auto", 8])} for s in self.servers],
            lanes={name: {"max_new_tokens": limit} for name, limit in _LIMITS.items()},
            datasets=list(self.datasets.values()),
            order=draw.choice(["together", "one-by-one"]),
            checkpoint_partials=draw.choice(["off", "100ms", "1s"]),
            max_error_share=1.0,
        )

    def _asked(self, name: str) -> Asked:
        folder, dataset = DatasetFolder(self.run / name), self.datasets[name]
        asked = Asked(folder.path, self.model, {_LIMITS[dataset["lane"]]}, dataset.get("budget"), longest=_CONTEXT - 2)
        if folder.prompts.exists():
            lines = [json.loads(line) for line in folder.prompts.read_bytes().splitlines()]
            asked.guilty = {line["position"]: {"too_long"} for line in lines if len(line["prompt_ids"]) > _CONTEXT}
        return asked

    # starts

    def _start(self, ending: str) -> None:
        """One start among troubles, from its beginning or from when it generates, until it ends or is ended."""
        draw = self.draw
        self.outcome.starts[ending] += 1
        self.milled = self._count("milling")
        process = self._popen(ending == "disk full")
        if draw.random() < 0.25:
            self._storm(process, time.monotonic() + draw.uniform(0.1, 3), 1 << 30)
        else:
            self._wait_for_milling(process)
            self._storm(process, time.monotonic() + _LONGEST_STORM, self._lines() + draw.randint(1, 2 * self.prompts))
        if ending == "stop" and process.poll() is None:
            process.send_signal(draw.choice([signal.SIGINT, signal.SIGTERM]))
            self.outcome.struck["interrupt"] += 1
            try:
                process.wait(draw.choice([0.1, 20]))
            except subprocess.TimeoutExpired:
                pass
        if process.poll() is None:
            process.kill()
            self.outcome.struck["kill"] += 1
        _, said = process.communicate()
        if "Traceback" in said:
            self.outcome.violations.append(f"a traceback: {said[-1500:]}")
        self.outcome.struck["disk full"] += "File too large" in said
        for server in self.servers:
            server.start()
        self._look()

    def _storm(self, process: "subprocess.Popen[str]", until: float, lines: int) -> None:
        """Trouble and kill the servers until then, or until the journals have so many lines."""
        draw, down = self.draw, dict[Served, float]()
        while process.poll() is None and time.monotonic() < until and self._lines() < lines:
            time.sleep(draw.uniform(0.1, 0.6))
            server = draw.choice(self.servers)
            if server not in down and draw.random() < 0.2:
                server.kill()
                self.outcome.struck["server killed"] += 1
                down[server] = time.monotonic() + draw.uniform(0, 1)
            elif server not in down:
                server.strike(*trouble(draw))
            for server in [s for s, back in down.items() if time.monotonic() > back]:
                server.start()
                del down[server]

    def _wait_for_milling(self, process: "subprocess.Popen[str]") -> None:
        end = time.monotonic() + _LONGEST
        while process.poll() is None and time.monotonic() < end and self._count("milling") == self.milled:
            time.sleep(0.05)

    def _count(self, kind: str) -> int:
        """How often this stands among the run's events."""
        events = self.run / "events.jsonl"
        return events.read_bytes().count(b'"kind":"%s"' % kind.encode()) if events.exists() else 0

    def _lines(self) -> int:
        """Journal lines of all datasets."""
        return sum(path.read_bytes().count(b"\n") for path in self.run.glob("d*/raw_responses.jsonl"))

    def _last_start(self) -> dict[str, Any] | None:
        self.outcome.starts["calm"] += 1
        process = self._popen(False)
        try:
            told, said = process.communicate(timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            told, said = process.communicate()
        self._look()
        if process.returncode != 0:
            self.outcome.violations.append(f"a calm start ended with {process.returncode}: {said[-800:]}")
            return None
        line: dict[str, Any] = json.loads(told)
        return line

    def _popen(self, limited: bool) -> "subprocess.Popen[str]":
        args = command(
            "run", self.recipe, "--out", self.run, "--json", "--drain", "3", "--patience", "40", "--stall", "3"
        )
        if limited:
            journals = [f.stat().st_size for f in self.run.glob("*/raw_responses.jsonl")]
            args = with_file_limit(args, max(journals, default=0) + self.draw.randint(0, 30_000))
        return subprocess.Popen(
            args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=self.path
        )

    def _tear(self) -> None:
        """Damage the end of files by hand, as no kill can be made to on demand. A journal whose only answer that would
        cut off, after a row was built of it, is spared: a start refuses to draw all of it again."""
        for path in sorted(self.run.glob("d*/*.jsonl")):
            if path.name in ("raw_responses.jsonl", "errors.jsonl") and self.draw.random() < 0.5:
                before, folder = path.read_bytes(), DatasetFolder(path.parent)
                torn = tear(path, self.draw) or "nothing torn"
                try:
                    lost(folder, load_standing(folder))
                except StorageError:
                    path.write_bytes(before)
                else:
                    self.outcome.struck[torn] += 1
        self._keep()
        self._look()

    def _keep(self) -> None:
        """What stands there as whole lines while nobody runs has been synced, and must stay."""
        self.kept = {path: path.read_bytes()[: last_newline(path)] for path in self.run.glob("d*/*.jsonl")}
        self.kept = {path: text for path, text in self.kept.items() if path.name != "tokenized_data.jsonl"}

    def _look(self) -> None:
        note = self.outcome.note
        note("", promise_broken(self.kept))
        self._keep()
        for name, dataset in self.datasets.items():
            asked = self._asked(name)
            found, before = look(asked), self.found.get(name, Found())
            self.found[name] = found
            note(name, found.violations + drawn_again(before, found))
            if found.prompts:
                standing = load_standing(DatasetFolder(asked.folder), budget=dataset.get("budget"))
                note(name, tally_differs(found, msgspec.to_builtins(standing.tally())))
                if standing.unknown_lines or standing.strays or standing.orphans:
                    note(name, [f"{len(standing.unknown_lines)} unknown lines, {standing.strays} strays"])
