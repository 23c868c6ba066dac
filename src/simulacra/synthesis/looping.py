"""Methods that draw while they learn: begin such a run, prepare one for another machine, and go on with one.

`begin` does it all where the ledger is, and pays block by block. `prepare` pays for all draws at once and leaves a
permit in the run folder; `resume` then makes them anywhere, with torch, numpy and safetensors alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulacra.errors import CertificateError, OutputError, PlanError
from simulacra.methods import make_method
from simulacra.networks.devices import pick_device, plain_torch
from simulacra.privacy.budget import Adjacency
from simulacra.privacy.durable import write_durably
from simulacra.privacy.permit import Permit
from simulacra.privacy.plan import Plan
from simulacra.schema import Schema
from simulacra.synthesis.releasing import Opened, ledger_for, load_schema, open_run, plan_for
from simulacra.synthesis.rounds import LoopRounds, block_for
from simulacra.synthesis.run import Run, check_seed
from simulacra.synthesis.stopping import stop_between_turns
from simulacra.synthesis.watching import Watcher

if TYPE_CHECKING:
    from simulacra.methods.looping import PrivateLoop
    from simulacra.privacy.book import Book
    from simulacra.privacy.vault import Vault


@plain_torch()
def begin(
    data: Any,
    *,
    schema: Schema,
    method: PrivateLoop,
    plan: Plan,
    out: str | Path,
    ledger: str | Path | None,
    seed: int,
    device: str,
    resume: bool,
    watcher: Watcher | None,
) -> Run:
    """Plan, answer, certify and learn, where the ledger is; `fit` checks its arguments and comes here."""
    if resume and Permit.exists(Path(out)):
        raise PlanError(f'"{out}" was prepared, and is paid for; go on with it: simulacra resume')
    opened = _open(
        data, schema=schema, method=method, plan=plan, out=out, ledger=ledger, seed=seed, resume=resume, watcher=watcher
    )
    return _learn(opened.run, method, plan, opened.vault, device=device, watcher=watcher or Watcher())


@plain_torch()
def prepare(
    data: Any,
    *,
    schema: Schema | str | Path,
    method: str,
    epsilon: float | None,
    delta: float | None,
    adjacency: str | Adjacency,
    out: str | Path,
    ledger: str | Path | None = None,
    label: str | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    not_private: bool = False,
    resume: bool = False,
    watcher: Watcher | None = None,
) -> Run:
    """Plan and pay for a run that will be trained on another machine; what is asked once is answered here.

    All draws are reserved in the ledger now, whether they will be made or not. Copy the folder to the other machine,
    train it there with `simulacra.resume(data, folder)`, and bring it back. Train one copy only: a second one would
    draw what nobody paid for.
    """
    from simulacra.methods.looping import PrivateLoop

    check_seed(seed)
    loaded = load_schema(schema, label)
    chosen = make_method(method, settings or {}, loaded)
    if not isinstance(chosen, PrivateLoop):
        raise PlanError(f"{chosen.name} needs the records once only: release here, and train anywhere")
    planned = plan_for(chosen, loaded, epsilon, delta, adjacency, not_private)
    opened = _open(
        data,
        schema=loaded,
        method=chosen,
        plan=planned,
        out=out,
        ledger=ledger,
        seed=seed,
        resume=resume,
        watcher=watcher,
    )
    Permit.issue(opened.run.folder, run=opened.run.facts["run"], plan=planned, ledger=opened.book)
    return opened.run


@plain_torch()
def resume(
    data: Any,
    run: Run | str | Path,
    *,
    ledger: str | Path | None = None,
    device: str = "auto",
    watcher: Watcher | None = None,
) -> Run:
    """Go on with a prepared run, on any machine that has the data; or with one that was interrupted, by its ledger.

    Plan, settings and seed are those the run began with.
    """
    from simulacra.data import open_source
    from simulacra.methods.looping import PrivateLoop
    from simulacra.privacy.sealed import Sealed
    from simulacra.privacy.vault import Vault

    opened = run if isinstance(run, Run) else Run.load(run)
    method, watcher = opened.method, watcher or Watcher()
    if not isinstance(method, PrivateLoop):
        raise PlanError(f"{method.name} draws nothing while it trains; go on with: simulacra train {opened.folder}")
    if not (opened.folder / "certificate.json").exists():
        raise CertificateError(f'"{opened.folder}" is not certified yet; repeat the command that began it, with resume')
    # What is drawn is what was certified: of all files in the folder, the certificate is the one that is checked.
    planned = Plan.from_json(opened.certificate)
    if planned != Plan.from_json(opened._json("plan.json")):
        raise CertificateError(f'"{opened.folder}": plan.json is not what was certified; use an untouched copy')
    book: Book
    if Permit.exists(opened.folder):
        book = Permit(opened.folder)
    else:
        from simulacra.privacy.ledger import Ledger

        book = Ledger(ledger_for(data, ledger))
        if book.name != opened.facts["ledger"]:
            raise OutputError(f'"{opened.folder}" is kept in ledger "{opened.facts["ledger"]}"; name that one')
    source = open_source(data, opened.schema)
    watcher.stage("Reading the records")
    vault = Vault(
        sealed=Sealed(source, opened.schema),
        plan=planned,
        ledger=book,
        run=opened.facts["run"],
        folder=opened.folder / "releases",
        resume=True,
        on_batch=watcher.on_batch,
    )
    return _learn(opened, method, planned, vault, device=device, watcher=watcher)


def _open(data: Any, *, method: PrivateLoop, schema: Schema, seed: int, **rest: Any) -> Opened:
    """A certified run with what is asked once answered, before the first draw of a loop."""
    opened = open_run(data, schema=schema, method=method, facts={"seed": seed}, **rest)
    if not (opened.run.folder / "certificate.json").exists():
        opened.answer_and_certify(method.questions(schema), method.remarks(schema))
    return opened


def _learn(run: Run, method: PrivateLoop, plan: Plan, vault: Vault, *, device: str, watcher: Watcher) -> Run:
    from safetensors.torch import save

    from simulacra.methods.base import Context

    if _finished(run):
        return run
    checkpoint = run.folder / "checkpoint"
    context = Context(
        seed=run.facts["seed"], device=pick_device(device), checkpoint=checkpoint, on_step=watcher.on_step
    )
    releases = vault.ask_all(method.questions(run.schema))  # answered already: this only reads them
    watcher.stage("Training")
    with ExitStack() as stack:
        stack.enter_context(_alone(run.folder))
        stopping = stack.enter_context(stop_between_turns())
        rounds = {
            step.step.name: LoopRounds(
                stack.enter_context(
                    vault.loop(step.step.name, block=block_for(step.step.count), device=context.device)
                ),
                count=step.step.count,
                checkpoint=checkpoint / f"{step.step.name}.safetensors",
                stopping=stopping,
            )
            for step in plan.steps
            if step.transient
        }
        if not any(each.total for each in rounds.values()):
            raise PlanError(
                "all draws of the plan are used and what they taught is lost; begin a new run, and pay for it"
            )
        sampler = method.fit(run.schema, releases, rounds, context)
    stopped_early = any(each.stopped_early for each in rounds.values())
    sampler.save(run.folder)
    run.write_json(
        "training.json",
        {
            "seed": context.seed,
            "device": context.device,
            "settings": method.to_mapping(),
            "stopped_early": stopped_early,
            "rounds": {
                name: {"planned": plan.step(name).step.count, "done": each.done} for name, each in rounds.items()
            },
            "curve": context.curve,
            "curves": context.curves,
            "diverged": context.diverged,
        },
    )
    if context.pictures:
        named = {str(step): pixels for step, pixels in context.pictures.items()}
        write_durably(run.folder / "pictures.safetensors", save(named))
    if not stopped_early and not context.diverged:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return Run(run.folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time: two would share out the draws, and each overwrite what the other learned."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    with open(folder / "learning.lock", "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(f'another process is training "{folder}"; wait for it, or stop it first') from None
        yield
    (folder / "learning.lock").unlink(missing_ok=True)


def _finished(run: Run) -> bool:
    """Whether the loops came to their end: then there is nothing left to draw, and the sampler stays as it is."""
    training = run.training
    return training is not None and not training["stopped_early"] and not training.get("diverged")
