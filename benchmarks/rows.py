"""Rows of the book: a method on a data set at an epsilon with a seed. A new family of rows is a few lines here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import click

from benchmarks import rivals
from simulacra import datasets
from simulacra.methods.presets import preset
from simulacra.schema import Schema

TABLES = ("adult", "census", "cervical", "covtype", "credit", "intrusion", "isolet")
"""The tables of the DP-NTK paper that can be had."""
REAL = "real"
"""The yardstick: the real training records in place of synthetic ones."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is run and scored as one. `epsilon` is None without privacy; `settings` differ from the method's own."""

    method: str
    data: str
    epsilon: float | None
    seed: int
    delta: float = 1e-5
    adjacency: str = "replace-one"
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    variant: str = ""
    labelled: bool = True
    """Whether the data set's labels are used; images can do without."""
    condensed: int | None = None
    """Records of each class, for rows whose samples are a condensed set. Where the method makes none itself, its
    release is condensed, from samples of the generator that was trained first."""

    @property
    def schema(self) -> Schema:
        """What is public about a record; needs no data."""
        found = datasets.schema(self.data)
        if self.labelled or found.image is None:
            return found
        return replace(found, image=replace(found.image, classes=()))

    @property
    def name(self) -> str:
        """For example dp-merf/mnist/eps1/seed0+VARIANT, or real/mnist/seed0; also its place in the folders."""
        budget = [] if self.real else ["not-private" if self.epsilon is None else f"eps{self.epsilon:g}"]
        ending = f"seed{self.seed}" + (f"+{self.variant}" if self.variant else "")
        return "/".join([self.method, self.data, *budget, ending])

    @property
    def real(self) -> bool:
        """Whether this is the yardstick."""
        return self.method == REAL

    @property
    def rival(self) -> bool:
        """Whether this is somebody else's method, fitted to the same cells."""
        return self.method in rivals.NAMES

    def to_mapping(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "settings": dict(self.settings), "name": self.name}


@dataclass(frozen=True, kw_only=True)
class Family:
    """Rows that differ in data set, epsilon and seed. `seeded` names settings that take the row's seed as well."""

    method: str
    data: Sequence[str]
    epsilons: Sequence[float | None] = (None,)
    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    delta: float = 1e-5
    adjacency: str = "replace-one"
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeded: Sequence[str] = ()
    variant: str = ""
    labelled: bool = True
    condensed: int | None = None

    def rows(self) -> list[Row]:
        """Every combination."""
        return [
            Row(
                method=self.method,
                data=data,
                epsilon=epsilon,
                seed=seed,
                delta=self.delta,
                adjacency=self.adjacency,
                settings={**self.settings, **dict.fromkeys(self.seeded, seed)},
                variant=self.variant,
                labelled=self.labelled,
                condensed=self.condensed,
            )
            for data in self.data
            for epsilon in self.epsilons
            for seed in self.seeds
        ]


