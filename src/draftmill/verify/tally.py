"""What was found: counts by check, with the first examples; tallies of two parts of a file add up."""

from dataclasses import dataclass, field

_EXAMPLES = 3
WINDOW = 24  # ids that an example shows


@dataclass
class Example:
    """One finding: the number of its row (from 0, in its part of the data), ids to be shown, and a remark; ``where`` it
    is, if that is no line of the rows."""

    row: int
    ids: list[int] = field(default_factory=list)
    remark: str = ""
    where: str = ""


@dataclass
class Tally:
    """Findings by the name of a check. ``looked`` holds what a check looked at where that is not all rows."""

    rows: int = 0
    found: dict[str, int] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def hit(self, check: str, row: int, ids: object = (), at: int = 0, remark: str = "", where: str = "") -> None:
        """Count a finding; ``ids`` around ``at`` are kept of the first ones."""
        self.found[check] = self.found.get(check, 0) + 1
        kept = self.examples.setdefault(check, [])
        if len(kept) < _EXAMPLES:
            start = max(0, int(at) - WINDOW // 2)
            shown = [int(id) for id in ids[start : start + WINDOW]]  # type: ignore[index]
            kept.append(Example(row, shown, remark, where))

    def shows(self, check: str) -> bool:
        """Whether the next finding of a check is still kept as an example."""
        return len(self.examples.get(check, ())) < _EXAMPLES

    def look(self, check: str, number: int = 1) -> None:
        self.looked[check] = self.looked.get(check, 0) + number

    def add(self, other: "Tally") -> None:
        """Take in the tally of the next part."""
        for check, number in other.found.items():
            self.found[check] = self.found.get(check, 0) + number
            kept = self.examples.setdefault(check, [])
            for example in other.examples.get(check, ())[: _EXAMPLES - len(kept)]:
                kept.append(Example(example.row + self.rows, example.ids, example.remark, example.where))
        for check, number in other.looked.items():
            self.looked[check] = self.looked.get(check, 0) + number
        self.rows += other.rows
