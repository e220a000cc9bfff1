"""access.url: registered domains by the public suffix list, and what block and allow lists name."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from corpusflow import ConfigError, check_stage
from corpusflow.rules import evaluate
from stages.access import url as url_module
from stages.access._lists import punycode
from stages.access.url import Url, UrlFilter, UrlScore
from stages.kernels.buffers import text_buffers
from stages.kernels.urls import look_up, new_table

SUFFIXES = Path(url_module.__file__).parent / "models" / "public_suffix_list.dat.gz"


def score(urls: list[str | None], **params: Any) -> dict[str, list[Any]]:
    batch = pa.record_batch([pa.array(urls, pa.string())], names=["url"])
    made: dict[str, list[Any]] = UrlScore(**params).score(batch).to_pydict()
    return made


def reasons(urls: list[str | None], **params: Any) -> list[str | None]:
    """Why each address is dropped."""
    measure, rules = Url(**params).expand()
    assert isinstance(measure, UrlScore)
    assert isinstance(rules, UrlFilter)
    made = measure.score(pa.record_batch([pa.array(urls, pa.string())], names=["url"]))
    columns = {c: made.column(c) for c in made.schema.names}
    first = evaluate(rules.rules(), columns, len(urls)).first.tolist()
    return [rules.rules()[i].reason if i >= 0 else None for i in first]


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://www.example.org/a", "example.org"),
        ("HTTP://News.BBC.co.uk:8080/x?y", "bbc.co.uk"),
        ("https://co.uk/", None),
        ("https://www.gov.uk/browse", "www.gov.uk"),
        ("https://user:p@ss@a.b.example.com/@me", "example.com"),
        ("//cdn.example.net", "example.net"),
        ("example.net/path", "example.net"),
        ("https://example.org.", "example.org"),
        ("https://example.org?q=//other.net", "example.org"),
        ("https://example.org#//other.net/", "example.org"),
        ("https://a.b.c.kobe.jp/", "b.c.kobe.jp"),
        ("https://c.kobe.jp/", None),
        ("https://www.city.kobe.jp/", "city.kobe.jp"),
        ("https://a.b.ide.kyoto.jp/", "b.ide.kyoto.jp"),
        ("https://www.ck/", "www.ck"),
        ("https://a.www.ck/", "www.ck"),
        ("https://shop.unlisted-tld/", "shop.unlisted-tld"),
        ("https://localhost/", None),
        ("https://192.0.2.7:81/x", "192.0.2.7"),
        ("https://[2001:db8::1]:80/", "[2001:db8::1]"),
        ("https://食狮.公司.cn/", "食狮.公司.cn"),
        ("https://www.xn--85x722f.xn--55qx5d.cn/", "xn--85x722f.xn--55qx5d.cn"),
        ("https://me.github.io/", "github.io"),
        ("  https://example.org/  ", "example.org"),
        ("mailto:someone", None),
        ("https:///nothing", None),
        ("", None),
        (None, None),
    ],
)
def test_registered_domain(url: str | None, domain: str | None) -> None:
    assert score([url])["url.domain"] == [domain]


def test_private_suffixes_on_request() -> None:
    urls = ["https://me.github.io/", "https://github.io/", "https://x.s3.amazonaws.com/a", "https://a.co.uk"]
    assert score(urls, private_suffixes=True)["url.domain"] == ["me.github.io", None, "x.s3.amazonaws.com", "a.co.uk"]


def read_rules(*, private: bool) -> set[str]:
    text = gzip.decompress(SUFFIXES.read_bytes()).decode()
    if not private:
        text = text.partition("===BEGIN PRIVATE DOMAINS===")[0]
    return {line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("//")}


def by_the_book(host: str, rules: set[str]) -> str | None:
    """The algorithm as publicsuffix.org words it: of all matching rules an exception, else the longest."""
    labels = host.split(".")
    n = 1
    for i in range(len(labels)):
        tail = labels[i:]
        if "!" + ".".join(tail) in rules:
            return ".".join(labels[i:])
        if ".".join(tail) in rules or ".".join(["*", *tail[1:]]) in rules:
            n = max(n, len(tail))
    return ".".join(labels[-n - 1 :]) if len(labels) > n else None


@pytest.mark.parametrize("private", [False, True])
def test_every_rule_of_the_list(private: bool) -> None:
    """Two hosts below each rule, and the rule itself, as the algorithm's own words have it."""
    rules = read_rules(private=private)
    rng = random.Random(4)
    hosts = []
    for rule in sorted(read_rules(private=True)):
        name = rule.lstrip("!").replace("*", rng.choice(["x", "www", "a-b"]))
        hosts += [name, f"{rng.choice(['www', 'm', 'blog'])}.{name}", f"a.{rng.choice(['b', 'www'])}.{name}"]
    expected = [by_the_book(h, rules) for h in hosts]
    assert score([f"https://{h}/" for h in hosts], private_suffixes=private)["url.domain"] == expected
    foreign = [(punycode(h), e) for h, e in zip(hosts, expected, strict=True) if not h.isascii()]
    assert len(foreign) > 300
    got = score([f"https://{h}/" for h, _ in foreign], private_suffixes=private)["url.domain"]
    assert got == [None if e is None else punycode(e) for _, e in foreign]