def gan_families() -> list[Family]:
    """DP-GAN: the paper's runs, its sweeps, and shorter runs that show the same order where GPU time is short."""

    def family(data: str, epsilons: Sequence[float | None], variant: str, settings: Mapping[str, Any]) -> Family:
        seeds = (0, 1, 2)
        return Family(
            method="dp-gan",
            data=(data,),
            epsilons=epsilons,
            seeds=seeds,
            adjacency="add-remove",
            settings=settings,
            variant=variant,
        )

    def sampled(batch: int, steps: int) -> dict[str, Any]:
        """Batches of that many of 60,000 images, a public number."""
        return {"batch": batch, "rate": round(batch / 60_000, 7), "steps": steps}

    fixed, adaptive = preset("dp-gan", "mnist-fixed"), preset("dp-gan", "mnist")
    found = []
    for data in ("mnist", "fashion-mnist"):
        found += [
            family(data, (10,), "adaptive", preset("dp-gan", data)),
            family(data, (1,), "adaptive", preset("dp-gan", f"{data}-strict")),
        ]
    found.append(family("fashion-mnist", (10,), "pace100", preset("dp-gan", "fashion-mnist-fixed")))
    for critic_steps in (1, 10, 50, 100, 200):
        pace = {**fixed, "schedule.critic_steps": (critic_steps,)}
        found.append(family("mnist", (10,), f"pace{critic_steps}", pace))
        found.append(family("mnist", (10,), f"pace{critic_steps}-short", {**pace, **sampled(128, 50_000)}))
    for batch, steps in ((64, 450_000), (128, 450_000), (2048, 105_000)):
        found.append(family("mnist", (10,), f"batch{batch}", {**adaptive, **sampled(batch, steps)}))
    # An eighth of the published run's records, in fewer and larger steps with an average of the generator's weights.
    # Chosen on training images of MNIST: with so little noise the critic is ahead at a threshold of 0.6, and no more
    # steps of its own would ever come.
    large = {**sampled(2048, 7500), "learning_rate": 3e-4, "schedule.threshold": 0.8, "average": 0.999}
    found += [family(data, (1, 10), "large-short", {**adaptive, **large}) for data in ("mnist", "fashion-mnist")]
    # Half of the published steps. At the same epsilon each has less noise by the root of two, and a learning rate that
    # is higher by as much goes as far in half the steps; with less noise the paper found the higher threshold better.
    half = {"learning_rate": 3e-4, "average": 0.999}
    for data in ("mnist", "fashion-mnist"):
        for epsilon, name, steps in ((10, data, 87_000), (1, f"{data}-strict", 82_500)):
            chosen = {**preset("dp-gan", name), **half, "steps": steps, "schedule.threshold": 0.7}
            found.append(family(data, (epsilon,), "adaptive-half", chosen))
    pace = {**fixed, **half, **sampled(128, 225_000), "schedule.critic_steps": (50,)}
    found.append(family("mnist", (10,), "pace50-half", pace))
    # At the published run's noise multiplier, 0.97, for a fortieth of its steps; which is what the epsilon comes from.
    for critic_steps in (1, 10):
        brief = {**fixed, **sampled(128, 12_000), "schedule.critic_steps": (critic_steps,)}
        found.append(family("mnist", (1.5,), f"pace{critic_steps}-brief", brief))
    found += [
        # Without noise, a generator step for each critic step, as GANs are usually trained; Figure 4 of the paper.
        family("mnist", (None,), "pace1", {**fixed, **sampled(128, 50_000), "schedule.critic_steps": (1,)}),
        family("adult", (1, 10), "", {"rate": 0.02, "steps": 5000, "average": 0.0}),
        family("adult", (1, 10), "averaged", {"rate": 0.02, "steps": 5000}),
    ]
    return found


def pairs_ingredients() -> list[Family]:
    """Pairs on Adult without one of its parts at a time: what each adds."""
    even = round(14 / 105, 4)  # 14 columns and the label make 105 pairs, 14 of them with the label
    without: dict[str, dict[str, Any]] = {
        "network": {"generator.kind": "auto"},
        "even-shares": {"label_share": even},
        "noisy-columns": {"column_noise": 100.0},
        "no-strong": {"fitting.label_spread": 0.5},
        "no-prior": {"fitting.spread": 1000.0, "fitting.label_spread": 1000.0},
    }
    return [
        Family(method="pairs", data=("adult",), epsilons=(1,), seeds=(0, 1, 2), settings=settings, variant=variant)
        for variant, settings in without.items()
    ]


def condensation_families() -> list[Family]:
    """LDPDC and NDPDC: the paper's tables, its sweeps, and NDPDC with a learning rate that falls."""

    def family(
        method: str,
        data: str,
        epsilons: Sequence[float | None],
        variant: str = "",
        per_class: int = 50,
        **settings: Any,
    ) -> Family:
        chosen = {**preset(method, data), "per_class": per_class, **settings}
        return Family(
            method=method,
            data=(data,),
            epsilons=epsilons,
            adjacency="add-remove",
            settings=chosen,
            variant=variant,
            condensed=per_class,
        )

    found = []
    # The paper's default is a noise multiplier of 1, which is this epsilon with counts, by privacy loss distributions.
    for data, default in (("mnist", 5.0), ("fashion-mnist", 5.0), ("cifar10", 6.2), ("celeba-gender", 0.31)):
        found += [
            family("ndpdc", data, (1, default)),
            family("ndpdc", data, (1, default), "falling", final_rate=0.05),
            family("ldpdc", data, (1,)),
            # Distribution matching: no noise, no clipping, and a loss of means where the others have sums of 50.
            family("ndpdc", data, (None,), "dm", clip=None, learning_rate=0.0004),
        ]
    found += [
        family("ndpdc", "adult", (1, 10)),
        family("ndpdc", "adult", (1, 10), "falling", rounds=2000, final_rate=0.05),
        # The defaults for tables, with groups of 500 on average; chosen on held-back training rows.
        replace(
            family("ndpdc", "adult", (1, 10), "rectified"),
            settings={"per_class": 50, "rate": round(1000 / 32_561, 6)},
        ),
        family("ldpdc", "mnist", (10,)),
        family("ndpdc", "mnist", (10,)),
        family("ndpdc", "mnist", (10,), "falling", final_rate=0.05),
    ]
    # Groups of 50 on average, by public numbers; two classes of 32,561 records, and ten of 60,000 images.
    for method, data, rate in (
        ("ldpdc", "adult", 100 / 32_561),
        ("dpmix", "adult", 100 / 32_561),
        ("dpmix", "mnist", 500 / 60_000),
    ):
        settings = {"per_class": 50, "rate": round(rate, 6)}
        one = Family(method=method, data=(data,), epsilons=(1, 10), adjacency="add-remove", settings=settings)
        found.append(replace(one, condensed=50))
    # Begun from samples of a cheap release, in the same budget, and from noise where the rows above do not have it.
    found += [family("ndpdc", "mnist", (0.2,)), family("ndpdc", "mnist", (0.2, 1), "from-moments", begin="moments")]
    # Tables VI to IX: noise, group size, rounds and set size; the noise follows from epsilon.
    found.append(family("ndpdc", "mnist", (2,), "sweep-noise"))
    found += [family("ndpdc", "mnist", (1,), f"group{size}", rate=size / 6000) for size in (25, 100)]
    found += [family("ndpdc", "mnist", (1,), f"rounds{count}", rounds=count) for count in (2000, 4000, 8000)]
    found += [family("ndpdc", "mnist", (1,), f"per-class{count}", per_class=count) for count in (10, 20, 100, 200)]
    return found


