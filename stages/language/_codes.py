"""Labels of language models as BCP 47: primary subtags, and tags with a script where a language has several.

Models name languages by ISO 639-1 (lid.176), or by ISO 639-3 and a script (GlotLID, OpenLID: ``cmn_Hani``, ``zho_Hans``).
BCP 47 takes the two-letter code where there is one; macrolanguages stand for their standard form (cmn and zho are zh).
"""

from __future__ import annotations

from typing import Final

UNDETERMINED: Final = "und"
_THREE_TO_TWO: Final = (
    "aar:aa abk:ab afr:af aka:ak amh:am ara:ar arg:an asm:as ava:av aym:ay aze:az bak:ba bam:bm bel:be ben:bn bis:bi bod:bo "
    "bos:bs bre:br bul:bg cat:ca ces:cs cha:ch che:ce chv:cv cor:kw cos:co cre:cr cym:cy dan:da deu:de div:dv dzo:dz ell:el "
    "eng:en epo:eo est:et eus:eu ewe:ee fao:fo fas:fa fij:fj fin:fi fra:fr fry:fy ful:ff gla:gd gle:ga glg:gl glv:gv grn:gn "
    "guj:gu hat:ht hau:ha heb:he her:hz hin:hi hmo:ho hrv:hr hun:hu hye:hy ibo:ig ido:io iii:ii iku:iu ile:ie ina:ia ind:id "
    "ipk:ik isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka kau:kr kaz:kk khm:km kik:ki kin:rw kir:ky kom:kv kon:kg "
    "kor:ko kua:kj kur:ku lao:lo lat:la lav:lv lim:li lin:ln lit:lt ltz:lb lub:lu lug:lg mah:mh mal:ml mar:mr mkd:mk mlg:mg "
    "mlt:mt mon:mn mri:mi msa:ms mya:my nau:na nav:nv nbl:nr nde:nd ndo:ng nep:ne nld:nl nno:nn nob:nb nor:nb nya:ny oci:oc "
    "oji:oj ori:or orm:om oss:os pan:pa pli:pi pol:pl por:pt pus:ps que:qu roh:rm ron:ro run:rn rus:ru sag:sg san:sa sin:si "
    "slk:sk slv:sl sme:se smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss sun:su swa:sw swe:sv tah:ty "
    "tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz "
    "ven:ve vie:vi vol:vo wln:wa wol:wo xho:xh yid:yi yor:yo zha:za zho:zh zul:zu "
    # Standard forms of macrolanguages, and dialects that data sets tag apart.
    "cmn:zh arb:ar arz:arz azj:az ekk:et gaz:om khk:mn kmr:ku lvs:lv npi:ne ory:or pbt:ps pes:fa plt:mg prs:fa quy:qu swh:sw "
    "uzn:uz ydd:yi zsm:ms als:sq fil:tl no:nb iw:he in:id ji:yi"
)
_CODES: Final = dict(pair.split(":") for pair in _THREE_TO_TWO.split())
#: ISO 639-1, of which BCP 47 takes its codes.
TWO_LETTERS: Final = frozenset(_CODES.values()) | {"ae", "cu", "hz", "sh"}
#: What lid.176 names after Wikipedia's editions, and codes that were replaced.
_NAMES: Final = {"als": "gsw", "bh": "bho", "no": "nb", "iw": "he", "in": "id", "ji": "yi", "wuu": "zh"}
#: Written in two or more scripts today: the tag says which.
_SEVERAL_SCRIPTS: Final = "zh yue lzh sr uz az kk mn pa ku tg tt ky tk ug ms ha sd ks bs sh crh rhg shi kab zgh"


def code_of(label: str) -> str:
    """The primary subtag that a model's label means."""
    language, separator, _ = label.replace("-", "_").partition("_")
    if separator or (len(language) == 3 and language not in _NAMES):
        return _CODES.get(language, language)
    return _NAMES.get(language, language)


def tag_of(code: str, script: str) -> str:
    """BCP 47 tag of a language and the script it is written in: zh-Hans, sr-Latn, en."""
    return f"{code}-{script}" if code in _SEVERAL_SCRIPTS.split() else code
