"""The vault: the one place where private records are asked. Plan check, ledger, sum, noise, Release; in that order.

Methods are handed `Vault.ask` (or `Vault.loop`) and never the records. A question that is not in the plan is refused,
and so is a second answer to the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import final

import torch

from simulacra.errors import PlanError
from simulacra.privacy import discovery
from simulacra.privacy.book import Book
from simulacra.privacy.loop import Loop
from simulacra.privacy.noise import NoiseSource, Progress, require_exact
from simulacra.privacy.plan import Plan, PlannedStep
from simulacra.privacy.query import FeatureMap, Noise
from simulacra.privacy.records import Records
from simulacra.privacy.release import Release
from simulacra.privacy.sealed import Sealed, SealedValues
from simulacra.privacy.summing import in_memory, sum_over


@final
class Vault:
    """Answers exactly one plan, once. Opening it spends the plan's one-shot steps; training loops spend block by block.

    `run` names the run in the ledger. Answers are spooled in `folder` as they are made; reopening the vault on the same
    run and folder (`resume=True`) returns those same answers, and pays again only for an answer a crash swallowed.
    """

    def __init__(
        self,
        *,
        sealed: Sealed,
        plan: Plan,
        ledger: Book,
        run: str,
        folder: Path,
        noise: NoiseSource | None = None,
        resume: bool = False,
        on_batch: Callable[[], None] | None = None,
        on_noise: Progress | None = None,
    ) -> None:
        self._sealed, self._plan, self._ledger = sealed, plan, ledger
        self._run, self._folder = run, folder
        self._noise = noise or NoiseSource()
        self._on_batch, self._on_noise = on_batch, on_noise
        self._answered: dict[str, Release] = {}
        self._records: Records | None = None
        if any((planned.event.noise_multiplier > 0) != plan.private for planned in plan.steps):
            raise PlanError("a plan is private with noise in every step, or not private with noise in none")
        for planned in plan.steps:
            name = planned.step.name
            if Release.exists(folder, name):
                if not resume:
                    raise PlanError(f'"{name}" is already released in "{folder}"; resume that run, or use a new folder')
                release = Release.load(folder, name)
                if (release.step, release.event, release.noise_std) != (name, planned.event, planned.noise_std):
                    raise PlanError(f'"{name}" in "{folder}" was released under another plan; use a new folder')
                if not ledger.asked(run, name, planned.event):
                    raise PlanError(
                        f'ledger "{ledger.path}" knows nothing of "{name}" in "{folder}"; use its own ledger'
                    )
                self._answered[name] = release
        unanswered = [planned for planned in plan.steps if planned.step.name not in self._answered]
        if plan.private and any(planned.step.noise is Noise.EXACT for planned in unanswered):
            require_exact()
        self._reserve_what_is_missing()

    def ask(self, name: str, feature_map: FeatureMap) -> Release:
        """The noisy sum of a map over all records: one step of the plan, answered once."""
        return self.ask_all({name: feature_map})[name]

    def ask_all(self, maps: Mapping[str, FeatureMap]) -> dict[str, Release]:
        """Several steps answered in a single pass over the records."""
        return self.ask_together([self], maps)[0]

    @staticmethod
    def ask_together(vaults: Sequence[Vault], maps: Mapping[str, FeatureMap]) -> list[dict[str, Release]]:
        """The same steps of several runs over the same records, answered in a single pass.

        To each run it is as if it had been alone: its own plan admits the maps, its own ledger is told before any
        record is read, and its own noise is drawn afresh. What is shared is the sum, which stays in here.
        """
        if any(vault._sealed is not vaults[0]._sealed for vault in vaults):
            raise PlanError("runs that are answered together must be about the same sealed records")
        todo = [vault._unanswered(maps) for vault in vaults]
        for vault, steps in zip(vaults, todo, strict=True):
            for name, planned in steps.items():
                vault._ledger.ask(vault._run, name, planned.event)
        # From here on the questions are spent, whatever happens.
        wanted = {name: maps[name] for name in maps if any(name in steps for steps in todo)}
        sums = sum_over(vaults[0]._sealed, wanted, vaults[0]._on_batch) if wanted else {}
        for name in wanted:
            total = sums.pop(name)
            for vault, steps in zip(vaults, todo, strict=True):
                if name in steps:
                    vault._answer(steps[name], total)
        return [{name: vault._answered[name] for name in maps} for vault in vaults]

    def discover(self, name: str, values: SealedValues) -> dict[str, float]:
        """The values of a column that many records share, each with its noisy count; "" stands for no value."""
        planned = self._plan.step(name)
        discovery.admit(planned)
        if name in self._answered:
            return discovery.load(self._folder, self._answered[name])
        self._ledger.ask(self._run, name, planned.event)
        # From here on the question is spent, whatever happens.
        found = discovery.above_threshold(discovery.count(values, self._on_batch), planned, self._noise)
        source = "exact" if self._noise.seed is None else "seeded"
        self._answered[name] = discovery.save(self._folder, planned, found, source)
        self._ledger.answer(self._run, name, discovery.sha256(found))
        return found

    @contextmanager
    def loop(self, name: str, *, block: int = 1000, device: torch.device | str = "cpu") -> Iterator[Loop]:
        """A training loop: `draw(map)` gives the noisy clipped sum over a fresh Poisson sample.

        Draws are reserved in the ledger a block at a time. A resumed loop has only what was not reserved before: see
        `privacy/loop.py` for why the ledger covers every draw ever made.
        """
        planned = self._plan.step(name)
        if not planned.transient:
            raise PlanError(f'step "{name}" is asked once; ask it with vault.ask')
        if self._plan.private and self._noise.seed is not None:
            raise PlanError(f'step "{name}": a training loop leaves no release to mark as seeded, so it takes no seed')
        try:
            torch.zeros(1, dtype=torch.float64, device=device)
        except (TypeError, RuntimeError):  # before anything is reserved: sums are added up in double precision
            raise PlanError(f"training loops need a device with double precision, and {device} has none") from None
        if self._records is None or self._records.inputs.device != torch.device(device):
            records = in_memory(self._sealed)
            self._records = Records(inputs=records.inputs.to(device), labels=records.labels.to(device))
        yield Loop(
            records=self._records,
            planned=planned,
            private=self._plan.private,
            book=self._ledger,
            run=self._run,
            noise=self._noise,
            block=block,
        )

    def _unanswered(self, maps: Mapping[str, FeatureMap]) -> dict[str, PlannedStep]:
        """The planned steps of maps that have no answer yet; a map that the plan does not admit is refused."""
        todo: dict[str, PlannedStep] = {}
        for name, feature_map in maps.items():
            planned = self._plan.step(name)
            planned.step.admits(feature_map)
            if planned.transient:
                raise PlanError(f'step "{name}" is a training loop; open it with vault.loop')
            if name not in self._answered:
                todo[name] = planned
        return todo

    def _answer(self, planned: PlannedStep, total: torch.Tensor) -> None:
        """Protect a sum, and keep what comes of it."""
        release = self._protect(planned, total)
        release.save(self._folder)
        self._ledger.answer(self._run, release.step, release.sha256())
        self._answered[release.step] = release

    def _protect(self, planned: PlannedStep, total: torch.Tensor) -> Release:
        """Add the noise the plan says; the unprotected sum does not leave this function."""
        if not self._plan.private:
            value, source = total, "none"
        elif planned.step.noise is Noise.EXACT:
            value = torch.from_numpy(self._noise.exact(total.numpy(), planned.noise_std, self._on_noise))
            source = "exact"
        else:
            value, source = total + self._noise.fast(total, planned.noise_std), "fast"
        if self._noise.seed is not None and self._plan.private:
            source = "seeded"
        return Release(
            step=planned.step.name, value=value, noise_std=planned.noise_std, noise=source, event=planned.event
        )

    def _reserve_what_is_missing(self) -> None:
        """Spend the one-shot steps in one entry, so that of two runs racing for the last of a cap exactly one wins."""
        one_shot, loops = [], []
        for planned in self._plan.steps:
            name, count, event = planned.step.name, planned.step.count, planned.event
            if planned.transient:
                reserved = self._ledger.reserved(self._run, name)
                if reserved < count:
                    loops.append(replace(event, count=count - reserved))
            elif name not in self._answered and (
                # A reservation with other noise, of an earlier plan under the same name, does not pay for this one.
                self._ledger.reserved(self._run, name, event) <= self._ledger.asked(self._run, name, event)
            ):
                one_shot.append(planned)
        events = [planned.event for planned in one_shot]
        self._ledger.allow([*events, *loops])
        if events:
            self._ledger.reserve(self._run, [planned.step.name for planned in one_shot], events)
