import pickle

import pytest

from draftmill.errors import SourceError
from draftmill.records import Conversation, Turn
from draftmill.sources.language import LANGUAGES, Detector
from draftmill.sources.wording import text_of

TEXTS = {
    "en": "What's the difference between empathy and sympathy?",
    "de": "Schreibe ein kurzes Gedicht über den Herbst in Berlin.",
    "fr": "Explique-moi la théorie de la relativité en termes simples.",
    "es": "¿Cuál es la capital de Australia y cuántos habitantes tiene?",
    "it": "Scrivi una breve email per chiedere un giorno di ferie.",
    "pt": "Escreva um resumo curto sobre a história do Brasil.",
    "nl": "Schrijf een kort verhaal over een kat in Amsterdam.",
    "sv": "Skriv en kort dikt om hösten i Stockholm, tack.",
    "pl": "Napisz krótkie opowiadanie o smoku, który boi się ognia.",
    "tr": "Türkiye'nin başkenti neresidir ve kaç kişi yaşıyor?",
    "ru": "Напиши функцию на Python, которая сортирует список.",
    "ar": "ما هي عاصمة فرنسا وكم عدد سكانها؟",
    "hi": "भारत की राजधानी क्या है?",
    "zh": "请写一首关于秋天的诗,不超过一百字。",
    "ja": "日本の首都はどこですか。簡単に説明してください。",
    "ko": "한국의 수도는 어디인가요?",
    "vi": "Thủ đô của Việt Nam là gì và có bao nhiêu người?",
}


@pytest.mark.parametrize(("language", "text"), TEXTS.items())
def test_languages_are_told(language: str, text: str) -> None:
    assert Detector([]).of(text) == language
    assert Detector([]).of(text.upper()) in (language, "")


@pytest.mark.parametrize(
    "text",
    ["", "hi", "3x + 5 = 20", "```python\nfor the in what: return with that\n```", "https://example.org/die/und/der"],
)
def test_what_is_no_prose_is_nobodys_language(text: str) -> None:
    assert Detector(["en"]).of(text) == ""
    assert Detector(["de"]).wanted(text)


def test_code_does_not_decide() -> None:
    text = "Was macht dieser Code, und wo ist der Fehler?\n```python\nfor item in the_list: return with_that(item)\n```"
    assert Detector(["de"]).of(text) == "de"
    assert not Detector(["en"]).wanted(text)


def test_an_unknown_language_is_refused() -> None:
    assert set(TEXTS) <= LANGUAGES
    with pytest.raises(SourceError, match="'english' is no language"):
        Detector(["en", "english"])


def test_a_detector_goes_to_other_processes_after_use() -> None:
    detector = Detector(["en"])
    detector.of(TEXTS["en"])
    assert pickle.loads(pickle.dumps(detector)).of(TEXTS["en"]) == "en"


def test_the_text_is_what_users_said() -> None:
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Eins."}]
    talk = Conversation([*said, {"role": "assistant", "content": "One."}, {"role": "tool", "content": "2"}])
    assert text_of(talk) == "Eins."
    assert text_of(Conversation(said, later=[Turn([{"role": "user", "content": "Zwei."}])])) == "Eins.\nZwei."
