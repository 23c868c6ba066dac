"""The default method: by the schema alone, and the same wherever none is named."""

from __future__ import annotations

import pytest
import tiny

import simulacra
from simulacra import datasets
from simulacra.errors import SettingError
from simulacra.methods import AUTO, MOST_CELLS, all_methods, default_for, make_method
from simulacra.methods.presets import methods_with, names
from simulacra.schema import Categorical, ImageShape, Numeric, Schema


def of_cells(cells: int) -> Schema:
    """A table of two columns with so many cells together."""
    codes = Categorical(name="code", values=tuple(range(cells - 10)))
    return Schema(columns=(codes, Numeric(name="age", lower=0.0, upper=99.0, bins=10)))


def steps(schema: Schema) -> list[str]:
    """What is asked if no method is named."""
    plan = simulacra.plan(schema, epsilon=1.0, delta=1e-5, adjacency="add-remove")
    return [planned.step.name for planned in plan.steps]


@pytest.mark.parametrize("text", [tiny.PEOPLE, tiny.UNLABELLED], ids=["labelled", "unlabelled"])
def test_a_table_is_given_to_pairs(text: str) -> None:
    schema = tiny.schema(text)
    assert default_for(schema) == make_method(AUTO, {}, schema).name == "pairs"
    assert steps(schema) == ["columns", "pairs"]


@pytest.mark.parametrize(
    "schema", [tiny.schema(tiny.PICTURES), Schema(image=ImageShape(height=8, width=8))], ids=["labelled", "unlabelled"]
)
def test_images_are_given_to_dp_merf(schema: Schema) -> None:
    assert default_for(schema) == make_method(AUTO, {}, schema).name == "dp-merf"
    assert steps(schema) == ["class-counts", "embedding"]


def test_a_table_of_too_many_cells_is_given_to_dp_merf() -> None:
    """Cells of all columns count together."""
    assert default_for(of_cells(MOST_CELLS)) == "pairs"
    assert default_for(of_cells(MOST_CELLS + 1)) == "dp-merf"
    assert steps(of_cells(MOST_CELLS + 1)) == ["class-counts", "embedding"]


def test_known_data_sets_have_the_default_that_the_documentation_says() -> None:
    wide = {name for name in datasets.names() if default_for(datasets.schema(name)) == "dp-merf"}
    assert {name for name in wide if datasets.schema(name).image is None} == {"isolet"}
    assert all(name in wide for name in datasets.names() if datasets.schema(name).image is not None)


def test_auto_is_no_method_and_what_it_makes_has_a_name_of_its_own() -> None:
    assert AUTO not in all_methods()
    assert make_method(AUTO, {"label_share": 0.4}, tiny.schema(tiny.PEOPLE)) == make_method(
        "pairs", {"label_share": 0.4}, tiny.schema(tiny.PEOPLE)
    )


def test_a_setting_that_the_default_has_not_is_refused_with_its_name() -> None:
    with pytest.raises(SettingError, match=r'"length_scales".*the method is pairs by default; choose another'):
        make_method(AUTO, {"length_scales": "1"}, tiny.schema(tiny.PEOPLE))
    with pytest.raises(SettingError, match=r'"label_share".*the method is dp-merf by default; choose another'):
        make_method(AUTO, {"label_share": "0.4"}, tiny.schema(tiny.PICTURES))


def test_the_methods_with_a_preset_are_those_that_have_it() -> None:
    assert methods_with("mnist") == tuple(sorted(method for method in all_methods() if "mnist" in names(method)))
    assert methods_with("nothing") == ()
