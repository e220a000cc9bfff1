"""Words that tell running text from the furniture around it, in several languages, by hash.

`function_words`: the commonest words of each language; running text is full of them, menus are not. `furniture_words`: what
links, forms, share bars and legal lines say. Chinese and Japanese have no spaces, so single characters and pairs of
characters stand for words there.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from stages.kernels.html_tables import entity_hash, table

FUNCTION_WORDS: Final = (
    # English, German, French, Spanish, Italian, Portuguese, Dutch
    "the of and to a in is that for it on with as was at by be are this have from or an not they his he but we you i were been "
    "their has had which would there what when who will more if out so up said about than into could them can only other its",
    "der die das und in den von zu mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass sie nach "
    "wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr durch man",
    "le la les de des du et en un une que qui est dans pour pas au sur se ce il par plus avec ne sont cette aux ou mais son nous "
    "ont été comme leur elle ses tout être fait",
    "el los las del y que en un una por con para es se no al lo como más su sus pero le ya este ha sí porque esta entre cuando "
    "muy sin sobre también me hasta hay donde desde todo nos",
    "il lo gli di del della dei e che è per un una con non si da sono al nel alla anche più ma come ha dal su delle le questo",
    "o os as do da dos das e que em um uma para com não por mais se na no é ao como mas foi ele tem à seu sua ou quando muito",
    "het een van en op te dat die voor met niet zijn aan er om ook als bij dan nog naar uit maar wordt door werd hij had",
    # Swedish, Danish, Norwegian, Finnish, Polish, Czech, Hungarian, Romanian, Turkish
    "och att som på är av den med till det inte om har var för jag ett han men vi så kan",
    "og at er som på af den med til det ikke om har var for jeg et han men vi så kan der ikkje være blev",
    "ja on ei että se oli hän mutta ovat kun joka myös niin kuin ole tai",
    "i w nie na się z do to że jest o jak po co ale za od przez dla był tym są oraz jego już tego czy",
    "a v je se na že to s z do o i ve jako za si by pro jsou ale po od tak byl který jeho jsem",
    "a az és hogy nem is egy meg volt ez de csak van már mint még el ki ha",
    "și în de la cu pe nu a că din este mai pentru un o care au fost sau prin ca",
    "ve bir bu da de için ile çok ne ama daha olarak gibi olan en kadar var ya o her",
    # Russian, Ukrainian, Greek, Arabic, Hindi, Indonesian, Vietnamese, Korean
    "и в не на что с по как это он к но из у за от его для то а так же было бы мы все они она был о если только",
    "і в не на що з до як це він та але за від його для у був про які вона",
    "και το να του η της με που την από για είναι στο τα οι στην δεν θα ως",
    "في من على أن إلى عن مع هذا التي ما هذه لا كان قد الذي بين كما",
    "के में की है और को से का पर ने यह कि भी हैं एक था",
    "yang dan di dengan untuk dari ini itu pada tidak dalam adalah akan ke oleh sebagai juga",
    "và của là có trong cho không được với các một người những này đã",
    "이 그 및 수 것 등 더 할 있는 한 에 은 는 을 를",
)
#: Characters, one a word, of Chinese and Japanese.
FUNCTION_CHARACTERS: Final = (
    "的了是在不有我他这這就也都而及与與着著或之们們你她它把被让讓从從但很啊呢吗嗎のはをにがともでしたなれるてい"
)
FURNITURE_WORDS: Final = (
    "subscribe subscription newsletter sign signup login log register comment comments reply share follow tweet facebook twitter "
    "instagram whatsapp linkedin pinterest email print advertisement sponsored related recommended copyright reserved privacy "
    "terms policy cookies cookie contact click menu search home skip password username account cart shop download read next "
    "previous tags tagged posted published updated filed author by photo image credit getty reuters ap loading javascript "
    "browser enable trending popular latest newsletters apps rss sitemap help faq careers advertise about us ©",
    "anmelden abonnieren teilen kommentare datenschutz impressum anzeige mehr lesen suche startseite kontakt agb foto quelle",
    "connexion partager commentaires inscription abonner publicité lire aussi mentions légales confidentialité accueil recherche",
    "suscribir suscribirse compartir comentarios publicidad iniciar sesión registrarse leer aviso privacidad inicio buscar",
    "condividi commenti pubblicità accedi registrati leggi privacy cerca",
    "compartilhar comentários publicidade entrar assine leia mais política privacidade busca",
    "поделиться комментарии реклама войти регистрация читать также подписаться поиск главная фото контакты",
)
#: Pairs of characters.
FURNITURE_PAIRS: Final = (
    "版权 所有 责任 编辑 来源 推荐 阅读 相关 更多 评论 分享 登录 注册 关注 微信 扫码 转载 声明 广告 下载 "
    "客户 首页 上一 下一 返回 热门 标签 作者 发布 "
    "收藏 打印 订阅 联系 搜索 点击 举报 回复 "
    "點擊 版權 編輯 來源 推薦 閱讀 相關 評論 登入 註冊 關注 轉載 廣告 下載 首頁 "
    "熱門 標籤 發布 訂閱 聯絡 搜尋 "
    "関連 記事 続き 共有 著作 利用 規約 検索 会員 購読 広告"
)


#: 64 minus the logarithm of the table's slots.
WORD_HASH_SHIFT: Final = 52


def pair_hash(first: int, second: int) -> int:
    """Two code points as one key that no word has."""
    return (first << 21 | second) | 1 << 62


@cache
def word_hashes() -> np.ndarray:
    """Hash of a word in small letters (FNV-1a over UTF-8), of a character or of a pair -> 1 function word, 2 furniture."""
    items = [(entity_hash(w.encode()), 1) for line in FUNCTION_WORDS for w in line.split()]
    items += [(pair_hash(0, ord(c)), 1) for c in FUNCTION_CHARACTERS]
    items += [(entity_hash(w.encode()), 2) for line in FURNITURE_WORDS for w in line.split()]
    items += [(pair_hash(ord(p[0]), ord(p[1])), 2) for p in FURNITURE_PAIRS.split()]
    return table(items, 4096, merge=True)
