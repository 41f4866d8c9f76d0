"""Example data and recipes that come with the package."""

from pathlib import Path

HERE = Path(__file__).parent
QUICKSTART = HERE / "quickstart"
RECIPE = HERE / "recipe.yaml"
