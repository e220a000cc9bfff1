"""WARC files, written record by record: one gzip member each, in the habits of four different crawlers."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import struct
import uuid
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from .common import LANGUAGES, WARCS, number
from .pages import Page
from .render import Renderer, body_bytes

EPOCH = dt.datetime(2024, 3, 18, 4, 0, 0, tzinfo=dt.UTC)
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "corpusflow/sample_data")


def gzip_member(data: bytes) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflate.compress(data) + deflate.flush()
    return b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)


def digest(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()


def record_id(*parts: object) -> str:
    return f"<urn:uuid:{uuid.uuid5(NAMESPACE, '|'.join(map(str, parts)))}>"


def record(kind: str, block: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = ["WARC/1.1", f"WARC-Type: {kind}", *(f"{k}: {v}" for k, v in headers), f"Content-Length: {len(block)}"]
    return gzip_member("\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n")


def chunked(data: bytes, seed: str) -> bytes:
    out, at = [], 0
    while at < len(data):
        size = 1024 + number(f"chunk/{seed}/{at}", 7168)
        piece = data[at : at + size]
        out.append(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        at += size
    return b"".join(out) + b"0\r\n\r\n"


REASON = {200: "OK", 301: "Moved Permanently", 302: "Found", 404: "Not Found", 410: "Gone", 503: "Service Unavailable"}
SERVERS = ("nginx", "Apache/2.4.57 (Unix)", "nginx/1.24.0", "caddy", "openresty")


@dataclass(frozen=True)
class Response:
    head: bytes
    sent: bytes  # what follows the head in the record
    payload: bytes  # the same without chunks, still with its Content-Encoding


def http_response(page: Page, body: bytes, when: dt.datetime) -> Response:
    """The response as it went over the wire."""
    host = urlsplit(page.url).netloc
    kind = page.content_type
    if page.declare in ("both", "header") and kind.startswith(("text/html", "application/xhtml")):
        kind += f"; charset={page.charset}"
    elif page.declare not in ("both", "header", "meta", "none"):
        kind += f"; charset={page.declare}"
    fields = [
        ("Date", when.strftime("%a, %d %b %Y %H:%M:%S GMT")),
        ("Server", SERVERS[number("server/" + host, len(SERVERS))]),
        ("Content-Type", kind),
        *page.headers,
    ]
    payload = body
    if page.content_encoding == "gzip":
        payload = gzip_member(body)
    elif page.content_encoding == "deflate":
        payload = zlib.compress(body, 9)
    if page.content_encoding:
        fields += [("Content-Encoding", page.content_encoding), ("Vary", "Accept-Encoding")]
    if page.transfer == "chunked":
        fields.append(("Transfer-Encoding", "chunked"))
    else:
        lie = page.text.one("lying_length") if page.text else ""
        fields.append(("Content-Length", lie or str(len(payload))))
    if page.warc == 0 and page.text and number("crawl/" + page.url, 2):
        fields.append(("X-Crawl-Content-Encoding", "gzip"))
    if number("cookie/" + host, 3) == 0:
        fields.append(("Set-Cookie", f"sid={number(page.url, 1 << 40):010x}; path=/; HttpOnly"))
    head = f"HTTP/1.1 {page.status} {REASON[page.status]}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields) + "\r\n"
    return Response(head.encode(), chunked(payload, page.url) if page.transfer == "chunked" else payload, payload)


STYLES = (
    ("like a public crawl: request, response and metadata for each page, bodies stored decoded", "hungry-snail/2.4"),
    ("responses only, some of them gzip-encoded as received", "pagelift 0.9"),
    ("like wget: request and response, bodies stored exactly as received (chunked, gzip, both)", "wget-alike/1.21"),
    (
        "like an archive's crawler: response, request, metadata, one DNS record and one revisit; cut short",
        "archivist/3.6",
    ),
)


class WarcFile:
    def __init__(self, index: int):
        self.index = index
        self.when = EPOCH + dt.timedelta(days=index, hours=index)
        self.members: list[bytes] = []
        about, software = STYLES[index]
        lines = f"software: {software}\r\nformat: WARC File Format 1.1\r\ndescription: {about}\r\nrobots: classic\r\n"
        self.warcinfo = record_id(WARCS[index], "warcinfo")
        head = [
            *self.stamp(self.warcinfo),
            ("WARC-Filename", WARCS[index]),
            ("Content-Type", "application/warc-fields"),
        ]
        self.members.append(record("warcinfo", lines.encode(), head))

    def stamp(self, identity: str) -> list[tuple[str, str]]:
        return [("WARC-Record-ID", identity), ("WARC-Date", self.when.strftime("%Y-%m-%dT%H:%M:%SZ"))]

    def add(self, page: Page, body: bytes) -> str:
        self.when += dt.timedelta(seconds=1 + number(f"pause/{page.url}/{page.visit}", 20))
        host = urlsplit(page.url).netloc
        identity = record_id(WARCS[self.index], page.url, page.visit, "response")
        address = f"203.0.113.{number('ip/' + host, 250) + 2}"
        common = [("WARC-Target-URI", page.url), ("WARC-IP-Address", address), ("WARC-Warcinfo-ID", self.warcinfo)]
        answer = http_response(page, body, self.when)
        target = page.url.split(host, 1)[1] or "/"
        ask = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {STYLES[self.index][1]}\r\nAccept: */*\r\n"
        ask += "Accept-Encoding: gzip, deflate\r\n\r\n"
        request = record(
            "request",
            ask.encode(),
            [
                *self.stamp(record_id(identity, "request")),
                *common,
                ("WARC-Concurrent-To", identity),
                ("Content-Type", "application/http; msgtype=request"),
            ],
        )
        response_head = [*self.stamp(identity), *common, ("Content-Type", "application/http; msgtype=response")]
        response_head.append(("WARC-Block-Digest", digest(answer.head + answer.sent)))
        response_head.append(("WARC-Payload-Digest", digest(answer.payload)))
        if self.index == 0:
            response_head.append(("WARC-Identified-Payload-Type", page.content_type))
        response = record("response", answer.head + answer.sent, response_head)
        notes = {"fetchTimeMs": str(number("ms/" + page.url, 900) + 40), "charset-detected": page.charset}
        if self.index == 3:
            notes = {"via": f"https://{host}/", "hopsFromSeed": "L", "outlink": f"https://{host}/legal/0 L a/@href"}
        metadata = record(
            "metadata",
            "".join(f"{k}: {v}\r\n" for k, v in notes.items()).encode(),
            [
                *self.stamp(record_id(identity, "metadata")),
                *common,
                ("WARC-Concurrent-To", identity),
                ("Content-Type", "application/warc-fields"),
            ],
        )
        order = ([request, response, metadata], [response], [request, response], [response, request, metadata])
        self.members.extend(order[self.index])
        return identity

    def revisit(self, url: str, refers_to: str, payload: bytes) -> str:
        self.when += dt.timedelta(hours=3)
        identity = record_id(WARCS[self.index], url, "revisit")
        head = b"HTTP/1.1 304 Not Modified\r\nServer: nginx\r\n\r\n"
        self.members.append(
            record(
                "revisit",
                head,
                [
                    *self.stamp(identity),
                    ("WARC-Target-URI", url),
                    ("WARC-Warcinfo-ID", self.warcinfo),
                    ("WARC-Refers-To", refers_to),
                    ("WARC-Refers-To-Target-URI", url),
                    ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
                    ("WARC-Payload-Digest", digest(payload)),
                    ("WARC-Truncated", "length"),
                    ("Content-Type", "application/http; msgtype=response"),
                ],
            )
        )
        return identity

    def dns(self, host: str) -> None:
        block = f"20240321070000\r\n{host}.\t3600\tIN\tA\t203.0.113.{number('ip/' + host, 250) + 2}\r\n".encode()
        identity = record_id(WARCS[self.index], host, "dns")
        head = [*self.stamp(identity), ("WARC-Target-URI", "dns:" + host), ("Content-Type", "text/dns")]
        self.members.append(record("response", block, head))

    def log(self) -> None:
        lines = "".join(f"{self.when:%Y-%m-%d %H:%M:%S} OK\n" for _ in range(3)).encode()
        uri = "metadata://wget-alike/wget-alike.log"
        head = [
            *self.stamp(record_id(WARCS[self.index], "log")),
            ("WARC-Target-URI", uri),
            ("Content-Type", "text/plain"),
        ]
        self.members.append(record("resource", lines, head))


def build_warcs(pages: list[Page], renderer: Renderer) -> tuple[dict[str, bytes], list[dict[str, object]]]:
    files: dict[str, bytes] = {}
    truth: list[dict[str, object]] = []
    last = [p for p in pages if p.text and p.text.one("last")]
    for index, name in enumerate(WARCS):
        warc = WarcFile(index)
        mine = [p for p in pages if p.warc == index and p not in last]
        mine.sort(key=lambda p: hashlib.sha256(f"order/{p.url}/{p.visit}".encode()).digest())
        if index == 3:
            warc.dns("mossandtrowel.example")
        bodies: dict[str, tuple[Page, str, bytes]] = {}
        for page in mine:
            body = body_bytes(page, renderer)
            identity = warc.add(page, body)
            bodies[page.url] = (page, identity, body)
            truth.append(truth_line(page, name, identity, body))
        if index == 3:
            page, identity, body = next(entry for _, entry in sorted(bodies.items()) if entry[0].keep)
            again = warc.revisit(page.url, identity, http_response(page, body, warc.when).payload)
            entry = replace(page, kind="revisit", keep=False, why="revisit, no body", visit=2)
            truth.append(truth_line(entry, name, again, b""))
        if index == 2:
            warc.log()
        data = b"".join(warc.members)
        if index == 3:
            for page in last:
                body = body_bytes(page, renderer)
                before = len(warc.members)
                identity = warc.add(page, body)
                member = warc.members[before]
                data += member[: len(member) * 6 // 10]
                truth.append(truth_line(replace(page, keep=False, why="truncated record"), name, identity, body))
        files["web/" + name] = data
    return files, truth


def truth_line(page: Page, warc: str, identity: str, body: bytes) -> dict[str, object]:
    lang, script = LANGUAGES.get(page.lang, (page.lang, "Latn" if page.lang else ""))
    line: dict[str, object] = {
        "url": page.url,
        "warc": warc,
        "record_id": identity.strip("<>"),
        "status": page.status,
        "content_type": page.content_type,
        "kind": page.kind,
        "lang": lang,
        "script": script,
        "encoding": page.charset if page.text else "",
        "declared": page.declared,
        "declared_in": page.declared_in,
        "content_encoding": page.content_encoding,
        "transfer_encoding": page.transfer,
        "template": page.template,
        "text_name": page.text.name if page.text else "",
        "html_bytes": len(body),
        "duplicate_group": page.duplicate_group,
        "near_group": page.near_group,
        "expect": "keep" if page.keep else "drop",
        "why": page.why,
    }
    head = page.text.head if page.text else {}
    if "pii" in head:
        line["pii"] = [dict(zip(("type", "value"), item.split(" ", 1), strict=True)) for item in head["pii"]]
    if "robots" in head:
        line["robots"] = ", ".join(head["robots"])
    if "license" in head:
        line["license"] = head["license"][0]
    elif page.template == "encyclopedia":
        line["license"] = "https://creativecommons.org/licenses/by-sa/4.0/"
    return line
