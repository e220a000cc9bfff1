"""Language codes that configs give: whether a model can ever answer with one, and which was probably meant.

A code that no document can have keeps nothing, or holds a threshold against nobody, and no count tells: `keep: [english]` dropped
every page as `language_not_kept`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from corpusflow import ConfigError, storage_for
from stages.kernels.fasttext import labels_of
from stages.kernels.script import SCRIPTS
from stages.kernels.words import LANGUAGE_UNITS
from stages.language._codes import TWO_LETTERS, UNDETERMINED, code_of

_NAMES: Final = (
    "afrikaans:af albanian:sq amharic:am arabic:ar armenian:hy assamese:as asturian:ast azerbaijani:az bashkir:ba basque:eu "
    "belarusian:be bengali:bn bangla:bn bosnian:bs breton:br bulgarian:bg burmese:my cantonese:yue catalan:ca cebuano:ceb "
    "chinese:zh mandarin:zh corsican:co croatian:hr czech:cs danish:da dutch:nl english:en esperanto:eo estonian:et faroese:fo "
    "farsi:fa filipino:tl finnish:fi french:fr frisian:fy galician:gl georgian:ka german:de greek:el guarani:gn gujarati:gu "
    "haitian:ht hausa:ha hebrew:he hindi:hi hungarian:hu icelandic:is igbo:ig indonesian:id irish:ga italian:it japanese:ja "
    "javanese:jv kannada:kn kazakh:kk khmer:km kinyarwanda:rw korean:ko kurdish:ku kyrgyz:ky lao:lo latin:la latvian:lv "
    "lithuanian:lt luxembourgish:lb macedonian:mk malagasy:mg malay:ms malayalam:ml maltese:mt maori:mi marathi:mr mongolian:mn "
    "nepali:ne norwegian:nb bokmal:nb nynorsk:nn occitan:oc oriya:or odia:or pashto:ps persian:fa polish:pl portuguese:pt "
    "punjabi:pa quechua:qu romanian:ro russian:ru samoan:sm sanskrit:sa serbian:sr sindhi:sd sinhala:si slovak:sk slovene:sl "
    "slovenian:sl somali:so spanish:es sundanese:su swahili:sw swedish:sv tagalog:tl tajik:tg tamil:ta tatar:tt telugu:te "
    "thai:th tibetan:bo tigrinya:ti turkish:tr turkmen:tk ukrainian:uk urdu:ur uyghur:ug uzbek:uz vietnamese:vi welsh:cy "
    "wolof:wo xhosa:xh yiddish:yi yoruba:yo zulu:zu deutsch:de français:fr español:es italiano:it português:pt 中文:zh "
    "汉语:zh 漢語:zh 日本語:ja 한국어:ko русский:ru "
    # Codes of countries, where no language has them; classical Chinese has the code zh and a tag of its own.
    "cn:zh lzh:zh jp:ja us:en gb:en ua:uk cz:cs dk:da gr:el kz:kk vn:vi"
)
_CODE_OF_NAME: Final = dict(pair.split(":") for pair in _NAMES.split())
_SCRIPTS: Final = frozenset(name for name, _ in SCRIPTS) | {"Jpan", "Hans", "Hant"}
#: In a table by language: all that it does not name.
OTHERS: Final = "*"
#: Of a code that a model of somebody's own may give: ISO 639-3.
_THREE_LETTERS: Final = re.compile(r"[a-z]{3}")


@lru_cache(maxsize=16)
def _codes_of(path: str, etag: str) -> frozenset[str]:
    """Codes that a model gives; read once a process, since a stage is built again for each of its tasks."""
    return frozenset(code_of(label) for label in labels_of(storage_for(path).get(path)))


def refuse_unknown(what: str, given: Iterable[str], models: Iterable[str]) -> None:
    """Refuse codes that none of the models gives.

    Args:
        what: the parameter, for the error.
        given: the codes.
        models: language models, built in or by path; "" for none.

    Raises:
        ConfigError: naming the code and what was probably meant.
    """
    known = {UNDETERMINED}
    for name in filter(None, models):
        path = name if storage_for(name).exists(name) else os.path.join(os.path.dirname(__file__), "models", name)
        try:
            known |= _codes_of(path, storage_for(path).stat(path).etag)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return  # said where it is opened; what has run is looked at without its models
    if "zh" in known:
        known.add("yue")  # told from Chinese by its function words
    _refuse(what, given, known, f"the {len(known) - 1} languages that are told apart")


def refuse_never(what: str, given: Iterable[str]) -> None:
    """Refuse codes that no model's label becomes; `refuse_unknown` where the models are known.

    Raises:
        ConfigError: naming the code and what was probably meant.
    """
    words = list(given)
    known = {c for c in (*TWO_LETTERS, *LANGUAGE_UNITS, UNDETERMINED) if code_of(c) == c}
    known |= {c for c in words if _THREE_LETTERS.fullmatch(c) and code_of(f"{c}_") == c and code_of(c) == c}
    _refuse(what, words, known, "the codes of languages")


def check_table(
    what: str, table: Mapping[str, object], languages: Iterable[str] | None, otherwise: object, off: str
) -> None:
    """Refuse a table of thresholds that names no language, or turns a rule off without saying so.

    Args:
        what: the parameter, for the error.
        languages: those that the rule holds for without a table; None for all there are.
        otherwise: what it holds them against; None where there is no rule without a table.
        off: what `"*"` is where others shall not be judged.

    Raises:
        ConfigError: a code that no document has, or languages left out.
    """
    refuse_never(what, (code for code in table if code != OTHERS))
    need_others(what, table, languages, otherwise, off)


def need_others(
    what: str, table: Mapping[str, object], languages: Iterable[str] | None, otherwise: object, off: str
) -> None:
    """As `check_table`, of codes that are known to be good."""
    if OTHERS in table or otherwise is None:
        return
    if languages is not None and all(code in table for code in languages if code_of(code) == code):
        return
    raise ConfigError(
        f"{what}: a table for {', '.join(table) or 'no language'} without an entry for all others, which nothing would judge",
        hint=f'add "{OTHERS}": {otherwise}, which holds without a table, or "{OTHERS}": {off} to judge no others',
    )


def _refuse(what: str, given: Iterable[str], known: Iterable[str], among: str) -> None:
    codes = frozenset(known)
    for word in given:
        if word not in codes:
            meant = code_meant(word, codes)
            hint = f"did you mean {meant}?" if meant else "codes are those of BCP 47: en, zh, de, yue"
            script = word.replace("_", "-").partition("-")[2].title()
            if meant and script in _SCRIPTS:
                hint += f" language.code is without a script; language.identify has keep_scripts: [{script}]"
            raise ConfigError(f"{what}: {word!r} is not among {among}", hint=hint)


def code_meant(word: str, known: frozenset[str]) -> str | None:
    """The known code behind a name, another code or a tag of a language."""
    lower = word.strip().lower().replace("_", "-")
    primary = lower.partition("-")[0]
    close = difflib.get_close_matches(lower, _CODE_OF_NAME, 1, 0.75)
    found = (
        _CODE_OF_NAME.get(lower),
        code_of(f"{primary}_"),
        code_of(primary),
        *(_CODE_OF_NAME[name] for name in close),
    )
    return next((code for code in found if code in known), None)


def refuse_scripts(what: str, given: Iterable[str]) -> None:
    """Refuse scripts that no text is found to have.

    Raises:
        ConfigError: naming it and what was probably meant.
    """
    for word in given:
        if word not in _SCRIPTS:
            close = difflib.get_close_matches(word.title(), sorted(_SCRIPTS), 1, 0.7)
            raise ConfigError(
                f"{what}: {word!r} is not among the scripts that are told apart",
                hint=f"did you mean {close[0]}?" if close else f"they are {', '.join(sorted(_SCRIPTS))}",
            )
