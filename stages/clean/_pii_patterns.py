"""Patterns of personal data, each tried only where `stages.kernels.pii` saw a reason to.

All are linear: no nested repetition, and the text they run on is a window of a few hundred characters. They see full-width
characters as ASCII and no invisible ones (`stages.clean._pii_find` maps places back).
"""

from __future__ import annotations

import re
from typing import Final


def _words(text: str) -> list[str]:
    return text.split()


def _any_of(hints: list[str]) -> re.Pattern[bytes]:
    """Any of some lower-case words as bytes, for text in lower case: that is five times quicker than to ignore case."""
    return re.compile(b"|".join(re.escape(hint.encode()) for hint in hints))


_BLANK = r"[ \t\u00a0]"

# ---- e-mail -------------------------------------------------------------------------------------------------------------

#: RFC 5322 dot-atoms as people use them. A host's last label must be a country's two letters or in TOP_LEVEL.
EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9_][A-Za-z0-9._%+'-]{0,63}@"
    r"((?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,6}[A-Za-z]{2,24})(?![A-Za-z0-9-]|\.[A-Za-z0-9])"
)
#: Names in front of the at sign of version control addresses (git@host:path).
NOT_PEOPLE: Final = frozenset(("git", "hg", "svn", "cvs", "gitolite"))
TOP_LEVEL: Final = frozenset(
    _words(
        "com net org edu gov mil int info biz name pro aero coop museum mobi travel jobs cat tel asia post xyz online "
        "site shop top club vip work live email cloud tech store blog life world today space fun art icu link page wiki "
        "news media agency company solutions services group global systems network digital software design studio academy "
        "center school university education institute foundation health care hospital clinic dental law legal finance "
        "bank insurance capital ventures ltd inc llc gmbh berlin hamburg wien london paris nyc tokyo amsterdam moscow dev "
        "app one plus social games team guru expert international technology computer engineering consulting marketing "
        "photography support tools community church events earth ngo ong eco bio farm garden green energy"
    )
)
#: Two-letter endings that are no country's: files (icon@2x.js) and code.
NOT_TOP_LEVEL: Final = frozenset(("js", "ts", "py", "rb", "hs", "cc", "hh", "gz", "xz", "db", "ui", "qt", "vb", "7z"))

#: "name at host dot com", "name [at] host.com", "name(at)host(dot)com".
_SPELLED_AT = r"(?:[ ]at[ ]|[ ]?[\[({<][ ]?(?:at|@)[ ]?[\])}>][ ]?)"
_SPELLED_DOT = r"(?:[ ]dot[ ]|[ ]?[\[({<][ ]?(?:dot|\.)[ ]?[\])}>][ ]?|\.)"
SPELLED_EMAIL: Final = re.compile(
    rf"(?i)(?<![\w.+-])([a-z0-9_](?:[a-z0-9._+-]{{0,62}}[a-z0-9_])?){_SPELLED_AT}"
    rf"([a-z0-9][a-z0-9-]{{0,62}})((?:{_SPELLED_DOT}[a-z0-9][a-z0-9-]{{0,62}}){{0,3}}){_SPELLED_DOT}([a-z]{{2,12}})(?![\w-])"
)
MAIL_CUE: Final = re.compile(r"(?i)(?:e-?mail|mail|contact|write|reach|address|邮箱|邮件|郵箱|郵件|联系)[^\n]{0,60}$")
MAIL_HOSTS: Final = frozenset(
    _words(
        "gmail googlemail yahoo hotmail outlook live msn aol icloud me protonmail proton gmx web mail yandex rambler qq "
        "163 126 sina sohu foxmail naver daum hanmail"
    )
)

# ---- numbers ------------------------------------------------------------------------------------------------------------

CARD: Final = re.compile(
    r"(?<![\d.,+-])(?<!\d )(?:\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{0,7}|\d{4}[ -]?\d{6}[ -]?\d{4,5})(?!\d|[.,]\d|-\d| \d)"
)
CARD_CUE: Final = re.compile(
    r"(?i)(?:\bcard|\bcc\b|credit|debit|visa|master|amex|卡号|卡號|银行卡|銀行卡|信用卡)[^\n]{0,40}$"
)
CHINESE_ID: Final = re.compile(r"(?<![\dA-Za-z.,_-])[1-8]\d{16}[\dXx](?![\dA-Za-z_-]|[.,]\d)")
SSN: Final = re.compile(r"(?a)(?<![\d.+-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-]|\.\d)")
BARE_SSN: Final = re.compile(r"(?a)(?<![\d.+-])(?!000|666|9)\d{3}[ ]?(?!00)\d{2}[ ]?(?!0000)\d{4}(?![\d-]|\.\d)")
SSN_CUE: Final = re.compile(r"(?i)(?:\bssn\b|social security)[^\n]{0,30}$")
IPV4: Final = re.compile(r"(?a)(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\w)")
IP_CUE: Final = re.compile(
    r"(?i)(?:\b(?:ip(?:v4)?|dns|ping|ssh)\b|\b(?:ip|mac)?address|\b(?:host|server|client|gateway)|"
    r"nameserver|https?://|地址|主机|服务器)[^\n]{0,40}\Z"
)
VERSION_CUE: Final = re.compile(
    r"(?i)(?:version|versions|release|\bver\.?|\bv|revision|section|sections|chapter|oid|clause|§|版本|第)\s?$"
)

