"""AUROC of the twelve classifiers, written a second time with pandas and scikit-learn alone, to check the first.

python -m benchmarks.independent SYNTHETIC.csv TEST.csv SCHEMA.toml

Nothing of simulacra is imported. Two classes, no missing values.
"""

from __future__ import annotations

import json
import sys
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier


def twelve(seed: int = 0) -> dict[str, Any]:
    """The list of DP-MERF's paper, with scikit-learn's defaults save for two settings."""
    return {
        "logistic_regression": LogisticRegression(max_iter=2000, random_state=seed),
        "gaussian_nb": GaussianNB(),
        "bernoulli_nb": BernoulliNB(alpha=0.02),
        "linear_svc": LinearSVC(dual="auto", random_state=seed),
        "decision_tree": DecisionTreeClassifier(random_state=seed),
        "lda": LinearDiscriminantAnalysis(),
        "ada_boost": AdaBoostClassifier(random_state=seed),
        "bagging": BaggingClassifier(random_state=seed),
        "random_forest": RandomForestClassifier(random_state=seed),
        "gradient_boosting": GradientBoostingClassifier(random_state=seed),
        "mlp": MLPClassifier(random_state=seed),
        "xgboost": XGBClassifier(random_state=seed, n_jobs=1),
    }


def numbers(frame: pd.DataFrame, columns: Mapping[str, Any], label: str) -> np.ndarray:
    """Numbers from 0 to 1 between their bounds, categories one-hot in the order of the schema."""
    parts = []
    for name, column in columns.items():
        if name == label:
            continue
        if column["type"] == "numeric":
            low, high = column["lower"], column["upper"]
            values = frame[name].clip(low, high).astype(float)
            scaled = (
                np.log1p(values - low) / np.log1p(high - low) if column.get("log") else (values - low) / (high - low)
            )
            parts.append(scaled.to_numpy()[:, None])
        else:
            listed = pd.Categorical(frame[name].astype(str), categories=[str(value) for value in column["values"]])
            parts.append(pd.get_dummies(listed).to_numpy(dtype=float))
    return np.concatenate(parts, axis=1)


def aurocs(
    synthetic: pd.DataFrame, real: pd.DataFrame, schema: Mapping[str, Any], names: list[str] | None = None
) -> dict[str, float]:
    """By the name of a classifier, its AUROC on real rows after training on synthetic ones."""
    columns, label = schema["columns"], schema["label"]
    positive = str(columns[label]["values"][1])
    x, y = numbers(synthetic, columns, label), synthetic[label].astype(str) == positive
    test, truth = numbers(real, columns, label), real[label].astype(str) == positive
    found = {}
    for name, model in twelve().items():
        if names is not None and name not in names:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x, y)
        scores = model.predict_proba(test)[:, 1] if hasattr(model, "predict_proba") else model.decision_function(test)
        found[name] = float(roc_auc_score(truth, scores))
    return found


def main() -> None:
    """Read files and print what was found."""
    synthetic, real, schema = sys.argv[1:]
    found = aurocs(pd.read_csv(synthetic), pd.read_csv(real), tomllib.loads(Path(schema).read_text(encoding="utf-8")))
    print(json.dumps(found | {"mean": float(np.mean(list(found.values())))}, indent=2))


if __name__ == "__main__":
    main()
