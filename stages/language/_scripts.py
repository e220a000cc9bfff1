"""Which languages are written in which script: what letters alone say about the language of a text.

A fastText model of a few megabytes is sometimes sure that a page of Chinese is Catalan because of three Latin words in it.
Its probabilities are therefore taken *given the script* that most letters of the sample are in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from stages.kernels.sample import (
    CANTONESE_LETTERS,
    CLASSICAL_LETTERS,
    HAN_LETTERS,
    KANA_LETTERS,
    MODERN_LETTERS,
    SCRIPT,
    SIMPLIFIED_LETTERS,
    TRADITIONAL_LETTERS,
)  # fmt: skip
from stages.kernels.script import HANI, SCRIPTS

#: Primary subtags of the languages that use each script; Latin and scripts not listed say nothing by themselves.
LANGUAGES: Final[Mapping[str, str]] = {
    "Hani": "zh yue wuu lzh gan hak nan cdo mnp hsn",
    "Jpan": "ja",
    "Kore": "ko",
    "Cyrl": "ru uk be bg sr mk mn kk ky tg tt ba cv os ab av ce cu kv koi krc lbe lez mhr mrj mdf myv rue sah tyv udm xal bxr "
    "az uz bs sh hr crh kbd ady inh tk ug kaa nog kum alt ckt gag ro cnr",
    "Grek": "el grc pnt",
    "Arab": "ar fa ur ps ckb arz azb mzn pnb sd ug ks pa ku az uz kk ky tg ha ms aeb acm ajp apc ars ary glk lki bal bqi skr "
    "tt tk prs rhg shi uzs",
    "Hebr": "he yi lad arc",
    "Armn": "hy hyw xcl",
    "Geor": "ka xmf sva lzz",
    "Syrc": "syr arc aii cld",
    "Thaa": "dv",
    "Nkoo": "nqo",
    "Deva": "hi mr ne sa mai bho gom new bh awa mag hne kok sd ks doi brx bgc raj bhb tdg dty pi",
    "Beng": "bn as bpy mni syl ctg",
    "Guru": "pa",
    "Gujr": "gu",
    "Orya": "or",
    "Taml": "ta",
    "Telu": "te",
    "Knda": "kn tcy",
    "Mlym": "ml",
    "Sinh": "si pi",
    "Thai": "th nod pi",
    "Laoo": "lo",
    "Tibt": "bo dz lad",
    "Mymr": "my shn mnw ksw",
    "Ethi": "am ti gez",
    "Cher": "chr",
    "Cans": "iu cr oj",
    "Khmr": "km",
    "Mong": "mn",
    "Tfng": "zgh shi kab ber tzm",
    "Yiii": "ii",
    "Olck": "sat",
    "Mtei": "mni",
    "Java": "jv",
    "Adlm": "ff",
    "Copt": "cop",
}
#: Languages that may also be written in Latin letters although they are listed above.
_ALSO_LATIN: Final = (
    "az uz bs sh hr sr tk crh gag ro ku kab ms ha kaa jv ff shi ber tzm lad nan hak cdo tt cr oj iu kok gom pi aeb rhg"
)


def allowed(codes: Sequence[str]) -> np.ndarray:
    """Bool array (scripts + 1, labels): whether a label's language is written in a script; the last row is Japanese."""
    names = [name for name, _ in SCRIPTS] + ["Jpan"]
    elsewhere = {code for listed in LANGUAGES.values() for code in listed.split()} - set(_ALSO_LATIN.split())
    table = np.ones((len(names), len(codes)), np.bool_)
    for row, name in enumerate(names):
        if name == "Latn":
            table[row] = [code not in elsewhere for code in codes]
        elif name in LANGUAGES:
            known = set(LANGUAGES[name].split())
            table[row] = [code in known for code in codes]
        if not table[row].any():
            table[row] = (
                True  # the model knows no language of this script, so the script cannot choose among its labels
            )
    return table


def dominant(facts: np.ndarray) -> np.ndarray:
    """Row of `allowed` for each sample, int array (n,): the script of most letters, Japanese where a tenth is kana."""
    han, kana = facts[:, HAN_LETTERS], facts[:, KANA_LETTERS]
    japanese = (facts[:, SCRIPT] == HANI) & (kana * 10 > han + kana)
    rows: np.ndarray = np.where(japanese, len(SCRIPTS), facts[:, SCRIPT]).astype(np.int64)
    return rows


def script_codes(facts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """ISO 15924 code of each sample, object array (n,): Chinese by the characters that only one of its forms has."""
    names = np.array([name for name, _ in SCRIPTS] + ["Jpan"], object)
    script: np.ndarray = names[rows]
    simplified, traditional = facts[:, SIMPLIFIED_LETTERS], facts[:, TRADITIONAL_LETTERS]
    script[(rows == HANI) & (simplified > traditional)] = "Hans"
    script[(rows == HANI) & (traditional > simplified)] = "Hant"
    return script


def chinese(facts: np.ndarray) -> np.ndarray:
    """zh, yue or lzh of each sample, object array (n,), by function words; to be used where the language is Chinese.

    Of 100 characters of Cantonese 3 to 19 are of its own particles, of other Chinese none. Modern prose has 2 to 15 of 的 了 们
    这 …, classical prose up to 2 of those and 2 to 25 of 之 其 也 者 … (measured on UDHR and on classical texts with their
    translations); what has little of either, such as verse, stays zh.
    """
    han = facts[:, HAN_LETTERS]
    modern, classical = facts[:, MODERN_LETTERS], facts[:, CLASSICAL_LETTERS]
    kind = np.full(len(facts), "zh", object)
    kind[(han >= 40) & (classical >= 3 * modern) & (100 * classical >= 3 * han)] = "lzh"
    kind[(han >= 8) & (100 * facts[:, CANTONESE_LETTERS] >= 3 * han)] = "yue"
    return kind
