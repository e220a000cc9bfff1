"""YAML to a Config, with the place of every key: errors say file, line, key, and what was probably meant.

The loader is stricter than YAML's: no anchors or aliases (a 258-byte file can expand to gigabytes), no duplicate keys, no
tags, at most 1 MiB and 32 levels. Plain words are read as YAML 1.2 reads them: only `true` and `false` are booleans (`no` is
Norwegian), 010 and 1:30 are no numbers.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from corpusflow.errors import ConfigError, invalid
from corpusflow.storage import storage_for

_MAX_BYTES: Final = 1 << 20
_MAX_DEPTH: Final = 32
_TAG: Final = "tag:yaml.org,2002:"
#: Kind of plain value -> what of it is read as that kind; the rest stays text.
_PLAIN: Final[Mapping[str, re.Pattern[str] | None]] = {
    "null": re.compile(r".*"),
    "bool": re.compile(r"true|false", re.IGNORECASE),
    "int": re.compile(r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)"),
    "float": re.compile(r"[^:]*"),
    "str": None,
    "timestamp": None,
    "value": None,
}
_EXPONENT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+")
Path = tuple[str | int, ...]


class RunConfig(BaseModel):
    """How to run: nothing here but `limit` and `sample` can change an output."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dir: str = Field("runs/corpusflow", description="Run folder; every node must see it under this path.")
    executor: Literal["ray", "inline"] = Field("ray", description="ray: local Ray or a cluster; inline: serial, here.")
    workers: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="Tasks at once; auto: every CPU there is."
    )
    address: str | None = Field(None, description="Ray cluster to join (auto, or host:port); none: a Ray of our own.")
    limit: int | None = Field(None, ge=1, description="At most this many records, spread over all shards: a trial run.")
    sample: float | None = Field(
        None, gt=0, le=1, description="This share of the records, chosen by a hash of their ids."
    )
    max_quarantine: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Stop when a stage quarantined more than this share (and more than 100 documents).",
    )
    retention: dict[str, tuple[float, float]] = Field(
        {"*": (0.05, 1.0)},
        description="Warn when a stage keeps a share of a source or language outside of [least, most]: bands by stage, "
        "`source=NAME`, `language=CODE`, `STAGE/GROUP`; `all` is the whole run, `*` what no other names.",
    )
    retention_documents: int = Field(
        100, ge=1, description="Sources and languages with fewer documents are not judged."
    )
    canaries: dict[Literal["good", "bad"], tuple[str, ...]] = Field(
        {}, description="Files of known-good and known-bad documents, tried on the stages before every run."
    )
    attempts: int = Field(3, ge=1, description="Tries per shard before the run stops.")
    allow_version_drift: bool = Field(
        False, description="Resume under other versions of the libraries that make output."
    )
    check_disk: bool = Field(True, description="Refuse to start when the disk cannot hold the result.")

    @field_validator("retention")
    @classmethod
    def _bands(cls, value: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        for key, (least, most) in value.items():
            if not 0 <= least <= most <= 1:
                raise ValueError(f"{key}: a band is two shares from 0 to 1, the smaller first")
        return value


@dataclass(frozen=True)
class StageConfig:
    """One entry of `input`, `stages` or `output`; `line` is where it stands, 0 if it came from Python."""

    name: str
    params: Mapping[str, Any]
    line: int = 0


@dataclass(frozen=True)
class Config:
    """A whole pipeline. For messages: `file`, and the line (`lines`) or the override (`sets`) that a key came from."""

    name: str
    seed: int
    input: tuple[StageConfig, ...]
    stages: tuple[StageConfig, ...]
    output: tuple[StageConfig, ...]
    run: RunConfig
    file: str = "<config>"
    lines: Mapping[Path, int] = field(default_factory=dict)
    sets: Mapping[Path, str] = field(default_factory=dict)

    def where(self, *path: str | int) -> str:
        """``configs/web.yaml:12`` or ``--set run.workers=2`` for a key, or for its nearest parent."""
        return _where(path, self.file, self.lines, self.sets)

    def where_wrong(self, section: str, i: int, message: str) -> str:
        """Where a stage was given what a message complains of: the line of the stage, an override of it, or both."""
        given = getattr(self, section)[i]
        own = {path[2]: text for path, text in self.sets.items() if path[:2] == (section, i) and len(path) > 2}
        for key, text in own.items():
            if f"{given.name}.{key}" in message or f"parameter {key!r}" in message:
                return f"--set {text}"
        return " with ".join([self.where(section, i), *(f"--set {text}" for text in own.values())])

    def as_data(self) -> dict[str, Any]:
        """The resolved config as plain data, in the YAML's own form."""
        return {
            "name": self.name,
            "seed": self.seed,
            "input": [{s.name: dict(s.params)} for s in self.input],
            "stages": [{s.name: dict(s.params)} for s in self.stages],
            "output": [{s.name: dict(s.params)} for s in self.output],
            "run": self.run.model_dump(),
        }


def load_config(path: str, overrides: Sequence[str] = ()) -> Config:
    """Read a config file and apply ``--set`` overrides.

    Raises:
        ConfigError: with file:line and key.
    """
    storage = storage_for(path)
    try:
        data = storage.get(path)
    except FileNotFoundError as e:
        near = _similar_files(path)
        raise ConfigError(
            f"config {path} does not exist",
            hint=f"did you mean {near}?" if near else "`ls configs/` shows what there is",
        ) from e
    except IsADirectoryError as e:
        raise ConfigError(f"config {path} is a folder", hint="give a YAML file in it") from e
    return parse_config(data, file=path, overrides=overrides)


def parse_config(data: bytes | str, *, file: str = "<config>", overrides: Sequence[str] = ()) -> Config:
    """The Config in some YAML.

    Raises:
        ConfigError: with file:line and key.
    """
    raw = data.encode() if isinstance(data, str) else data
    if len(raw) > _MAX_BYTES:
        raise ConfigError(f"{file}: {len(raw)} bytes; a config may have {_MAX_BYTES}", hint="is this really a config?")
    lines: dict[Path, int] = {}
    tree = _load(raw, file, lines)
    sets: dict[Path, str] = {}
    for text in overrides if isinstance(tree, dict) else ():  # else there is something worse to say
        path = _override(tree, text)
        for known in [k for k in (*lines, *sets) if k[: len(path)] == path]:
            lines.pop(known, None)
            sets.pop(known, None)
        sets[path] = text
    return build_config(tree, file=file, lines=lines, sets=sets)


def _where(path: Path, file: str, lines: Mapping[Path, int], sets: Mapping[Path, str]) -> str:
    for n in range(len(path), -1, -1):
        if (text := sets.get(path[:n])) is not None:
            return f"--set {text}"
        if (line := lines.get(path[:n])) is not None:
            return f"{file}:{line}"
    return file


def build_config(
    tree: Any,
    *,
    file: str = "<config>",
    lines: Mapping[Path, int] | None = None,
    sets: Mapping[Path, str] | None = None,
) -> Config:
    """The Config in plain data (what YAML would give).

    Raises:
        ConfigError: with file:line and key.
    """
    where, given = dict(lines or {}), dict(sets or {})

    def at(*path: str | int) -> str:
        return _where(path, file, where, given)

    if not isinstance(tree, dict):
        raise ConfigError(f"{file}: expected a mapping with input, stages and output, got {type(tree).__name__}")
    known = ("name", "seed", "input", "stages", "output", "run")
    for key in tree:
        if key not in known:
            raise ConfigError(f"{at(key)}: unknown key {key!r}", hint=_did_you_mean(str(key), known))
    name = tree.get("name", "corpusflow")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name):
        raise ConfigError(f"{at('name')}: name must be letters, digits, '.', '_' or '-', got {name!r}")
    seed = tree.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63:
        raise ConfigError(f"{at('seed')}: seed must be a whole number from 0, got {seed!r}")
    lists = {k: _stage_list(k, tree.get(k), at, where) for k in ("input", "stages", "output")}
    if not lists["input"]:
        raise ConfigError(
            f"{at('input')}: a config needs an input", hint="input:\n  - ingest.warc: {paths: [crawl/*.warc.gz]}"
        )
    run = tree.get("run") or {}
    if not isinstance(run, dict):
        raise ConfigError(f"{at('run')}: expected a mapping, got {run!r}")
    if "dir" not in run:
        run = {**run, "dir": f"runs/{name}"}
    return Config(
        name, seed, lists["input"], lists["stages"], lists["output"], _run_config(run, at), file, where, given
    )


