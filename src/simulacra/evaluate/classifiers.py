"""The twelve classifiers of the papers, one fixed setting each.

The settings are the list of DP-MERF (Harder et al. 2021): scikit-learn's defaults save 2,000 iterations for the
logistic regression and alpha = 0.02 for the Bernoulli model. Several settings per classifier, of which the best on the
test rows is kept, as in later papers, would measure the search as much as the data.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from simulacra.errors import SettingError, suggestion

CANNOT_TRAIN = (ValueError, ArithmeticError, IndexError)
"""What estimators raise on rows that are too few or too much alike; linear algebra's own errors are ValueErrors."""

BOOSTER = "xgboost" if importlib.util.find_spec("xgboost") else "hist_gradient_boosting"
"""The boosted classifier that this installation has."""


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """A name for JSON, a title for people, and how to make a fresh, unfitted estimator from a seed.

    `double` says that it wants double precision: in single precision the probabilities of naive Bayes round to 0 and 1
    much sooner, and rows that tie cannot be ranked. The others use single precision inside, or are quicker with it.
    """

    name: str
    title: str
    make: Callable[[int], Any]
    double: bool = False
    slow: bool = False
    """Whether it takes far longer than most, so that it had better begin first."""


def _logistic_regression(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=2000, random_state=seed)


def _gaussian_nb(seed: int) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


def _bernoulli_nb(seed: int) -> Any:
    from sklearn.naive_bayes import BernoulliNB

    return BernoulliNB(alpha=0.02)


def _linear_svc(seed: int) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(dual="auto", random_state=seed)


def _decision_tree(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(random_state=seed)


def _lda(seed: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis()


def _ada_boost(seed: int) -> Any:
    from sklearn.ensemble import AdaBoostClassifier

    return AdaBoostClassifier(random_state=seed)


def _bagging(seed: int) -> Any:
    from sklearn.ensemble import BaggingClassifier

    return BaggingClassifier(random_state=seed)


def _random_forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=seed, n_jobs=1)


def _gradient_boosting(seed: int) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(random_state=seed)


def _mlp(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(random_state=seed)


def _xgboost(seed: int) -> Any:
    from xgboost import XGBClassifier

    # One thread: its threads wait for each other in a busy loop, which takes 20 times as long on shared cores.
    return XGBClassifier(random_state=seed, verbosity=0, n_jobs=1)


def _hist_gradient_boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


_MAKERS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "logistic_regression": ("Logistic regression", _logistic_regression),
    "gaussian_nb": ("Gaussian naive Bayes", _gaussian_nb),
    "bernoulli_nb": ("Bernoulli naive Bayes", _bernoulli_nb),
    "linear_svc": ("Linear support vectors", _linear_svc),
    "decision_tree": ("Decision tree", _decision_tree),
    "lda": ("Linear discriminant analysis", _lda),
    "ada_boost": ("AdaBoost", _ada_boost),
    "bagging": ("Bagging", _bagging),
    "random_forest": ("Random forest", _random_forest),
    "gradient_boosting": ("Gradient boosting", _gradient_boosting),
    "mlp": ("Multi-layer perceptron", _mlp),
    "xgboost": ("XGBoost", _xgboost),
    "hist_gradient_boosting": ("Histogram gradient boosting", _hist_gradient_boosting),
}

_DOUBLE = frozenset({"gaussian_nb", "bernoulli_nb"})
_SLOW = frozenset({"mlp", "gradient_boosting", "logistic_regression", "random_forest"})

ALL: tuple[str, ...] = (*list(_MAKERS)[:11], BOOSTER)
"""The names of the twelve, in the papers' order; the last is the booster that is installed."""


def choose(names: Iterable[str] | None = None) -> list[Classifier]:
    """The named classifiers, all twelve by default; `booster` means whichever booster is installed."""
    chosen: list[Classifier] = []
    for name in ALL if names is None else names:
        known = BOOSTER if name == "booster" else name
        if known not in _MAKERS:
            raise SettingError(f'unknown classifier "{name}"{suggestion(name, [*ALL, "booster"])}')
        if any(one.name == known for one in chosen):
            continue  # a mean over classifiers counts each once
        title, make = _MAKERS[known]
        chosen.append(Classifier(name=known, title=title, make=make, double=known in _DOUBLE, slow=known in _SLOW))
    if not chosen:
        raise SettingError("no classifier was chosen; name at least one, or leave the choice out for all twelve")
    return chosen
