"""Certificate: a machine-readable statement of what was released and what is promised; and its verifier.

`verify` needs nothing but the run folder: it recomputes sensitivities, noise and epsilon from the events, and the hash
of every file the certificate names. It shares no state with the run that wrote it.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from simulacra.errors import CertificateError, SimulacraError
from simulacra.privacy import accountant
from simulacra.privacy.durable import canonical, write_durably
from simulacra.privacy.noise import SOURCES
from simulacra.privacy.plan import Plan
from simulacra.privacy.query import Noise, discretisation_delta
from simulacra.privacy.release import Release
from simulacra.schema import Schema

FORMAT = 1
FILE = "certificate.json"
CURVE = (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 4.0, 8.0)
"""delta is stated at these multiples of the promised epsilon: dense enough around it that lines between them, in the
logarithm of delta, are the curve."""
LOOPS = (
    "epsilon: privacy loss distributions of Poisson-sampled Gaussian sums, composed over all rounds of the plan, "
    "drawn or not, and all other steps; epsilon_rdp: the same by Renyi divergence, the looser figure that papers report"
)
"""How plans with training loops are accounted for."""


def write_certificate(
    folder: Path,
    *,
    plan: Plan,
    releases: Sequence[Release],
    schema: Schema,
    run: str,
    method: str,
    settings: Mapping[str, Any],
    ledger_name: str,
    assumed_public: Sequence[str],
    remarks: Sequence[str] = (),
) -> dict[str, Any]:
    """State what was done in `folder`, whose releases and schema are already written there.

    A training loop is certified before its first draw: what is stated holds for every draw the plan allows, so it holds
    for a run that was cut short too. `remarks` are the method's own words about its loops.
    """
    budget = plan.budget
    statement: dict[str, Any] = {
        "kind": "simulacra certificate",
        "format": FORMAT,
        **_claims(plan, releases, schema),
        "epsilon": plan.epsilon(budget.delta) if budget else None,
        "delta": budget.delta if budget else None,
        "adjacency": str(plan.adjacency),
        "steps": [planned.to_json() for planned in plan.steps],
        "prior": [event.to_json() for event in plan.prior],
        "assumed_public": list(assumed_public),
        **({"remarks": list(remarks)} if remarks else {}),
        "method": method,
        "settings": dict(settings),
        "run": run,
        "ledger": ledger_name,
        "files": {name: _sha256(folder / name) for name in _named_files(releases)},
        "versions": _versions(),
    }
    statement["digest"] = _digest(statement)
    write_durably(folder / FILE, _dump(statement))
    return statement


def _claims(plan: Plan, releases: Sequence[Release], schema: Schema) -> dict[str, Any]:
    """All that follows from plan, releases and schema, in words and numbers; the verifier works it out again."""
    loops = {str(planned.step.noise) for planned in plan.steps if planned.transient and plan.private}
    sources = sorted({release.noise for release in releases} | loops)
    void = "the noise was drawn from a fixed seed, for a test" if "seeded" in sources else None
    events = (*plan.events, *plan.prior)
    budget = plan.budget
    return {
        "private": plan.private and void is None,
        "statement": _words(plan, schema, void),
        "void": void,
        "unit": schema.unit,
        "epsilon_rdp": _rdp(events, budget.delta) if budget else None,
        "curve": _curve(events, plan.epsilon(budget.delta)) if budget else [],
        "noise_source": "; ".join(SOURCES[source] for source in sources),
        **({"accounting": LOOPS} if loops else {}),
    }


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What the verifier found. `ok` only if there is no problem at all."""

    epsilon: float | None
    delta: float | None
    adjacency: str | None
    private: bool
    problems: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether everything holds together."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """The stable form of `verify --json`."""
        return {
            "ok": self.ok,
            "private": self.private,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "problems": list(self.problems),
        }


def load_certificate(folder: Path) -> dict[str, Any]:
    """Read a certificate without judging it; `verify` judges."""
    path = folder / FILE if folder.is_dir() else folder
    try:
        statement = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CertificateError(f'no certificate at "{path}"; give a run folder or a certificate.json') from None
    except (OSError, ValueError, RecursionError):
        raise CertificateError(f'certificate "{path}" is not readable JSON; it was changed or cut off') from None
    if not isinstance(statement, dict) or statement.get("kind") != "simulacra certificate":
        raise CertificateError(f'"{path}" is not a simulacra certificate')
    return statement


def verify(path: str | Path) -> Verification:
    """Check a run folder (or the certificate in one) from nothing but itself."""
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    file = folder / FILE if path.is_dir() else path
    statement = load_certificate(file)
    problems: list[str] = []
    try:
        if file.read_bytes() != _dump(statement) or statement["digest"] != _digest(statement):
            problems.append("the certificate was changed after it was written")
        plan = Plan.from_json(statement)
        epsilon = _check_epsilon(statement, plan, problems)
        _check_files(statement, plan, folder, problems)
    except (SimulacraError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        problems.append(f"the certificate does not hold together: {error}")
        return Verification(epsilon=None, delta=None, adjacency=None, private=False, problems=tuple(problems))
    return Verification(
        epsilon=epsilon,
        delta=statement["delta"],
        adjacency=statement["adjacency"],
        private=bool(statement["private"]),
        problems=tuple(problems),
    )


def _check_epsilon(statement: dict[str, Any], plan: Plan, problems: list[str]) -> float | None:
    if statement["void"]:
        problems.append(f"the certificate is void: {statement['void']}")
    if plan.budget is None:
        return None
    events = (*plan.events, *plan.prior)
    epsilon = accountant.epsilon(events, plan.budget.delta)
    if epsilon > statement["epsilon"] * (1 + 1e-9):
        problems.append(f"the events cost epsilon {epsilon:.6g}, the certificate claims {statement['epsilon']:.6g}")
    for planned in plan.steps:
        step, charged = planned.step, planned.step.failure_delta
        if step.noise is Noise.EXACT:
            charged += discretisation_delta(step.size, planned.noise_std, epsilon)
        if planned.event.failure_delta < charged * (1 - 1e-9):
            problems.append(f'step "{step.name}" does not pay for its threshold and the grid of its noise')
    return epsilon


def _check_files(statement: dict[str, Any], plan: Plan, folder: Path, problems: list[str]) -> None:
    for name, claimed in statement["files"].items():
        path = folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            problems.append(f'the certificate names a file outside its folder: "{name}"')
        elif not path.is_file():
            problems.append(f'"{name}" is missing')
        elif _sha256(path) != claimed:
            problems.append(f'"{name}" was changed after it was certified')
    if "schema.toml" not in statement["files"]:
        problems.append("the certificate does not name schema.toml")
    problems.extend(
        f'"releases/{path.name}" is not in the certificate'
        for path in sorted((folder / "releases").glob("*"))
        if f"releases/{path.name}" not in statement["files"]
    )
    # Training loops go on by plan.json, and what they did is in training.json: neither may say more than this file.
    file = folder / "plan.json"
    if file.is_file() and not statement["void"] and Plan.from_json(json.loads(file.read_bytes())) != plan:
        problems.append('"plan.json" is not what was certified')
    _check_rounds(plan, folder, problems)
    schema = Schema.load(folder / "schema.toml")
    bought = [accountant.Event.from_json(event) for event in schema.spent]
    if plan.private and tuple(bought) != plan.prior:
        problems.append("the prior events are not what the schema was bought with")
    releases = _check_releases(statement, plan, folder, problems)
    if len(releases) == sum(not planned.transient for planned in plan.steps) and not statement["void"]:
        problems.extend(
            f'"{name}" is not what follows from the events'
            for name, value in _claims(plan, releases, schema).items()
            if not _same(statement[name], value)
        )


def _check_rounds(plan: Plan, folder: Path, problems: list[str]) -> None:
    """Whether a training loop says that it took more turns than it may draw."""
    training = folder / "training.json"
    rounds = json.loads(training.read_bytes()).get("rounds", {}) if training.is_file() else {}
    problems.extend(
        f'"{name}" took {each["done"]} turns, and {plan.step(name).step.count} draws are certified'
        for name, each in rounds.items()
        if each["done"] > plan.step(name).step.count
    )


def _check_releases(statement: dict[str, Any], plan: Plan, folder: Path, problems: list[str]) -> list[Release]:
    """Whether every release is there and has the noise and the size that its step says; gives those that are."""
    found = []
    for planned in plan.steps:
        if f"releases/{planned.step.name}.json" not in statement["files"]:
            if not planned.transient:
                problems.append(f'the certificate names no release for step "{planned.step.name}"')
            continue
        try:
            release = Release.load(folder / "releases", planned.step.name)
        except SimulacraError as error:
            problems.append(str(error))
            continue
        if release.event != planned.event or not math.isclose(release.noise_std, planned.noise_std, rel_tol=1e-12):
            problems.append(f'release "{planned.step.name}" has other noise than the plan says')
        if plan.private and release.noise != str(planned.step.noise):
            problems.append(f'release "{planned.step.name}" has noise from another source than the plan says')
        if release.value.numel() != planned.step.size:
            problems.append(f'release "{planned.step.name}" has another size than the plan says')
        found.append(release)
    return found


def _same(claimed: Any, right: Any) -> bool:
    """Equal, up to the last digits that another version of a library may compute differently."""
    if isinstance(claimed, float) and isinstance(right, float):
        return math.isclose(claimed, right, rel_tol=1e-4, abs_tol=1e-300)
    if isinstance(claimed, list) and isinstance(right, list):
        return len(claimed) == len(right) and all(map(_same, claimed, right))
    if isinstance(claimed, dict) and isinstance(right, dict):
        return claimed.keys() == right.keys() and all(_same(claimed[key], right[key]) for key in right)
    return bool(claimed == right)


def _named_files(releases: Sequence[Release]) -> list[str]:
    names = ["schema.toml"]
    for release in releases:
        names += [f"releases/{release.step}.json", f"releases/{release.step}.safetensors"]
    return names


def _words(plan: Plan, schema: Schema, void: str | None) -> str:
    if void:
        return f"VOID: {void}."
    if plan.budget is None:
        return "NOT PRIVATE: no noise was added; this may reveal any record."
    neighbours = {
        "add-remove": f"one {schema.unit} is added or removed",
        "replace-one": f"one {schema.unit} is replaced by any other",
    }[str(plan.adjacency)]
    return (
        f"All that was released is ({plan.epsilon(plan.budget.delta):.6g}, {plan.budget.delta:g})-differentially "
        f"private with respect to data sets in which {neighbours}."
    )


def _curve(events: Sequence[accountant.Event], epsilon: float) -> list[dict[str, float]]:
    points = [epsilon * share for share in CURVE]
    return [{"epsilon": at, "delta": accountant.delta(events, at)} for at in points]


def _rdp(events: Sequence[accountant.Event], delta: float) -> float | None:
    """The looser figure a paper would report, or None where Renyi accounting does not apply."""
    try:
        figure = accountant.epsilon(events, delta, by="rdp")
    except (SimulacraError, ImportError):
        return None
    return figure if math.isfinite(figure) else None


def _versions() -> dict[str, str]:
    names = ("simulacra", "torch", "numpy", "scipy", "opendp", "dp-accounting", "safetensors")
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _dump(statement: dict[str, Any]) -> bytes:
    return (json.dumps(statement, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def _digest(statement: dict[str, Any]) -> str:
    return hashlib.sha256(canonical({k: v for k, v in statement.items() if k != "digest"}).encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise CertificateError(f'cannot read "{path}": {error.strerror}') from None