def _run_config(run: Mapping[str, Any], at: Any) -> RunConfig:
    for key in run:
        if key not in RunConfig.model_fields:
            raise ConfigError(
                f"{at('run', key)}: unknown key run.{key}", hint=_did_you_mean(str(key), RunConfig.model_fields)
            )
    try:
        return RunConfig(**run)
    except ValidationError as e:
        first = e.errors()[0]
        key = str(first["loc"][0])
        problem = {**first, "loc": first["loc"][1:]}
        raise ConfigError(f"{at('run', key)}: run.{key}{invalid(run[key], problem)}") from e


def _stage_list(key: str, value: Any, at: Any, lines: Mapping[Path, int]) -> tuple[StageConfig, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ConfigError(
            f"{at(key)}: {key} must be a list of stages, got {value!r}", hint=f"{key}:\n  - some.stage: {{…}}"
        )
    out = []
    for i, entry in enumerate(value):
        here = lines.get((key, i), 0)
        if isinstance(entry, str):
            out.append(StageConfig(entry, {}, here))
        elif isinstance(entry, dict) and len(entry) == 1:
            (name, params), *_ = entry.items()
            if params is not None and not isinstance(params, dict):
                raise ConfigError(f"{at(key, i)}: parameters of {name} must be a mapping, got {params!r}")
            out.append(StageConfig(str(name), params or {}, here))
        else:
            raise ConfigError(
                f"{at(key, i)}: expected one stage, got {entry!r}",
                hint="write `- stage.name` or `- stage.name: {parameter: value}`",
            )
    return tuple(out)


def override_stage(config: Config, name: str, **params: Any) -> Config:
    """A copy of the config with parameters of one stage changed (for tests and notebooks)."""
    stages = tuple(replace(s, params={**s.params, **params}) if s.name == name else s for s in config.stages)
    return replace(config, stages=stages)


def read_tree(path: str) -> tuple[Any, dict[Path, int]]:
    """A YAML file as plain data, as strictly as a config, and the line of each of its keys.

    Raises:
        ConfigError: it is missing, or not such YAML.
    """
    try:
        data = storage_for(path).get(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as e:
        near = _similar_files(path)
        raise ConfigError(f"{path} is not a file", hint=f"did you mean {near}?" if near else "give a YAML file") from e
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path}: {len(data)} bytes; a config may have {_MAX_BYTES}")
    lines: dict[Path, int] = {}
    return _load(data, path, lines), lines


def _load(data: bytes, file: str, lines: dict[Path, int]) -> Any:
    try:
        node = yaml.compose(data, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{file}{line}: not valid YAML: {e.problem or e.context}", hint=_yaml_hint(e)) from e
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise ConfigError(f"{file}: not valid YAML: {str(e).splitlines()[0]}") from e
    except RecursionError as e:
        raise ConfigError(f"{file}: nested deeper than {_MAX_DEPTH} levels") from e
    if node is None:
        raise ConfigError(f"{file} is empty", hint="see configs/web.yaml")
    _refuse_aliases(data, file)
    return _construct(node, (), file, lines)


def _yaml_hint(e: yaml.MarkedYAMLError) -> str | None:
    """What is most often meant by what is no YAML."""
    problem = e.problem or ""
    if "'\\t'" in problem:
        return "indent with spaces, not with tabs"
    if "alias" in (e.context or "") or "alias" in problem or "cannot start any token" in problem:
        return "a value that begins with *, @, %, & or a backtick is put in quotes: '*.jsonl'"
    return None


def _refuse_aliases(data: bytes, file: str) -> None:
    for event in yaml.parse(data, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise ConfigError(f"{file}:{line}: anchors and aliases are not allowed", hint="write the value out")


def _construct(node: Any, path: Path, file: str, lines: dict[Path, int]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if len(path) > _MAX_DEPTH:
        raise ConfigError(f"{file}:{line}: nested deeper than {_MAX_DEPTH} levels")
    if not isinstance(node, yaml.ScalarNode) and node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
        raise ConfigError(f"{file}:{line}: expected a plain value, got {node.tag}", hint="tags (!…) are not allowed")
    if isinstance(node, yaml.MappingNode):
        out: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _scalar(key_node, file)
            if key in out:
                raise ConfigError(f"{file}:{key_node.start_mark.line + 1}: key {key!r} is given twice")
            lines[(*path, key)] = key_node.start_mark.line + 1
            out[key] = _construct(value_node, (*path, key), file, lines)
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*path, i), file, lines) for i, item in enumerate(node.value)]
    return _scalar(node, file)


def _scalar(node: Any, file: str) -> Any:
    if not isinstance(node, yaml.ScalarNode) or node.tag not in {f"{_TAG}{kind}" for kind in _PLAIN}:
        raise ConfigError(
            f"{file}:{node.start_mark.line + 1}: expected a plain value, got {node.tag}",
            hint="tags (!…) are not allowed",
        )
    form = _PLAIN[node.tag.removeprefix(_TAG)]
    if node.style is None and _EXPONENT.fullmatch(node.value):
        return float(node.value)  # YAML 1.1 takes 1.5e3 for text
    if form is None or not form.fullmatch(node.value):
        return str(node.value)  # dates and YAML 1.1's many booleans stay as written
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError) as e:
        raise ConfigError(f"{file}:{node.start_mark.line + 1}: {node.value!r} is not a plain value") from e


