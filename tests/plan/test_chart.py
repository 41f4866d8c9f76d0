"""Charts of a timeline."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from draftmill.plan.chart import Series, squeezed, svg, terminal


def test_a_ramp_in_block_characters() -> None:
    assert terminal(Series("n", "", [0, 1, 2, 3, 4]), width=5, height=2) == ["   ▄█", " ▄███"]
    assert terminal(Series("n", "", [0.0, 0.0]), width=5, height=1) == [""]
    assert terminal(Series("n", "", [1, 1], line=2), width=2, height=2) == ["", "██"]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=300), st.integers(1, 120))
def test_what_is_squeezed_keeps_its_bounds(values: list[float], width: int) -> None:
    found = squeezed(values, width)
    assert len(found) == min(width, len(values))
    assert min(values) - 1e-3 <= min(found) and max(found) <= max(values) + 1e-3
    assert all(len(line) <= width for line in terminal(Series("n", "", values), width=width))


def test_the_svg_is_well_formed() -> None:
    text = svg("a <model> & more", [Series("KV in use", "%", [0, 50, 100], 100), Series("r", "tok/s", [1])], hours=2)
    tree = ElementTree.fromstring(text)
    said = [e.text for e in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "a <model> & more" in said and "100 %" in said and "2 h" in said
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}polyline"))) == 2
