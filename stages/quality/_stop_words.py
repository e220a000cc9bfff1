"""The commonest function words of languages: text in a language holds them, word lists and keyword spam do not.

English is the list of Gopher (Rae et al. 2021, A.1.1). The others were chosen the same way for this project: articles,
conjunctions, prepositions and forms of "to be" that any page of running text contains; at most 64 a language.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from stages.kernels.buffers import text_buffers
from stages.kernels.stop_words import StopWords, build_stop_words
from stages.kernels.words import LANGUAGE_UNITS, word_table

LISTS: Final[Mapping[str, str]] = {
    "af": "die en van in is het nie dat wat om vir met as was sy hy 'n",
    "ar": "في من على أن إلى عن مع هذا التي الذي ما لا كان هو هذه بين",
    "bg": "и на в за да се от не с по са е че като това до",
    "bn": "এবং ও করে এই থেকে হয় জন্য একটি যে তার না কিন্তু সঙ্গে করা",
    "ca": "de la i el que en els les un una per a amb del és no",
    "cs": "a v se na je že s z o do to jako i by pro ve",
    "da": "og i at er en det til på som af for de den med ikke et",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als",
    "el": "και το της η να του με για που από την τα στην δεν είναι οι",
    "en": "the be to of and that have with",
    "eo": "la de kaj en al estas por ne kiu kun de ĝi sed oni",
    "es": "de la que el en y a los se del las un por con no una su para es al",
    "et": "ja on ei et kui see ka oma aga või ning oli mis selle",
    "eu": "eta da ez bat du izan dira ere zuen baina egin den bere",
    "fa": "و در به از که این را با است برای آن یک می خود تا بر",
    "fi": "ja on ei se että oli hän mutta kun ovat myös joka tai kuin",
    "fr": "de la le et les des en un une du est que dans qui pour au pas sur ne par",
    "gl": "de a o que e do da en un para unha con por os no non",
    "he": "של את על לא הוא זה עם כי היא גם אם או אל כל",
    "hi": "के में की है और से का को पर हैं यह कि भी नहीं एक ने",
    "hr": "i u je se na da su za od s ne a o koji kao bi",
    "hu": "a az és hogy nem is egy ez de van volt meg csak mint el vagy",
    "id": "dan yang di dari ini untuk dengan pada dalam tidak adalah itu akan ke oleh juga",
    "is": "og að í á er sem til um var við en ekki með það",
    "it": "di e il la che in un a per è una non con del si le da i dei al",
    "ja": "の に は を た が で て と し れ さ な も る い",
    "la": "et in est non ad ut cum de ex per sed quod qui a",
    "lt": "ir į yra kad su iš kaip tai ne o bet už buvo jo",
    "lv": "un ir ar no par uz ka kas tas bija to kā arī vai",
    "mk": "и на во се да од за не со е што ќе како по",
    "ms": "dan yang di ini dengan untuk dari itu pada tidak adalah dalam akan kepada oleh",
    "nb": "og i er på det som en til av for at med de den har ikke",
    "nl": "de van een het en in is dat op te met voor zijn niet aan er die als door",
    "nn": "og i er på det som ein til av for at med dei den har ikkje",
    "no": "og i er på det som en til av for at med de den har ikke",
    "pl": "i w na z się do nie że to jest o jak po od za co",
    "pt": "de a o que e do da em um para com não uma os no se na por mais as",
    "ro": "de și în a la cu pe nu din care un o este să se mai",
    "ru": "и в не на что с по как это к из он но у за от",
    "sk": "a v na sa je že s z o do to ako i by pre vo",
    "sl": "in je v se na da so za ne ki z pa s bi",
    "sq": "e të në dhe një për me që nga është si nuk u i",
    "sr": "и у је се на да су за од i u je se na da su za od",
    "sv": "och i att det som en på är av för med den till inte ett de",
    "sw": "ya na wa kwa ni za katika la kuwa hii cha kama yake lakini",
    "tl": "ang ng sa na mga at ay si hindi ito para may ni kung",
    "tr": "ve bir bu da de için ile olarak çok daha ne gibi ama olan o en",
    "uk": "і в не на що з до як це та у за від він але й",
    "ur": "کے میں کی ہے اور سے کا کو پر یہ کہ بھی نہیں ایک نے",
    "vi": "và của là có cho không được trong một với các những người này đã để",
    "zh": "的 了 是 不 我 他 她 它 这 這 那 也 就 着 和 在 有 之 以 其 而 于 於 者 与 與 则 則 为 為 被 把 都 很 但 又 "
    "们 們 呢 吗 嗎 吧 没 沒 却 卻 还 還 所 并 並 或 你 将 將 此 该 該 若",
}


@cache
def stop_words() -> StopWords:
    """The lists as kernels take them: case ignored, split into the word units of their languages."""
    languages = [code for code in LISTS if code in LANGUAGE_UNITS]
    variants: list[str] = []
    for code in languages:
        words = list(dict.fromkeys(LISTS[code].split()))
        variants.extend(" ".join(f(w) for w in words) for f in (str.lower, str.title, str.upper))
    units = np.repeat(np.array([LANGUAGE_UNITS[code] for code in languages], np.uint8), 3)
    first, table = word_table(text_buffers(pa.array(variants, pa.large_string())), units)
    return build_stop_words(tuple(languages), first, table.hash, table.chars)
