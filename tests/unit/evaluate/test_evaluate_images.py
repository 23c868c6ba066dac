from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from simulacra.errors import DataError, SettingError
from simulacra.evaluate import Scores, evaluate_images


def invent(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images of 6 x 6 pixels in which the class lights up one row."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    images = random.integers(0, 80, (count, 6, 6), dtype=np.uint8)
    images[np.arange(count), labels] += 120
    return images, labels


def test_both_classifiers_learn_from_synthetic_images():
    result = evaluate_images(*invent(150, 0), *invent(60, 1))
    assert set(result.scores) == {"lr_accuracy", "lr_f1", "mlp_accuracy", "mlp_f1"}
    assert min(result.scores.values()) > 0.95
    assert result.notes == []


def test_the_same_images_in_another_range_have_the_same_scores():
    (images, labels), (test, truth) = invent(60, 0), invent(60, 1)
    expected = evaluate_images(images, labels, test, truth, classifiers=["lr"])
    unit = evaluate_images((images / 255)[..., None], labels, test / 255, truth, pixels="unit", classifiers=["lr"])
    signed = evaluate_images(
        images / 127.5 - 1, labels, (test / 127.5 - 1).astype(np.float32), truth, pixels="signed", classifiers=["lr"]
    )
    assert expected.scores == unit.scores == signed.scores


def test_one_seed_has_no_best_and_no_spread():
    result = evaluate_images(*invent(60, 0), *invent(60, 1), classifiers=["mlp"], seed=5)
    assert set(result.scores) == {"mlp_accuracy", "mlp_f1"}
    assert [row["seed"] for row in result.details["classifiers"][0]["per_seed"]] == [5]
    assert result.details["seed"] == 5


def test_mean_best_and_spread_over_seeds_are_kept_apart():
    images, labels = invent(60, 0)  # too few to learn well, so that seeds disagree
    result = evaluate_images(images, labels, *invent(60, 1), classifiers=["cnn"], seed=2, seeds=3)
    (row,) = result.details["classifiers"]
    accuracies = [one["accuracy"] for one in row["per_seed"]]
    assert [one["seed"] for one in row["per_seed"]] == [2, 3, 4]
    assert len(set(accuracies)) > 1
    assert result.scores["cnn_accuracy"] == row["accuracy"] == pytest.approx(np.mean(accuracies))
    assert result.scores["cnn_accuracy_best"] == max(accuracies)
    assert result.scores["cnn_accuracy_spread"] == pytest.approx(np.std(accuracies, ddof=1))
    assert result.scores["cnn_f1"] == pytest.approx(np.mean([one["f1"] for one in row["per_seed"]]))
    spread = np.std([one["f1"] for one in row["per_seed"]], ddof=1)
    assert result.scores["cnn_f1_spread"] == pytest.approx(spread)
    assert row["engine"] == "torch"
    assert row["title"]
    assert {"held_out_accuracy", "chosen_epoch", "steps", "seconds", "note"} <= set(row["per_seed"][0])
    assert Scores.from_json(result.to_json()) == result


def test_the_engine_can_be_chosen():
    result = evaluate_images(*invent(60, 0), *invent(60, 1), engine="torch")
    assert {row["engine"] for row in result.details["classifiers"]} == {"torch"}
    assert min(result.scores.values()) > 0.95


def test_classes_need_not_count_from_zero():
    (images, labels), (test, truth) = invent(300, 0), invent(60, 1)
    result = evaluate_images(images, labels * 10 - 5, test, truth * 10 - 5, classifiers=["lr", "cnn"])
    assert result.scores["lr_accuracy"] > 0.95
    assert result.scores["cnn_accuracy"] > 0.6


def test_progress_names_the_classifiers():
    told: list[str] = []
    evaluate_images(*invent(30, 0), *invent(30, 1), progress=told.append)
    assert told == ["Logistic regression (1 of 2)", "Multi-layer perceptron (2 of 2)"]


def test_fewer_rows_can_be_asked_for():
    result = evaluate_images(*invent(150, 0), *invent(60, 1), train_rows=30, classifiers=["lr"])
    assert result.details["train_rows"] == 30


def test_one_synthetic_class_answers_that_class():
    images, _ = invent(30, 0)
    result = evaluate_images(images, np.full(30, 2), *invent(60, 1))
    assert result.scores["lr_accuracy"] == result.scores["mlp_accuracy"] == pytest.approx(1 / 3)
    assert any("same class" in note for note in result.notes)
    assert any("2 classes" in note for note in result.notes)


def test_one_class_of_test_images_is_explained():
    test, truth = invent(60, 1)
    result = evaluate_images(*invent(60, 0), test[truth == 1], truth[truth == 1], classifiers=["lr"])
    assert any("one class only" in note for note in result.notes)


def test_images_that_do_not_fit_are_refused():
    images, labels = invent(30, 0)
    with pytest.raises(DataError, match="labels"):
        evaluate_images(images, labels[:5], images, labels)
    with pytest.raises(DataError, match="pixels"):
        evaluate_images(images[:, :5], labels, images, labels)
    with pytest.raises(DataError, match="at least one"):
        evaluate_images(images[:0], labels[:0], images, labels)
    with pytest.raises(DataError, match="bytes"):
        evaluate_images(images.astype(np.float32), labels, images, labels)
    with pytest.raises(DataError, match="from 0 to 1"):
        evaluate_images(images.astype(np.float32), labels, images / 255, labels, pixels="unit")
    with pytest.raises(SettingError, match="seeds must be at least 1"):
        evaluate_images(images, labels, images, labels, seeds=0)
    with pytest.raises(SettingError, match="unknown classifier"):
        evaluate_images(images, labels, images, labels, classifiers=["svm"])