def parse_override(text: str) -> tuple[list[str], Any]:
    """(parts of the key, value as YAML has it) of one ``a.b.c=value``.

    Raises:
        ConfigError: no ``=``, or the value is not plain YAML.
    """
    key, separator, value_text = text.partition("=")
    if not separator:
        raise ConfigError(f"--set {text}: expected key=value", hint="for example --set quality.gopher.min_words=30")
    return key.split("."), _load(value_text.encode() or b"null", f"--set {key}", {})


def _override(tree: Any, text: str) -> Path:
    """Apply one ``a.b.c=value`` in place; the path of what it set.

    The value is YAML; the key names a stage's parameter or any key of the config.
    """
    parts, value = parse_override(text)
    key = ".".join(parts)
    if parts[0] in ("name", "seed", "run", "input", "stages", "output"):
        return _assign(tree, parts, value, key)
    stages = list(_stages_in(tree))
    matches = [(section, i, name) for section, i, name in stages if key.startswith(f"{name}.")]
    if not matches:
        names = [name for _, _, name in stages]
        raise ConfigError(
            f"--set {key}: no stage of this config is called {key.rpartition('.')[0]!r}",
            hint=_did_you_mean(key.rpartition(".")[0], names) or "keys of the config itself start with run. or stages.",
        )
    if len(matches) > 1:
        ways = " or ".join(f"{s}.{i}.{key[len(n) + 1 :]}" for s, i, n in matches)
        raise ConfigError(f"--set {key}: {matches[0][2]} appears {len(matches)} times", hint=f"say which: {ways}")
    section, i, name = matches[0]
    return _assign(tree, [section, str(i), *key[len(name) + 1 :].split(".")], value, key)