INTERNATIONAL: Final = re.compile(
    rf"(?a)(?<![\w+.])\+{_BLANK}?\(?\d(?:[-.()/]|{_BLANK}){{0,3}}(?:\d(?:[-.()/]|{_BLANK}){{0,3}}){{5,13}}\d(?!\d)"
)
#: Formatted as in North America: (579)888-3058, 905-674-3793, 905.674.3793.
NORTH_AMERICAN: Final = re.compile(
    rf"(?a)(?<![\w.+-])(?:1[-. ])?(?:\([2-9]\d\d\){_BLANK}?[2-9]\d\d[-. ]|[2-9]\d\d-[2-9]\d\d-)\d{{4}}(?![\d-]|\.\d)"
)
CHINESE_MOBILE: Final = re.compile(
    r"(?<![\d.,_A-Za-z-])(?:86[- ]?)?1[3-9]\d(?:\d{8}|[- ]\d{4}[- ]\d{4}|[- ]\d{3}[- ]\d{5})(?!\d|[.,_-]\d|[A-Za-z_])"
)
CHINESE_LANDLINE: Final = re.compile(
    r"(?<![\d.,_A-Za-z-])(?:\(0\d{2,3}\)|0\d{2,3}[- ]?)[2-8]\d{6,7}(?:[- ]\d{1,5})?(?!\d|[.,_-]\d|[A-Za-z_])"
)
#: A number behind or before a cue: groups of digits in any national layout.
CUED: Final = re.compile(
    rf"(?a)(?<![\w.])(?<!\d,)\(?\+?\d(?:[-.()/]|{_BLANK}){{0,3}}(?:\d(?:[-.()/]|{_BLANK}){{0,3}}){{5,14}}\d(?!\d|[.,:]\d)"
)
PHONE_CUE: Final = re.compile(
    r"(?i)(?:(?:\b(?:telephones?|phones?|phone number|hotline|whatsapp|answering at|messages? to|telefon|telefax|telefono|"
    r"teléfono|téléphone|rufnummer|puhelin|telefone|telemóvel|telefoon)\b|"
    r"телефон|电话|電話|手机|手機|致电|致電|传真|傳真|联系方式|聯繫方式|热线|熱線|座机|拨打|撥打|微信|☎|📞|📱|℡)"
    r"[^\d\n]{0,24}\n?[^\d\n]{0,4}"
    r"|\b(?:tel|tele|ph|fax|mobile|mob|cell|cellphone|sms|gsm|móvil|movil|celular|portable|handy|mobil|тел|моб)\b"
    r"(?:[ ](?:no|nr|number)\b)?[ .:#/()-]{0,4}\n?[ ]{0,4}"
    r"|\b(?:call|called|calling|dial|reach|office|desk|home|work|registered|text|ring)\b"
    r"(?:[ ](?:me|us|him|her|them|at|on|my|the|number|no)\b){0,4}[ :#.]{0,3})$"
)
#: Lower-case pieces of the cues: most candidates have none near them, and this is ten times quicker to find out.
PHONE_HINTS: Final = _any_of(
    _words(
        "tel phon fax mob cell call dial sms gsm whats hotline reach answering regist office desk home work text ring "
        "messag portab handy móvil celul rufnum puhel ph тел моб 电 電 手机 手機 致 传 傳 联 聯 热线 熱線 座机 拨 撥 微信 "
        "☎ 📞 📱 ℡"
    )
)
OTHER_HINTS: Final = _any_of(
    _words("pass pasa 护照 護照 旅券 lat lon gps coord loca geo posit 坐标 经纬 經緯 定位 度 °")
)
SECRET_HINTS: Final = _any_of(["secret", "token", "passw", "pwd", "key", "auth", "credential", "密", "令牌"])
#: First bytes of tokens that may be keys or addresses by themselves.
TOKEN_STARTS: Final = (
    b"AKIA ASIA AROA AIDA gh github_ glpat- xox AIza ya29. sk_ rk_ pk_ sk- SG. hf_ npm_ pypi- dop_ LTAI AKID eyJ 0x 1 3 bc1 BC1"
).split()
PHONE_AFTER: Final = re.compile(r"(?i)\s?[-,(]?\s?(?:\(|\\,)?(?:office|fax|mobile|cell|work|home|desk|tel|phone)\b")
DATE: Final = re.compile(
    r"(?:(?:1[89]|20)\d\d[-/. ](?:0?[1-9]|1[0-2])[-/. ](?:0?[1-9]|[12]\d|3[01])|"
    r"(?:0?[1-9]|[12]\d|3[01])[-/. ](?:0?[1-9]|[12]\d|3[01])[-/. ](?:1[89]|20)\d\d)(?!\d)"
)
HAN: Final = re.compile(r"[\u4e00-\u9fff]")

