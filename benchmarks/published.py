"""Figures that papers report, beside which ours are put. Only those whose protocol is one of our scorings, or close."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SOURCES: dict[str, str] = {
    "dp-ntk": "Yang et al., Differentially Private Neural Tangent Kernels for Privacy-Preserving Data Generation, "
    "2023, Table 2 (images) and Table 4 (tables); it quotes the other methods' own papers",
    "dp-mepf": "Harder et al., Pre-trained Perceptual Features Improve Differentially Private Image Generation, "
    "TMLR 2023, Tables 1, 2 and 6, and its preprint for the third decimal",
    "dp-gan": "Bie, Kamath and Zhang, Private GANs, Revisited, 2023, Table 1",
    "dpdc": "Zheng and Li, Differentially Private Dataset Condensation, AISCC 2024, Tables I and II",
}

REMARKS: dict[str, str] = {
    "dp-ntk": "Images: classifiers saw 6,000 samples. Tables: ranked by predicted classes, on test rows whose class "
    "shares were changed, and for DP-HP and DP-NTK with the best of several settings on the test rows, a habit ours "
    "do not follow; for DP-MERF other shares of the largest class were kept, so its AUPRC is of another test set; nor "
    "are the rows quite the same.",
    "dp-mepf": "Classifiers saw 60,000 samples; the ResNet-9 saw 50,000.",
    "dpdc": "A ConvNet trained on 50 images per class; budgets by Renyi accounting at the smallest class's rate, "
    "with class sizes taken as public.",
    "dp-gan": "The network saw 55,000 of 60,000 samples and the other 5,000 chose the epoch; FID is against the test "
    "images.",
}

Column = tuple[str, str]
"""A scoring, and one of its scores."""

LR_6000, MLP_6000 = ("lr-mlp-6000", "lr_accuracy"), ("lr-mlp-6000", "mlp_accuracy")
LR_60000, MLP_60000 = ("lr-mlp-60000", "lr_accuracy"), ("lr-mlp-60000", "mlp_accuracy")
CNN, FID = ("cnn", "cnn_accuracy"), ("fid-dp-gan", "fid")
RESNET9 = ("resnet9", "resnet9_accuracy")
CONVNET = ("convnet-condensed", "convnet_accuracy")
AUROC, AUPRC = ("tables-as-published", "auroc_mean"), ("tables-as-published", "auprc_mean")
F1 = ("tables-as-published", "f1_mean")


@dataclass(frozen=True, kw_only=True)
class Published:
    """One line of a paper's table."""

    data: str
    method: str
    epsilon: float | None
    figures: Mapping[Column, float]
    source: str
    variant: str = ""


def _lines(source: str, columns: tuple[Column, ...], lines: str) -> list[Published]:
    """Lines of: method (variant) | data set | epsilon | figures, in the order of the columns."""
    found = []
    for line in lines.strip().splitlines():
        method, data, epsilon, *values = (word.strip() for word in line.split("|"))
        found.append(
            Published(
                data=data,
                method=method.partition(" ")[0],
                variant=method.partition(" ")[2].strip("()"),
                epsilon=None if epsilon == "none" else float(epsilon),
                figures=dict(zip(columns, map(float, values), strict=True)),
                source=source,
            )
        )
    return found