def _stages_in(tree: Mapping[Any, Any]) -> Iterator[tuple[str, int, str]]:
    """(section, place, name) of what stands there as a stage; the rest `build_config` complains of."""
    for section in ("input", "stages", "output"):
        entries = tree.get(section)
        for i, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, str):
                yield section, i, entry
            elif isinstance(entry, dict) and entry:
                yield section, i, str(next(iter(entry)))


def _assign(tree: Any, parts: Sequence[str], value: Any, key: str) -> Path:
    place = tree
    path: list[str | int] = []
    for n, part in enumerate(parts[:-1]):
        if isinstance(place, list):
            if not part.isdecimal() or int(part) >= len(place):
                raise ConfigError(f"--set {key}: {'.'.join(parts[:n])} has entries 0 to {len(place) - 1}, not {part}")
            if n + 1 < len(parts) and isinstance(place[int(part)], str):
                place[int(part)] = {place[int(part)]: {}}
            path.append(int(part))
            place = place[int(part)]
            if isinstance(place, dict) and len(place) == 1:  # an entry {stage: params}: step into the parameters
                name = next(iter(place))
                place[name] = place[name] or {}
                place = place[name]
        elif isinstance(place, dict):
            if place.get(part) is None:
                place[part] = {}
            path.append(part)
            place = place[part]
        else:
            raise ConfigError(f"--set {key}: {'.'.join(parts[:n])} is a plain value")
    if not isinstance(place, dict):
        raise ConfigError(f"--set {key}: nothing there to set")
    place[parts[-1]] = value
    return (*path, parts[-1])


def _did_you_mean(key: str, known: Any) -> str | None:
    close = difflib.get_close_matches(key, list(known), 1, 0.5)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(map(str, known))}"


def _similar_files(path: str) -> str | None:
    folder = os.path.dirname(path) or "."
    names = [os.path.join(folder, n) for n in (os.listdir(folder) if os.path.isdir(folder) else [])]
    close = difflib.get_close_matches(path, [n.removeprefix("./") for n in names], 1, 0.6)
    return close[0] if close else None
