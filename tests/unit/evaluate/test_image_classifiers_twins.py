"""The twins in torch agree with scikit-learn, which is the reference."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from simulacra.evaluate.image_classifiers import predictions, twin_logistic
from simulacra.evaluate.image_classifiers.twin_perceptron import Perceptrons, perceptron

SPLIT = 1200


def written(classes: int = 10) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """scikit-learn's small digits, as fractions."""
    digits = load_digits()
    kept = digits.target < classes
    pixels = np.clip(digits.images[kept] * 16, 0, 255).astype(np.uint8)
    return pixels.reshape(len(pixels), -1) / np.float32(255), digits.target[kept].astype(np.int64)


def quietly(estimator: MLPClassifier, inputs: NDArray[np.float64], labels: NDArray[np.int64]) -> MLPClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged is the point here
        return estimator.fit(inputs, labels)


def weights(estimator: MLPClassifier) -> list[torch.Tensor]:
    """In the order and shape in which the twin keeps them."""
    (first, second), (first_bias, second_bias) = estimator.coefs_, estimator.intercepts_
    return [torch.from_numpy(array)[None] for array in (first, first_bias[None], second, second_bias[None])]


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_logistic_regression_takes_the_same_path(classes):
    """In the same precision; in float32 scikit-learn's own path is another one after some sixty steps."""
    inputs, labels = written(classes)
    reference = LogisticRegression(max_iter=5000).fit(inputs.astype(np.float64), labels)
    coefficients, iterations = twin_logistic.fit(inputs, labels, device="cpu")
    assert abs(iterations - reference.n_iter_[0]) <= 2
    np.testing.assert_allclose(coefficients[:-1].T, reference.coef_, atol=1e-3)
    np.testing.assert_allclose(coefficients[-1], reference.intercept_, atol=1e-3)
    (answer,) = twin_logistic.logistic(inputs, labels, inputs, seeds=[0])
    assert answer.predicted is not None
    assert np.mean(answer.predicted == reference.predict(inputs.astype(np.float64))) > 0.999


@pytest.mark.parametrize("classes", [2, 10])
def test_gradients_of_the_perceptron_are_those_of_its_loss(classes):
    inputs, labels = (torch.from_numpy(array) for array in written(classes))
    networks = Perceptrons(inputs.double(), labels, classes=classes, seeds=[0, 1])
    chosen = torch.arange(60).view(2, 30)
    loss = networks.differentiate(chosen)
    for number in range(2):
        first, first_bias, second, second_bias = (layer[number].clone().requires_grad_() for layer in networks.layers)
        scores = torch.relu(inputs[chosen[number]].double() @ first + first_bias) @ second + second_bias
        truth = labels[chosen[number]]
        entropy = (
            torch.nn.functional.binary_cross_entropy_with_logits(scores[:, 0], truth.double())
            if classes == 2
            else torch.nn.functional.cross_entropy(scores, truth)
        )
        stated = entropy + 0.5 * 1e-4 / 30 * (first.square().sum() + second.square().sum())
        assert loss[number].item() == pytest.approx(stated.item(), rel=1e-9)
        expected = torch.autograd.grad(stated, [first, first_bias, second, second_bias])
        for slope, gradient in zip(networks.slopes, expected, strict=True):
            assert torch.allclose(slope[number], gradient, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 10])
def test_epochs_of_the_perceptron_are_those_of_scikit_learn(classes):
    """From the same weights and in the same order, three epochs with a last batch that is not full."""
    inputs, labels = written(classes)
    inputs64, settings = inputs.astype(np.float64), {"random_state": 3, "shuffle": False, "batch_size": 70}
    still = quietly(MLPClassifier(max_iter=1, learning_rate_init=1e-300, **settings), inputs64, labels)
    reference = quietly(MLPClassifier(max_iter=3, **settings), inputs64, labels)
    twin = Perceptrons(
        torch.from_numpy(inputs64), torch.from_numpy(labels), classes=classes, seeds=[0], batch=settings["batch_size"]
    )
    for layer, value in zip(twin.layers, weights(still), strict=True):
        layer.copy_(value)
    twin.order.copy_(torch.arange(len(inputs))[None])
    losses = []
    for _ in range(3):
        twin.epoch()
        losses.append(twin.loss.item())
    np.testing.assert_allclose(losses, reference.loss_curve_, rtol=1e-6)
    for layer, value in zip(twin.layers, weights(reference), strict=True):
        assert torch.allclose(layer, value, atol=1e-6)


def test_first_weights_have_the_range_of_scikit_learn():
    inputs, labels = (torch.from_numpy(array) for array in written())
    first, first_bias, second, second_bias = Perceptrons(inputs, labels, classes=10, seeds=[0, 1]).layers
    for layer, bound in ((first, 6 / 164), (first_bias, 6 / 164), (second, 6 / 110), (second_bias, 6 / 110)):
        assert layer.abs().max() <= bound**0.5
        assert layer.abs().max() > 0.8 * bound**0.5
    assert not torch.equal(first[0], first[1])


def test_the_perceptron_is_as_accurate_as_scikit_learns():
    inputs, labels = written()
    truth = labels[SPLIT:]
    images = (inputs * 255).round().astype(np.uint8).reshape(-1, 8, 8)
    accuracies = {
        engine: [
            np.mean(answer.predicted == truth)
            for answer in predictions(
                "mlp", images[:SPLIT], labels[:SPLIT], images[SPLIT:], classes=10, seeds=range(3), engine=engine
            )
        ]
        for engine in ("scikit-learn", "torch")
    }
    assert np.mean(accuracies["torch"]) == pytest.approx(np.mean(accuracies["scikit-learn"]), abs=0.01)


def test_a_perceptron_stops_by_its_own_rule_and_stays():
    """Trained beside a slower one, it has the weights and epochs it has alone."""
    inputs, labels = written(2)
    alone = [perceptron(inputs, labels, inputs, seeds=[seed])[0] for seed in range(4)]
    together = perceptron(inputs, labels, inputs, seeds=range(4))
    assert len({answer.steps for answer in alone}) > 1
    assert all(answer.details["iterations"] < 200 for answer in alone)
    for one, other in zip(alone, together, strict=True):
        assert one.details["iterations"] == other.details["iterations"]
        assert one.details["loss"] == pytest.approx(other.details["loss"], rel=1e-3)
        assert np.mean(one.predicted == other.predicted) > 0.99


def test_a_perceptron_that_diverges_gives_no_answer():
    inputs, labels = written(3)
    inputs[5] = np.nan
    answers = perceptron(inputs, labels, inputs, seeds=[0, 1])
    assert [answer.predicted for answer in answers] == [None, None]
