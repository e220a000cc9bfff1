"""The command line: one module per command, loaded when it is called, so that `--help` answers at once."""

from __future__ import annotations

import codecs
import importlib
import io
import logging
import os
import sys
from typing import Any, Final

import click

#: Command -> (one line of help). Each lives in corpusflow/cli/<command>.py as `command`; dashes become underscores.
COMMANDS: Final[dict[str, str]] = {
    "run": "Run a config, or go on where it stopped.",
    "plan": "Say what `run` would do and reuse, and why.",
    "status": "Say how far a run is, also while it runs.",
    "inspect": "Look at a stage's documents, drops or quarantine.",
    "explain": "Tell one document's whole story.",
    "what-if": "Try other thresholds on what is measured already.",
    "trace": "Say which document a token came from, and back.",
    "quarantine": "List, show or try again what could not be processed.",
    "canary": "Try known-good and known-bad documents on a config's stages.",
    "export": "Write any stage out as Parquet or JSONL.",
    "verify": "Re-read every committed file and check it.",
    "train": "Train a tokenizer or a model.",
    "eval": "Measure a tokenizer or a model.",
    "stages": "List the stages, or show one with its parameters.",
    "schema": "Print the JSON Schema of a config, for editors.",
    "dedup-index": "List, show or check indexes that later crawls are deduplicated against.",
    "mix": "Mix finished runs for training, by weight and budget.",
    "takedown": "Take documents out of a finished run.",
    "gc": "Delete what no commit record names.",
    "version": "Print versions.",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"corpusflow.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Raw crawl files in, deduplicated and tokenized training data out."""


def _print_anything() -> None:
    """What an output's encoding has no character for (Latin-1, GBK, file names that are no UTF-8) is escaped as JSON does."""

    def escaped(e: UnicodeError) -> tuple[str, int]:
        if not isinstance(e, UnicodeEncodeError):
            raise e
        units = e.object[e.start : e.end].encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)), e.end

    codecs.register_error("corpusflow", escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="corpusflow")


def main() -> None:
    """Entry point. A user's mistake ends in a message and a hint, never in a traceback."""
    # A folder called `stages` in the working directory must not stand in for ours.
    here = os.getcwd()
    sys.path[:] = [p for p in sys.path if p not in ("", here)] + [p for p in sys.path if p == here][:1]
    _print_anything()
    from corpusflow.errors import CorpusflowError

    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as e:
        sys.exit(e.exit_code)
    except click.ClickException as e:
        e.show()
        sys.exit(e.exit_code)
    except (KeyboardInterrupt, click.Abort):
        print("stopped", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except CorpusflowError as e:
        print(f"error: {e}", file=sys.stderr)  # noqa: T201
        logging.getLogger("corpusflow").debug("failed", exc_info=e)
        sys.exit(e.exit_code)
    except BrokenPipeError:
        os._exit(0)  # the reader (head, less) has gone; a normal exit would fail once more at flushing
    except OSError as e:
        where = f"{e.filename}: " if e.filename else ""
        print(f"error: {where}{e.strerror or e}", file=sys.stderr)  # noqa: T201
        logging.getLogger("corpusflow").debug("failed", exc_info=e)
        sys.exit(1)