SMALL = "small-16-cifar10.safetensors"
"""Five minutes of one core: simulacra pretrain small --widths 16,32,64 --data cifar10 --epochs 6 --side 28 --out ..."""
PUBLIC = "resnet18-small-cifar10.safetensors"
"""For grey images, where the paper has a network trained on SVHN; in the folder encoders of the cache."""


def short_perceptual_families() -> list[Family]:
    """DP-MEPF on CIFAR-10 at its defaults, a twentieth of the published steps; and without what they add."""

    def family(epsilons: Sequence[float | None], variant: str, labelled: bool = True, **more: Any) -> Family:
        return Family(
            method="dp-mepf",
            data=("cifar10",),
            epsilons=epsilons,
            seeds=(0, 1, 2),
            settings={
                "encoder.network": "vgg19-normalised",
                "stopping.proxy": "encoder",
                "training.precision": "bf16",
                **{key.replace("__", "."): value for key, value in more.items()},
            },
            variant=variant,
            labelled=labelled,
        )

    few = (0.2, 0.5, 1)
    return [
        family((0.2, 0.5, 1, 2, 10, None), "short"),
        family(few, "short-noisy", denoise=False),
        family(few, "short-random64", projection__source="random", projection__directions=64),
        family(few, "short-directions", projection__source="directions-fashion-mnist.safetensors"),
        family((0.2, 1, 10, None), "unlabelled-short", labelled=False),
        family((0.2, 1), "unlabelled-short-noisy", labelled=False, denoise=False),
    ]


