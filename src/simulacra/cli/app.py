"""All commands. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import click

from simulacra.cli import advise, ask, check, compare, demonstrate, describe, judge, public, weights

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=CONTEXT)
@click.version_option(package_name="simulacra", prog_name="simulacra")
def app() -> None:
    """Differentially private synthetic data: release once, synthesise for ever.

    Start with:  simulacra demo --out demo-run
    """


for command in (
    demonstrate.demo,
    describe.methods,
    describe.schema,
    advise.recommend,
    ask.plan,
    ask.release,
    ask.train,
    ask.fit,
    ask.prepare,
    ask.resume,
    ask.condense,
    ask.sample,
    judge.evaluate,
    judge.report,
    compare.compare,
    weights.weights,
    public.pretrain,
    public.directions,
    check.verify,
    check.ledger,
):
    app.add_command(command)
