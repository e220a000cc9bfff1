"""`corpusflow run CONFIG`."""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
from typing import Any

import click

from corpusflow.cli._options import overrides_option, with_overrides
from corpusflow.cli._show import Show, closing, stderr
from corpusflow.config import load_config
from corpusflow.errors import ConfigError
from corpusflow.results import RunResult
from corpusflow.runner import Runner


@click.command()
@click.argument("config")
@overrides_option
@click.option("--limit", type=int, help="At most this many records, spread over all shards: a trial.")
@click.option("--sample", type=float, help="This share of the records (0.01), by a hash of their ids.")
@click.option("--workers", type=int, help="Tasks at once. Default: every CPU.")
@click.option("--executor", type=click.Choice(["ray", "inline"]), help="Default: ray.")
@click.option("--address", help="Ray cluster to join: auto, or host:port.")
@click.option("--refresh", is_flag=True, help="List the input again; only new and changed files run.")
@click.option("--allow-version-drift", is_flag=True, help="Go on under other versions of libraries that make output.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(config: str, sets: tuple[str, ...], refresh: bool, as_json: bool, **run_options: Any) -> None:
    """Run a config, or go on where it stopped.

    Safe to start again at any time, also twice at once: what is committed is never done again.
    """
    loaded = load_config(config, with_overrides(sets, run_options))
    console = stderr()
    show = Show(console)
    runner = Runner(loaded, show, refresh=refresh)
    _log_to(runner.run_dir.path)
    if (other := runner.run_dir.other_driver()) is not None:
        show.message(f"note: process {other} runs this folder too; the result will be the same, the work double")
    try:
        result = runner.run()
    except KeyboardInterrupt:
        show.close()
        # As it was typed: without --limit, going on would be a run of everything.
        again = shlex.join(["corpusflow", *sys.argv[1:]])
        console.print(f"stopped; what is committed is kept. Go on with: {again}", soft_wrap=True, markup=False)
        raise
    finally:
        show.close()
        runner.run_dir.leave()
    closing(console, result)
    if as_json:
        click.echo(json.dumps(result_data(result), ensure_ascii=False))


def result_data(result: RunResult) -> dict[str, Any]:
    """A RunResult as JSON values."""
    return {
        "run_dir": result.run_dir,
        "digest": result.digest,
        "stages": [c.as_data() for c in result.counts],
        "exports": result.exports,
        "steps": [vars(s) for s in result.steps],
        "seconds": round(result.seconds, 3),
        "start_seconds": round(result.start_seconds, 3),
        "peak_worker_bytes": result.peak_memory,
        "warnings": result.warnings,
        "retention": [r.as_data() for r in result.retention],
        "canaries": result.canaries.as_data() if result.canaries is not None else None,
    }


def _log_to(run_dir: str) -> None:
    """Send the log to the run folder.

    Raises:
        ConfigError: it cannot be written to.
    """
    try:
        os.makedirs(run_dir, exist_ok=True)
        handler = logging.FileHandler(os.path.join(run_dir, "run.log"), encoding="utf-8")
    except OSError as e:
        raise ConfigError(
            f"cannot write to the run folder {run_dir}: {e.strerror}", hint="choose another: --set run.dir=…"
        ) from e
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("corpusflow")
    for earlier in [h for h in logger.handlers if isinstance(h, logging.FileHandler)]:  # of another run in this process
        logger.removeHandler(earlier)
        earlier.close()
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False
