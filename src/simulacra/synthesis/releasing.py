"""From data to releases: everything is checked, planned and written down before the first record is asked."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simulacra.errors import BudgetError, LedgerError, OutputError, PlanError, SimulacraError
from simulacra.methods import AUTO, make_method
from simulacra.networks.devices import plain_torch
from simulacra.privacy.accountant import Event
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.plan import Plan, make_plan, make_plan_without_privacy
from simulacra.schema import Schema
from simulacra.synthesis.run import FORMAT, Run
from simulacra.synthesis.watching import Watcher

LEFT_BY_A_CRASH = ("schema.toml", "plan.json", "plan.json.partial", "run.json.partial")
"""What a folder may hold before run.json is written."""

if TYPE_CHECKING:
    from simulacra.methods.base import Method, ReleaseOnce
    from simulacra.methods.looping import PrivateLoop
    from simulacra.privacy.ledger import Ledger
    from simulacra.privacy.noise import NoiseSource
    from simulacra.privacy.query import FeatureMap
    from simulacra.privacy.release import Release
    from simulacra.privacy.sealed import Sealed
    from simulacra.privacy.vault import Vault


def load_schema(schema: Schema | str | Path, label: str | None = None) -> Schema:
    """A schema, or the file it is in; `label` overrides the label column."""
    loaded = schema if isinstance(schema, Schema) else Schema.load(schema)
    return loaded if label is None else replace(loaded, label=label)


def plan(
    schema: Schema | str | Path,
    *,
    method: str = AUTO,
    epsilon: float | None,
    delta: float | None,
    adjacency: str | Adjacency,
    label: str | None = None,
    settings: Mapping[str, Any] | None = None,
    not_private: bool = False,
) -> Plan:
    """What would be asked and with how much noise. Costs nothing and needs no data.

    >>> from simulacra.schema import Boolean, Numeric, Schema
    >>> schema = Schema(columns=(Numeric(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
    >>> [step.step.name for step in plan(schema, epsilon=1.0, delta=1e-5, adjacency="add-remove").steps]
    ['columns', 'pairs']
    """
    loaded = load_schema(schema, label)
    return plan_for(make_method(method, settings or {}, loaded), loaded, epsilon, delta, adjacency, not_private)


@plain_torch()
def release(
    data: Any,
    *,
    schema: Schema | str | Path,
    method: str = AUTO,
    epsilon: float | None,
    delta: float | None,
    adjacency: str | Adjacency,
    out: str | Path,
    ledger: str | Path | None = None,
    label: str | None = None,
    settings: Mapping[str, Any] | None = None,
    not_private: bool = False,
    resume: bool = False,
    watcher: Watcher | None = None,
    insecure_noise: NoiseSource | None = None,
) -> Run:
    """Ask the vault everything the method's plan says, once, and certify the answers in a new run folder.

    `ledger` is the file that counts everything ever released from this data set; for a data file it defaults to
    NAME.ledger in the working folder. `insecure_noise` is for tests and voids the certificate.
    """
    from simulacra.methods.base import ReleaseOnce

    loaded = load_schema(schema, label)
    chosen = make_method(method, settings or {}, loaded)
    if not isinstance(chosen, ReleaseOnce):
        raise PlanError(f"{chosen.name} trains on the records and has no separate release; use fit")
    opened = open_run(
        data,
        schema=loaded,
        method=chosen,
        plan=plan_for(chosen, loaded, epsilon, delta, adjacency, not_private),
        out=out,
        ledger=ledger,
        resume=resume,
        watcher=watcher,
        noise=insecure_noise,
    )
    opened.answer_and_certify(chosen.questions(loaded), chosen.remarks(loaded))
    return opened.run


@plain_torch()
def release_together(
    data: Any,
    *,
    budgets: Mapping[str | Path, float | Literal["not-private"]],
    schema: Schema | str | Path,
    method: str = AUTO,
    delta: float | None,
    adjacency: str | Adjacency,
    ledger: str | Path | None = None,
    label: str | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    watcher: Watcher | None = None,
) -> list[Run]:
    """The same questions at several epsilons, each in a new run folder of its own, in a single pass over the records.

    For comparing budgets on data that may be spent so: all runs are paid for, and together they promise what the
    ledger adds up to. Where a network looks at every record, a further run costs no more than its noise.
    """
    from simulacra.methods.base import ReleaseOnce
    from simulacra.privacy.vault import Vault

    loaded = load_schema(schema, label)
    chosen = make_method(method, settings or {}, loaded)
    if not isinstance(chosen, ReleaseOnce):
        raise PlanError(f"{chosen.name} trains on the records and has no separate release; use fit for each budget")
    if not budgets:
        raise PlanError("nothing to release: name a folder and an epsilon for each run")

    def planned(epsilon: float | Literal["not-private"]) -> Plan:
        if epsilon == "not-private":
            return plan_for(chosen, loaded, None, None, adjacency, True)
        return plan_for(chosen, loaded, epsilon, delta, adjacency, False)

    opened = open_runs(
        data,
        schema=loaded,
        method=chosen,
        plans={Path(out): planned(epsilon) for out, epsilon in budgets.items()},
        ledger=ledger,
        resume=resume,
        watcher=watcher,
    )
    answered = Vault.ask_together([each.vault for each in opened], chosen.questions(loaded))
    for each, releases in zip(opened, answered, strict=True):
        each.certify(releases, chosen.remarks(loaded))
    return [each.run for each in opened]


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A run that was checked, planned and written down, with its vault."""

    run: Run
    vault: Vault
    plan: Plan
    book: Ledger

    def answer_and_certify(
        self, questions: Mapping[str, FeatureMap], remarks: Sequence[str] = ()
    ) -> dict[str, Release]:
        """Ask what is asked once, and state what is promised for it and for every draw the plan allows."""
        releases = self.vault.ask_all(questions)
        self.certify(releases, remarks)
        return releases

    def certify(self, releases: Mapping[str, Release], remarks: Sequence[str] = ()) -> None:
        """State what is promised for these answers."""
        from simulacra.privacy.certificate import write_certificate

        write_certificate(
            self.run.folder,
            plan=self.plan,
            releases=list(releases.values()),
            schema=self.run.schema,
            run=self.run.facts["run"],
            method=self.run.facts["method"],
            settings=self.run.method.to_mapping(),
            ledger_name=self.book.name,
            assumed_public=_assumed_public(self.run.schema),
            remarks=remarks,
        )


def open_run(data: Any, *, plan: Plan, out: str | Path, **rest: Any) -> Opened:
    """One run; see `open_runs`."""
    return open_runs(data, plans={Path(out): plan}, **rest)[0]


def open_runs(
    data: Any,
    *,
    schema: Schema,
    method: ReleaseOnce | PrivateLoop,
    plans: Mapping[Path, Plan],
    ledger: str | Path | None,
    resume: bool,
    watcher: Watcher | None,
    noise: NoiseSource | None = None,
    facts: Mapping[str, Any] | None = None,
) -> list[Opened]:
    """Check data, folders and ledger, write down what is about to happen, and open the vaults; in that order.

    `facts` go into run.json, and must be the same when a run is resumed.
    """
    from simulacra.data import open_source
    from simulacra.privacy.ledger import Ledger
    from simulacra.privacy.sealed import Sealed
    from simulacra.privacy.summing import rehearse

    watcher = watcher or Watcher()
    ledger_path = ledger_for(data, ledger)
    for folder in plans:
        if ledger_path.absolute().is_relative_to(folder.absolute()):
            raise OutputError(f'the ledger outlives the run: keep "{ledger_path}" outside of "{folder}"')
        if folder.exists() and not resume:
            raise OutputError(f'"{folder}" exists already; choose a new folder, or add resume to continue that run')
    source = open_source(data, schema)
    adjacency = next(iter(plans.values())).adjacency
    events = [event for plan in plans.values() for event in plan.events]
    if ledger_path.exists() and not resume:  # a cap refuses at once, before a long file is read
        Ledger.open_or_create(ledger_path, adjacency=adjacency).allow(events)
    watcher.stage("Checking the data file")
    source.check()
    rehearse(method.questions(schema), inputs=schema.inputs, classes=schema.classes)
    book = Ledger.open_or_create(ledger_path, adjacency=adjacency)
    watcher.stage("Reading the records")
    sealed = Sealed(source, schema)
    return [
        _open_vault(folder, sealed, schema, method, plan, book, resume, watcher, noise, facts or {})
        for folder, plan in plans.items()
    ]


def _open_vault(
    folder: Path,
    sealed: Sealed,
    schema: Schema,
    method: ReleaseOnce | PrivateLoop,
    plan: Plan,
    book: Ledger,
    resume: bool,
    watcher: Watcher,
    noise: NoiseSource | None,
    facts: Mapping[str, Any],
) -> Opened:
    from simulacra.privacy.vault import Vault

    run = _open_folder(folder, schema, method, plan, book, resume=resume, facts=facts)
    try:
        vault = Vault(
            sealed=sealed,
            plan=plan,
            ledger=book,
            run=run.facts["run"],
            folder=folder / "releases",
            noise=noise,
            resume=resume,
            on_batch=watcher.on_batch,
            on_noise=watcher.on_noise,
        )
    except SimulacraError:
        if not resume:  # refused before anything was spent: leave nothing behind
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return Opened(run=run, vault=vault, plan=plan, book=book)


def ledger_for(data: Any, ledger: str | Path | None) -> Path:
    """The ledger's file: as told, or named after the data file."""
    if ledger is not None:
        return Path(ledger)
    if isinstance(data, (str, Path)):
        return Path(f"{Path(data).name.split('.')[0]}.ledger")
    raise LedgerError('data in memory has no name to keep accounts under; name a ledger: ledger="patients.ledger"')


def plan_for(
    method: Method,
    schema: Schema,
    epsilon: float | None,
    delta: float | None,
    adjacency: str | Adjacency,
    not_private: bool,
) -> Plan:
    """A method's questions with the noise that a budget asks for."""
    relation = Adjacency.parse(str(adjacency))
    steps = method.plan(schema)
    if not_private:
        if epsilon is not None:
            raise BudgetError("not-private and epsilon exclude each other; drop one of them")
        return make_plan_without_privacy(steps, relation)
    if epsilon is None or delta is None:
        raise BudgetError("epsilon and delta are needed; to run without any privacy say so with not-private")
    schema.check_delta(delta)
    budget = Budget(epsilon=epsilon, delta=delta, adjacency=relation)
    prior = [Event.from_json(event) for event in schema.spent]
    if any(event.adjacency is not relation for event in prior):
        raise BudgetError(f"the schema was paid for under {prior[0].adjacency}; use that relation here too")
    return make_plan(steps, budget, prior=prior)


def _open_folder(
    folder: Path,
    schema: Schema,
    method: Method,
    planned: Plan,
    book: Ledger,
    *,
    resume: bool,
    facts: Mapping[str, Any],
) -> Run:
    """Make the run folder and write down what is about to happen; or, to resume, check that it is the same."""
    if resume and (folder / "run.json").exists():
        run = Run.load(folder)
        same = run.schema == schema and run.method == method and run._json("plan.json") == planned.to_json()
        if not same or any(run.facts.get(name) != value for name, value in facts.items()):
            raise PlanError(f'"{folder}" was started with other settings; resume with the same ones, or start anew')
        return run
    made = not folder.exists()
    if not made and any(file.name not in LEFT_BY_A_CRASH for file in folder.iterdir()):
        raise OutputError(f'"{folder}" is not a run folder; resume one that release or fit began, or choose a new one')
    book.allow(planned.events)
    try:
        folder.mkdir(parents=True, exist_ok=resume)
    except OSError as error:
        raise OutputError(f'cannot make the folder "{folder}": {error.strerror}; choose another') from None
    run = Run(folder)
    try:
        schema.save(folder / "schema.toml")
        run.write_json("plan.json", planned.to_json())
        # run.json comes last: it makes the folder a run.
        run.write_json(
            "run.json",
            {
                "format": FORMAT,
                "run": secrets.token_hex(8),
                "method": method.name,
                "settings": method.to_mapping(),
                "ledger": book.name,
                **facts,
            },
        )
    except OutputError:
        if made:  # never a folder that was there before
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return run


def _assumed_public(schema: Schema) -> list[str]:
    rows = (
        f"the number of records, declared as {schema.rows}"
        if schema.rows is not None
        else "not the number of records: totals come from the noisy counts"
    )
    described = "the image shape and classes" if schema.image else "column names, types, bounds and categories"
    return [
        f"the schema: {described}" + (", partly bought with the prior events" if schema.spent else ""),
        rows,
        "the method, all its settings and seeds, and the code",
        f"each record is one {schema.unit}; whoever has several records is protected less",
    ]