@pytest.fixture
def ut1(tmp_path: Path) -> str:
    """Lists in the form of the UT1 collection: a folder a category."""
    files = {
        "adult/domains": "bad.example\nboth.example\n192.0.2.9\n",
        "adult/urls": "mixed.example/adult\nwww.mixed.example:80/Rooms/\nmixed.example:8080/p\n",
        "adult/usage": "bad\n",
        "games-online/domains.gz": "play.example\nboth.example\nmünchen.example\n",
        "games-online/words": "casino # of any kind\nPoker\n",
    }
    for name, text in files.items():
        path = tmp_path / "lists" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return str(tmp_path / "lists")


def test_categories_are_reasons(ut1: str) -> None:
    cases = {
        "https://bad.example/": "url_blocked_adult",
        "https://WWW.Sub.Bad.Example:81/x": "url_blocked_adult",
        "https://notbad.example/": None,
        "https://bad.example.org/": None,
        "http://192.0.2.9/": "url_blocked_adult",
        "https://both.example/": "url_blocked_adult",
        "https://play.example/": "url_blocked_games_online",
        "https://münchen.example/": "url_blocked_games_online",
        "https://xn--mnchen-3ya.example/": "url_blocked_games_online",
        "https://mixed.example/": None,
        "https://mixed.example/adult": "url_blocked_adult",
        "https://www.mixed.example/adult/more?x=1": "url_blocked_adult",
        "https://mixed.example/adult?x=1": "url_blocked_adult",
        "https://mixed.example/adults": None,
        "https://mixed.example/rooms/7": "url_blocked_adult",
        "https://mixed.example:443/adult#top": "url_blocked_adult",
        "https://mixed.example:8080/p/q": "url_blocked_adult",
        "https://mixed.example/p/q": None,
        "https://ok.example/the-CASINO-page": "url_words_games_online",
        "https://poker.example/": "url_words_games_online",
        "https://ok.example/casinos": None,
        "https://ok.example/x#casino": None,
    }
    assert dict(zip(cases, reasons(list(cases), lists=ut1), strict=True)) == cases


def test_the_order_of_categories_decides(ut1: str) -> None:
    urls: list[str | None] = ["https://both.example/", "https://bad.example/"]
    assert reasons(urls, lists=ut1, categories=("games_online", "adult"))[0] == "url_blocked_games_online"
    assert reasons(urls, lists=ut1, categories=("games_online",)) == ["url_blocked_games_online", None]


def test_words_are_counted(ut1: str) -> None:
    urls: list[str | None] = ["https://a.example/casino", "https://casino.example/poker?q=poker", None]
    made = score(urls, lists=ut1, words=("poker", "slots"))
    assert made["url.words"] == [1, 3, 0]
    assert made["url.word_list"] == ["games_online", "games_online", None]
    assert reasons(urls, lists=ut1, max_words=1) == [None, "url_words_games_online", None]
    assert reasons(urls, words=("casino",)) == ["url_words_config", "url_words_config", None]


