"""What came of one round, or of many."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """``starts`` counts them by how they were to end, ``struck`` what each kind of fault hit, ``figures`` answers."""

    kind: str
    violations: list[str] = field(default_factory=list)
    starts: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)

    def note(self, dataset: str, violations: list[str]) -> None:
        self.violations += [f"{dataset}: {violation}" if dataset else violation for violation in violations]