def perceptual_families() -> list[Family]:
    """DP-MEPF: the paper's tables, projections where it collapses, and our own loss beside the tracked one."""

    def family(
        name: str, data: str, epsilons: Sequence[float | None], variant: str = "", *, labelled: bool = True, **more: Any
    ) -> Family:
        quick = {"training.precision": "bf16"}
        settings = {
            **preset("dp-mepf", name),
            **quick,
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        return Family(
            method="dp-mepf",
            data=(data,),
            epsilons=epsilons,
            seeds=(0, 1, 2),
            settings=settings,
            variant=variant,
            labelled=labelled,
        )

    wide: tuple[float | None, ...] = (0.2, 0.5, 1, 2, 5, 10, None)
    # torchvision's VGG19 is for those who can download it; the other one comes out of a published package.
    # Its own last layer is read off the same pass; Inception would take hours of a processor for each release.
    usual = {"encoder__network": "vgg19-normalised", "stopping__proxy": "encoder"}
    found = []
    for data in ("mnist", "fashion-mnist"):  # Tables 1, 2, 10 and 11
        found += [
            family(data, data, (0.2, 1, 2, 5, 10, None), encoder__weights=PUBLIC),
            family(data, data, (0.2, 1, 2, 5, 10, None), "first", encoder__weights=PUBLIC, moments=1),
            family(
                data,
                data,
                (1, 10),
                "plain",
                encoder__weights=PUBLIC,
                denoise=True,
                training__loss="plain",
                training__steps=20_000,
                training__batch=500,
                training__learning_rate=1e-3,
                training__final_rate=0.05,
                training__average=0.999,
            ),
        ]
        # Without a GPU: a network of 72,000 weights, which sees fewer features, so that they have less noise.
        found.append(
            family(
                data,
                data,
                (1, 10, None),
                "small",
                encoder__network="small",
                encoder__widths=(16, 32, 64),
                encoder__weights=SMALL,
                denoise=True,
                training__loss="plain",
                training__precision="single",
                training__steps=2000,
                training__batch=200,
                training__learning_rate=2e-3,
                training__final_rate=0.05,
                training__average=0.999,
            )
        )
    # Tables 5, 6, 14, 15 and 16, and Table 4: the proxy's choice beside the end of training.
    found += [
        family("cifar10", "cifar10", wide, **usual),
        family("cifar10", "cifar10", wide, "first", moments=1, **usual),
        family("cifar10", "cifar10", (0.2, 0.5, 1), "first-last", moments=1, stopping__choice="last", **usual),
        family(
            "cifar10",
            "cifar10",
            (0.2, 0.5, 1),
            "first-inception",
            moments=1,
            **{**usual, "stopping__proxy": "inception"},
        ),
        family("cifar10-unlabelled", "cifar10", wide, "unlabelled", labelled=False, **usual),
        family("cifar10-unlabelled", "cifar10", wide, "unlabelled-first", labelled=False, moments=1, **usual),
        family("celeba", "celeba", wide, **usual),
        family("celeba", "celeba", wide, "first", moments=1, **usual),
        family("celeba-64", "celeba-64", wide, **usual),
        family("celeba-64", "celeba-64", wide, "first", moments=1, **usual),
        family("celeba-64", "celeba-64", (0.2, 0.5, 1), "first-last", moments=1, stopping__choice="last", **usual),
    ]
    plain = {
        "denoise": True,
        "training__loss": "plain",
        "training__steps": 50_000,
        "training__batch": 512,
        "training__final_rate": 0.05,
        "training__average": 0.999,
    }
    found += [
        family("cifar10", "cifar10", (0.2, 1, 2, 10, None), "plain", **usual, **plain),
        family("cifar10-unlabelled", "cifar10", (1, 10, None), "unlabelled-plain", labelled=False, **usual, **plain),
    ]
    found += short_perceptual_families()
    # Fewer numbers to add noise to; the directions are of images that have nothing to do with the private ones.
    for directions in (16, 64, 256):
        found.append(
            family(
                "cifar10",
                "cifar10",
                (0.2, 0.5, 1),
                f"random{directions}",
                projection__source="random",
                projection__directions=directions,
                **usual,
            )
        )
    public = "directions-fashion-mnist.safetensors"
    found.append(family("cifar10", "cifar10", (0.2, 0.5, 1), "directions", projection__source=public, **usual))
    for network in TABLE_17:
        for moments, ending in ((2, ""), (1, "-first")):
            found.append(
                family(
                    "cifar10-unlabelled",
                    "cifar10",
                    (0.2, None),
                    f"unlabelled-{network}{ending}",
                    labelled=False,
                    moments=moments,
                    encoder__network=network,
                    stopping__proxy="encoder",
                )
            )
    # Table 18: the same private images through networks that learned from other public ones.
    small = {"encoder__network": "resnet18-small", "stopping__proxy": "encoder"}
    found.append(family("celeba", "celeba", (0.2,), "public-imagenet", **{**small, "encoder__network": "resnet18"}))
    for public in ("cifar10", "svhn"):
        weights = f"resnet18-small-{public}.safetensors"
        found.append(family("celeba", "celeba", (0.2,), f"public-{public}", encoder__weights=weights, **small))
    return found


TABLE_17 = (
    *("vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
    *("convnext-tiny", "convnext-small", "convnext-base", "convnext-large"),
    *("efficientnet-s", "efficientnet-m", "efficientnet-l"),
)


# The frequencies are drawn anew for each seed, so that the spread over seeds counts all that is random.
FAMILIES: list[Family] = [
    Family(method=REAL, data=("mnist", "fashion-mnist", "cifar10", *TABLES)),
    # As many real records as there are synthetic ones: twelve classifiers take hours for half a million.
    Family(method=REAL, data=("covtype",), seeds=(0,), settings={"rows": 60_000}, variant="60000-rows"),
    Family(method="dp-merf", data=("mnist", "fashion-mnist"), epsilons=(1, 10), seeded=("feature_seed",)),
    Family(method="dp-ntk", data=("mnist", "fashion-mnist"), epsilons=(0.2, 1, 10), seeded=("feature_seed",)),
    *(
        Family(
            method="dp-ntk",
            data=("mnist",),
            epsilons=(10,),
            settings={"widths": (width,)},
            seeded=("feature_seed",),
            variant=f"width{width}",
        )
        for width in (100, 400, 1000)
    ),
    *(
        Family(
            method="dp-ntk",
            data=("cifar10",),
            epsilons=(10, None),
            settings={
                "network": "fc_2l",
                "widths": (3000, 200),
                "inputs": inputs,
                "training.steps": steps,
                "training.batch": batch,
                "training.learning_rate": 0.001,
            },
            seeded=("feature_seed",),
            variant=variant,
            labelled=False,
        )
        # The rate is the one of three with which 1,500 steps came closest to the release, which scores nothing.
        for inputs, steps, batch, variant in (
            ("unit", 6_000, 500, "unlabelled-6000-steps"),
            ("signed", 6_000, 500, "unlabelled-signed-6000-steps"),
            ("signed", 40_000, 1000, "unlabelled-signed"),
        )
    ),
    Family(
        method="dp-ntk",
        data=("celeba",),
        epsilons=(10,),
        settings=preset("dp-ntk", "celeba"),
        seeded=("feature_seed",),
    ),
    *(
        Family(
            method=method,
            data=("mnist", "fashion-mnist"),
            epsilons=(1, 10),
            seeded=("feature_seed",),
            variant="condensed-50",
            condensed=50,
        )
        for method in ("dp-merf", "dp-ntk")
    ),
    Family(method="dp-hp", data=("mnist", "fashion-mnist"), epsilons=(1, 10), seeded=("feature_seed",)),
    Family(method="moments", data=("mnist", "fashion-mnist"), epsilons=(1, 10), adjacency="add-remove"),
    Family(method="hybrid", data=("mnist", "fashion-mnist"), epsilons=(1, 10), seeded=("feature_seed",)),
    Family(
        method="hybrid",
        data=("mnist",),
        epsilons=(1, 10),
        settings={"parts": ("moments", "dp-ntk")},
        seeded=("feature_seed",),
        variant="moments-dp-ntk",
    ),
    Family(method="hybrid", data=("adult",), epsilons=(1, 10), seeded=("feature_seed",)),
    Family(method="pairs", data=("adult",), epsilons=(0.2, 10)),
    Family(method="pairs", data=TABLES, epsilons=(1,)),
    *pairs_ingredients(),
    *(
        Family(method=method, data=TABLES, epsilons=(1,), seeded=("feature_seed",))
        for method in ("dp-merf", "dp-ntk", "dp-hp")
    ),
    *(
        Family(method=method, data=("adult",), epsilons=(10,), seeded=("feature_seed",))
        for method in ("dp-merf", "dp-ntk", "dp-hp")
    ),
    # Their relation is add-remove, which is the weaker promise: a line of ours under it stands beside them.
    Family(method="pairs", data=TABLES, epsilons=(1,), adjacency="add-remove", variant="add-remove"),
    *(Family(method=name, data=TABLES, epsilons=(1,), adjacency="add-remove") for name in rivals.NAMES),
    *(Family(method=name, data=("adult",), epsilons=(10,), adjacency="add-remove") for name in rivals.NAMES),
    *gan_families(),
    *perceptual_families(),
    *condensation_families(),
]


def all_rows() -> dict[str, Row]:
    """Every row, by its name."""
    rows: dict[str, Row] = {}
    for row in (row for family in FAMILIES for row in family.rows()):
        if row.name in rows:
            raise click.ClickException(f"two rows are called {row.name}; give one of them a variant")
        rows[row.name] = row
    return rows


def select(patterns: Iterable[str]) -> list[Row]:
    """The rows that any of the shell patterns fits, in the order of the registry; a pattern without a row is refused.

    An asterisk runs over slashes too: dp-merf/* is all of that method.
    """
    rows = all_rows()
    chosen: set[str] = set()
    for pattern in patterns:
        found = [name for name in rows if fnmatchcase(name, pattern)]
        if not found:
            raise click.ClickException(f'no row is called "{pattern}"{_nearest(pattern, list(rows))}')
        chosen.update(found)
    return [row for name, row in rows.items() if name in chosen]


def _nearest(pattern: str, names: list[str]) -> str:
    close = get_close_matches(pattern, names, n=3, cutoff=0.5)
    return f"; the closest are {', '.join(close)}" if close else "; see them all with: python -m benchmarks.book list"
