"""Texts: Markdown with a small header, read, edited into near duplicates, reshaped into bad pages."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from .common import HERE, number, pick


@dataclass(frozen=True)
class Block:
    kind: str  # p, h2, h3, ul, ol, code, table, quote, post
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Text:
    name: str
    lang: str
    head: dict[str, list[str]]
    blocks: tuple[Block, ...]

    def one(self, key: str, default: str = "") -> str:
        return self.head.get(key, [default])[0]

    @property
    def kind(self) -> str:
        return self.one("kind", "good")

    @property
    def plain(self) -> str:
        return "\n\n".join(filter(None, (plain_block(block) for block in self.blocks)))


def parse_blocks(source: str) -> tuple[Block, ...]:
    blocks: list[Block] = []
    parts = re.split(r"(^```.*?^```$)", source, flags=re.M | re.S)
    for part in parts:
        if part.startswith("```"):
            blocks.append(Block("code", tuple(part.split("\n")[1:-1])))
            continue
        for chunk in re.split(r"\n[ \t]*\n", part.strip("\n")):
            lines = tuple(line for line in chunk.split("\n") if line.strip())
            if not lines:
                continue
            first = lines[0]
            if first.startswith("## "):
                blocks.append(Block("h2", (first[3:],)))
            elif first.startswith("### "):
                blocks.append(Block("h3", (first[4:],)))
            elif first.startswith("@@ "):
                blocks.append(Block("post", (first[3:],)))
            elif all(line.startswith("- ") for line in lines):
                blocks.append(Block("ul", tuple(line[2:] for line in lines)))
            elif all(re.match(r"\d+\. ", line) for line in lines):
                blocks.append(Block("ol", tuple(line.split(". ", 1)[1] for line in lines)))
            elif all(line.startswith("|") for line in lines):
                blocks.append(Block("table", tuple(line for line in lines if not re.fullmatch(r"[|\-\s]+", line))))
            elif first.startswith("> "):
                blocks.append(Block("quote", tuple(line[2:] for line in lines)))
            else:
                blocks.append(Block("p", lines))
    return tuple(blocks)


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def unmark(line: str) -> str:
    line = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", line)
    line = re.sub(r"\*\*(.+?)\*\*", r"\1", line)
    line = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*", r"\1", line)
    return re.sub(r"`([^`]+)`", r"\1", line)


def plain_block(block: Block) -> str:
    if block.kind == "post":
        return ""
    if block.kind == "code":
        return "\n".join(block.lines)
    if block.kind == "table":
        return "\n".join(" | ".join(unmark(cell) for cell in cells(row)) for row in block.lines)
    return "\n".join(unmark(line) for line in block.lines)


def inline(line: str) -> str:
    line = html.escape(line, quote=False)
    line = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', line)
    line = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", line)
    line = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*", r"<em>\1</em>", line)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", line)


def html_block(block: Block) -> str:
    match block.kind:
        case "h2" | "h3":
            return f"<{block.kind}>{inline(block.lines[0])}</{block.kind}>"
        case "ul" | "ol":
            items = "".join(f"<li>{inline(line)}</li>\n" for line in block.lines)
            return f"<{block.kind}>\n{items}</{block.kind}>"
        case "code":
            return '<div class="highlight"><pre>' + html.escape("\n".join(block.lines), quote=False) + "</pre></div>"
        case "table":
            head, *rows = block.lines
            top = "".join(f"<th>{inline(cell)}</th>" for cell in cells(head))
            body = "".join("<tr>" + "".join(f"<td>{inline(c)}</td>" for c in cells(row)) + "</tr>\n" for row in rows)
            return f"<table><thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table>"
        case "quote":
            return "<blockquote><p>" + "<br />".join(inline(line) for line in block.lines) + "</p></blockquote>"
        case "post":
            return f"<h3>{inline(block.lines[0])}</h3>"
        case _:
            return "<p>" + "<br />\n".join(inline(line) for line in block.lines) + "</p>"


def split_header(source: str) -> tuple[dict[str, list[str]], str]:
    _, header, body = source.split("---\n", 2)
    head: dict[str, list[str]] = {}
    for line in header.splitlines():
        key, _, value = line.partition(":")
        head.setdefault(key.strip(), []).append(value.strip())
    return head, body.strip("\n")


def edited(base: str, edits: str, name: str) -> str:
    """The near duplicate: `- old` / `+ new` pairs replace, `++ text` appends a paragraph, `^^ text` puts one first."""
    old = ""
    for line in filter(None, edits.splitlines()):
        mark, _, rest = line.partition(" ")
        if mark == "-":
            old = rest
        elif mark == "+":
            if base.count(old) != 1:
                raise ValueError(f"{name}: {old!r} occurs {base.count(old)} times in the base text")
            base = base.replace(old, rest)
        elif mark == "++":
            base += "\n\n" + rest
        elif mark == "^^":
            base = rest + "\n\n" + base
        else:
            raise ValueError(f"{name}: not an edit: {line!r}")
    return base


def repeated(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    return blocks * times


def on_one_line(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    return tuple(Block(b.kind, (" ".join([" ".join(b.lines)] * times),)) for b in blocks)


def shouted(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    return tuple(Block(b.kind, tuple(line.upper() for line in b.lines)) for b in blocks)


def decomposed(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    return tuple(Block(b.kind, tuple(unicodedata.normalize("NFD", line) for line in b.lines)) for b in blocks)


def digits(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    row = "{:>6} {:>8}.{:03} {:>5} # {:04x} % {:>3} // {:>7} ;"
    draw = [[number(f"digits/{i}/{j}", 10**5) for j in range(7)] for i in range(times)]
    lines = [row.format(a, b, c % 1000, d, e % 65536, f % 100, g) for a, b, c, d, e, f, g in draw]
    return tuple(Block("p", (line,)) for line in lines)


def huge(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    """Paragraphs shuffled out of the sentences of a few texts, about 1.5 MB in all."""
    sentences = [s for b in blocks if b.kind == "p" for s in re.split(r"(?<=[.?!]) ", " ".join(b.lines))]
    return tuple(Block("p", (" ".join(pick(f"huge/{i}", sentences, 6)),)) for i in range(times))


RESHAPE: dict[str, Callable[[tuple[Block, ...], int], tuple[Block, ...]]] = {
    "repeat": repeated,
    "one_line": on_one_line,
    "upper": shouted,
    "nfd": decomposed,
    "digits": digits,
    "huge": huge,
}


def load_texts() -> dict[str, Text]:
    root = HERE / "texts"
    sources = {p.relative_to(root).with_suffix("").as_posix(): p.read_text("utf-8") for p in sorted(root.rglob("*.md"))}
    texts: dict[str, Text] = {}
    for name, source in sources.items():
        head, body = split_header(source)
        lang = head.get("lang", [name.split("/")[0]])[0]
        if "base" in head:
            base_name = head["base"][0]
            base_head, base_body = split_header(sources[base_name])
            lang = base_head.get("lang", [base_name.split("/")[0]])[0]
            head = {"title": base_head["title"], "date": base_head["date"]} | head
            body = edited(base_body, body, name)
        if "sentences_of" in head:
            body = "\n\n".join(split_header(sources[other])[1] for other in head["sentences_of"])
        blocks = parse_blocks(body)
        for key, reshape in RESHAPE.items():
            if key in head:
                blocks = reshape(blocks, int(head[key][0]))
        texts[name] = Text(name, lang, head, blocks)
    return texts