PUBLISHED: list[Published] = [
    *_lines(
        "dp-ntk",
        (LR_6000, MLP_6000),
        """
        dp-merf | mnist | 0.2 | .772 | .768
        dp-merf | mnist | 1 | .769 | .807
        dp-merf | mnist | 10 | .794 | .783
        dp-merf | fashion-mnist | 0.2 | .714 | .696
        dp-merf | fashion-mnist | 1 | .728 | .738
        dp-merf | fashion-mnist | 10 | .755 | .745
        dp-hp | mnist | 1 | .807 | .801
        dp-hp | mnist | 10 | .8082 | .8038
        dp-hp | fashion-mnist | 1 | .7387 | .7215
        dp-hp | fashion-mnist | 10 | .7387 | .7168
        dp-ntk | mnist | 0.2 | .804 | .794
        dp-ntk | mnist | 1 | .8324 | .8620
        dp-ntk | mnist | 10 | .8400 | .8800
        dp-ntk | fashion-mnist | 0.2 | .634 | .694
        dp-ntk | fashion-mnist | 1 | .7596 | .7645
        dp-ntk | fashion-mnist | 10 | .7663 | .7838
        """,
    ),
    *_lines(
        "dp-mepf",
        (LR_60000, MLP_60000),
        """
        dp-mepf (both moments) | mnist | none | .846 | .914
        dp-mepf (both moments) | mnist | 0.2 | .758 | .799
        dp-mepf (both moments) | mnist | 1 | .825 | .893
        dp-mepf (both moments) | mnist | 2 | .829 | .893
        dp-mepf (both moments) | mnist | 5 | .833 | .899
        dp-mepf (both moments) | mnist | 10 | .834 | .898
        dp-mepf (first moment) | mnist | none | .814 | .882
        dp-mepf (first moment) | mnist | 0.2 | .721 | .771
        dp-mepf (first moment) | mnist | 1 | .790 | .875
        dp-mepf (first moment) | mnist | 10 | .808 | .888
        dp-mepf (both moments) | fashion-mnist | none | .743 | .744
        dp-mepf (both moments) | fashion-mnist | 0.2 | .725 | .704
        dp-mepf (both moments) | fashion-mnist | 1 | .754 | .747
        dp-mepf (both moments) | fashion-mnist | 2 | .758 | .751
        dp-mepf (both moments) | fashion-mnist | 5 | .752 | .758
        dp-mepf (both moments) | fashion-mnist | 10 | .757 | .760
        """,
    ),
    *_lines(
        "dp-gan",
        (FID, CNN),
        """
        real | mnist | none | 1.0 | .992
        real | fashion-mnist | none | 1.5 | .925
        dp-gan (step schedule) | mnist | 1 | 56.2 | .801
        dp-gan (step schedule) | mnist | 10 | 13.0 | .950
        dp-gan (step schedule) | fashion-mnist | 1 | 121.8 | .680
        dp-gan (step schedule) | fashion-mnist | 10 | 56.8 | .748
        """,
    ),
    *_lines(
        "dp-ntk",
        (AUROC, AUPRC),
        """
        real | adult | none | .786 | .683
        dp-merf | adult | 1 | .642 | .524
        dp-hp | adult | 1 | .688 | .632
        dp-ntk | adult | 1 | .695 | .557
        real | census | none | .776 | .433
        dp-merf | census | 1 | .685 | .236
        dp-hp | census | 1 | .699 | .328
        dp-ntk | census | 1 | .710 | .424
        real | cervical | none | .959 | .858
        dp-merf | cervical | 1 | .531 | .176
        dp-hp | cervical | 1 | .616 | .310
        dp-ntk | cervical | 1 | .631 | .335
        real | credit | none | .924 | .864
        dp-merf | credit | 1 | .751 | .622
        dp-hp | credit | 1 | .786 | .744
        dp-ntk | credit | 1 | .821 | .759
        """,
    ),
    *_lines(
        "dp-ntk",
        (F1,),
        """
        real | covtype | none | .820
        dp-merf | covtype | 1 | .467
        dp-hp | covtype | 1 | .537
        dp-ntk | covtype | 1 | .552
        real | intrusion | none | .971
        dp-merf | intrusion | 1 | .892
        dp-hp | intrusion | 1 | .890
        dp-ntk | intrusion | 1 | .717
        """,
    ),
    *_lines(
        "dp-mepf",
        (RESNET9,),
        """
        real | cifar10 | none | .883
        dp-mepf (first moment) | cifar10 | none | .508
        dp-mepf (first moment) | cifar10 | 0.2 | .138
        dp-mepf (first moment) | cifar10 | 0.5 | .194
        dp-mepf (first moment) | cifar10 | 1 | .294
        dp-mepf (first moment) | cifar10 | 2 | .425
        dp-mepf (first moment) | cifar10 | 5 | .485
        dp-mepf (first moment) | cifar10 | 10 | .510
        dp-mepf (both moments) | cifar10 | none | .472
        dp-mepf (both moments) | cifar10 | 0.2 | .124
        dp-mepf (both moments) | cifar10 | 0.5 | .197
        dp-mepf (both moments) | cifar10 | 1 | .289
        dp-mepf (both moments) | cifar10 | 2 | .387
        dp-mepf (both moments) | cifar10 | 5 | .479
        dp-mepf (both moments) | cifar10 | 10 | .489
        dp-merf | cifar10 | 1 | .138
        dp-merf | cifar10 | 10 | .132
        """,
    ),
    *_lines(
        "dpdc",
        (CONVNET,),
        """
        ndpdc | mnist | 1 | .9532
        ndpdc | mnist | 6.12 | .9735
        ndpdc | fashion-mnist | 1 | .7879
        ndpdc | fashion-mnist | 5.45 | .8272
        ndpdc | cifar10 | 1 | .4240
        ndpdc | cifar10 | 6.72 | .5268
        ldpdc | mnist | 1 | .8580
        ldpdc | fashion-mnist | 1 | .6364
        ldpdc | cifar10 | 1 | .2546
        ndpdc (dm) | mnist | none | .9838
        ndpdc (dm) | fashion-mnist | none | .8690
        ndpdc (dm) | cifar10 | none | .5969
        dp-merf (condensed-50) | mnist | 1 | .8481
        dp-merf (condensed-50) | fashion-mnist | 1 | .6305
        """,
    ),
]