COORDINATES: Final = re.compile(
    r"(?<![\d.])([-+−]?\d{1,2}\.\d{3,10})°?[ ]?([NSns]?)[ ]?[,;，/ ][ ]?([-+−]?\d{1,3}\.\d{3,10})°?[ ]?([EWew]?)(?![\d.])"
)
SEXAGESIMAL: Final = re.compile(
    r"\d{1,2}°[ ]?\d{1,2}['′’][ ]?(?:\d{1,2}(?:\.\d{1,4})?[\"″”][ ]?)?[NS][ ,;]{1,3}\d{1,3}°[ ]?\d{1,2}['′’][ ]?"
    r"(?:\d{1,2}(?:\.\d{1,4})?[\"″”][ ]?)?[EW]"
)
PLACE_CUE: Final = re.compile(
    r"(?i)(?:\blat|\blon|\bgps\b|coord|location|\bgeo|position|坐标|经纬|經緯|定位|纬度|经度)[^\n]{0,30}$"
)

PASSPORT: Final = re.compile(r"(?a)(?<![\w-])(?:[A-Z]{1,2}\d{7,8}|[A-Z]\d{2}[A-Z]{2}\d{4}|\d{8,9})(?![\w-])")
PASSPORT_CUE: Final = re.compile(
    r"(?i)(?:passport|reisepass|passeport|pasaporte|passaporto|护照|護照|旅券)[^\n]{0,40}$"
)

# ---- colons, tokens -----------------------------------------------------------------------------------------------------

IPV6: Final = re.compile(r"(?a)(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:]|\.\d)")
MAC: Final = re.compile(
    r"(?a)(?<![\w:-])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:-])|(?<![\w:-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![\w:-])"
)
IBAN: Final = re.compile(
    r"(?i)(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[A-Z0-9]{11,30}|(?:[ -][A-Z0-9]{4}){2,7}(?:[ -][A-Z0-9]{1,3})?)(?![A-Za-z0-9])"
)
IBAN_CUE: Final = re.compile(r"(?i)iban[^\n]{0,30}$")
BITCOIN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:[13][1-9A-HJ-NP-Za-km-z]{25,34}|(?:bc|BC)1[02-9A-Za-z]{11,71})(?![A-Za-z0-9])"
)
ETHEREUM: Final = re.compile(r"(?<![A-Za-z0-9])0x[0-9A-Fa-f]{40}(?![A-Za-z0-9])")
#: Keys that say by their prefix what they are.
KNOWN_SECRET: Final = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"(?:AKIA|ASIA|AROA|AIDA)[A-Z2-7]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{22,251}|glpat-[A-Za-z0-9_-]{20}"
    r"|xox[abposr]-[A-Za-z0-9-]{10,120}|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,120}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,120}|sk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,200}|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"
    r"|hf_[A-Za-z0-9]{30,60}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,200}|dop_v1_[a-f0-9]{64}|LTAI[A-Za-z0-9]{12,20}|AKID[A-Za-z0-9]{13,40}"
    r"|eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,2000}"
    r")(?![A-Za-z0-9])"
)
CUED_SECRET: Final = re.compile(r"[A-Za-z0-9+/_-]{16,128}={0,2}(?![A-Za-z0-9+/_=-])")
SECRET_CUE: Final = re.compile(
    r"(?i)(?:secret|token|passw(?:or)?d|pwd|api[_ -]?key|access[_ -]?key|auth|credential|private[_ -]?key|密钥|密码|令牌)"
    r"[\w.-]{0,20}['\"]?\s?(?:[:=：]|=>|\bis\b|为|是)\s?['\"]?$"
)
PRIVATE_KEY_END: Final = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
PRIVATE_KEY_BEGIN: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")

# ---- licence plates -----------------------------------------------------------------------------------------------------

#: GA 36-2018: province, issuing authority, five characters (letters without I and O), or six for new-energy vehicles.
PROVINCES: Final = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"
PLATE: Final = re.compile(
    rf"[{PROVINCES}][A-HJ-NP-Z][·•・. -]?"
    r"(?:[DF][A-HJ-NP-Z0-9]\d{4}|\d{5}[DF]|[A-HJ-NP-Z0-9]{4}[A-HJ-NP-Z0-9挂学警港澳])(?![A-Za-z0-9])"
)