def test_plain_lists_and_entries(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(
        "# a hosts file\n0.0.0.0 ads.example\n127.0.0.1\ttrack.example # x\n||pop.example^$third-party\n! ad blockers\n"
        "https://site.example/private/\n\n*.wild.example\n"
    )
    urls: list[str | None] = [
        "https://ads.example/", "https://a.track.example/", "https://pop.example/x", "https://site.example/private/1",
        "https://site.example/", "https://b.wild.example", "https://one.example/", "https://a.zz/", "https://a.co.yy/",
        "https://yy/", "https://good.ads.example/", "https://ads.example/press/1",
    ]  # fmt: skip
    got = reasons(
        urls,
        block_list=str(tmp_path / "hosts"),
        block=("one.example",),
        block_tlds=("zz", ".co.yy"),
        allow=("good.ads.example", "ads.example/press"),
    )
    one = "url_blocked_list"
    assert got == [
        one, one, one, one, None, one, "url_blocked_config", "url_blocked_tld", "url_blocked_tld", None, None, None
    ]  # fmt: skip


def test_only_what_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "allow.gz").write_bytes(gzip.compress(b"a.example\nb.example/docs\n", mtime=0))
    urls: list[str | None] = ["https://x.a.example", "https://b.example/docs/1", "https://b.example/", None]
    no = "url_not_allowed"
    assert reasons(urls, allow_list=str(tmp_path / "allow.gz"), only_allowed=True) == [None, None, no, no]
    with pytest.raises(ConfigError, match="only_allowed"):
        Url(only_allowed=True)


def test_lists_that_cannot_be_read(tmp_path: Path, ut1: str) -> None:
    with pytest.raises(ConfigError, match=r"has no 'games'"):
        Url(lists=ut1, categories=("games",)).expand()
    with pytest.raises(ConfigError, match="not given"):
        Url(categories=("adult",)).expand()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no lists"):
        Url(lists=str(tmp_path / "empty")).expand()
    (Path(ut1) / "adult" / "words").write_text("fine\nnot fine\n")
    with pytest.raises(ConfigError, match=r"words:2: 'not fine' is not one word"):
        score(["https://a.example"], lists=ut1)
    (Path(ut1) / "adult" / "domains.gz").write_bytes(b"\x1f\x8bgarbage")
    with pytest.raises(ConfigError, match=r"domains and domains\.gz"):
        Url(lists=ut1).expand()
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8bgarbage")
    with pytest.raises(ConfigError, match="not a gzip file"):
        score(["https://a.example"], block_list=str(tmp_path / "bad.gz"))
    long = gzip.compress("\n".join(f"host{i}.example" for i in range(80_000)).encode())
    for size in (len(long) // 2, len(long) - 1):
        (tmp_path / "cut.gz").write_bytes(long[:size])
        with pytest.raises(ConfigError, match="cut off"):
            score(["https://a.example"], block_list=str(tmp_path / "cut.gz"))
    (tmp_path / "none").write_text("// nothing\n")
    with pytest.raises(ConfigError, match="no public suffix"):
        score(["https://a.example"], suffixes=str(tmp_path / "none"))


def test_a_long_gzipped_list_is_read_to_its_end(tmp_path: Path) -> None:
    """Several blocks, several members, a last line without its newline."""
    lines = [f"host{i}.example" for i in range(80_000)]
    members = [b"".join(f"{x}\n".encode() for x in lines[:45_000]), "\n".join(lines[45_000:]).encode()]
    padding = bytes(3_000_000)  # as storage in blocks adds it
    (tmp_path / "list.gz").write_bytes(b"".join(gzip.compress(m, 1, mtime=0) + padding for m in members))
    urls: list[str | None] = [f"https://{x}/" for x in lines]
    params = {"block_list": str(tmp_path / "list.gz")}
    assert set(reasons(urls, **params)) == {"url_blocked_list"}
    assert set(reasons([f"https://host{i}.example/" for i in range(80_000, 90_000)], **params)) == {None}


def test_a_million_entries_are_small() -> None:
    table = new_table(1_000_000)
    assert table.keys.nbytes + table.values.nbytes < 30e6


def test_sliced_and_empty_columns() -> None:
    urls = pa.array(["https://x.example/", "https://b.example/", None, "https://a.example/"]).slice(1, 2)
    lists, _ = UrlScore(block=("b.example",)).open()
    found = look_up(text_buffers(urls), lists.block, lists.allow, len(lists.names))
    assert found.blocked.tolist() == [1, 0]
    assert score([])["url.domain"] == []


def test_the_normalised_address_on_request() -> None:
    urls: list[str | None] = ["HTTPS://www.A.example/b/?utm_source=x&c=1#d", None]
    assert "url.normalised" not in score(urls)
    assert score(urls, normalised=True)["url.normalised"] == ["a.example/b?c=1", None]


def test_contract(ut1: str) -> None:
    check_stage(Url())
    check_stage(
        Url(lists=ut1, block=("example.org/3",), words=("q",), allow=("example.org/6",), gate=False, normalised=True)
    )
