"""The methods, by name. One paper, one file; to add one, write the file and name it here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simulacra.errors import SchemaError, SettingError, suggestion
from simulacra.schema import Schema

if TYPE_CHECKING:
    from simulacra.methods.base import Method

AUTO = "auto"
"""In place of a method's name: the default for the schema."""
MOST_CELLS = 5000
"""In all columns together. Beyond, `pairs` is no default: time and memory grow with the square; here it takes 2 GB."""


def all_methods() -> dict[str, type[Method]]:
    """Every method, by its name."""
    from simulacra.methods.dp_gan import DPGAN
    from simulacra.methods.dp_hp import DPHP
    from simulacra.methods.dp_mepf import DPMEPF
    from simulacra.methods.dp_merf import DPMERF
    from simulacra.methods.dp_ntk import DPNTK
    from simulacra.methods.dpmix import DPMix
    from simulacra.methods.hybrid import Hybrid
    from simulacra.methods.ldpdc import LDPDC
    from simulacra.methods.moments import MomentsMethod
    from simulacra.methods.ndpdc import NDPDC
    from simulacra.methods.pairs import AllPairs

    found = (DPMERF, DPMEPF, DPNTK, DPHP, AllPairs, MomentsMethod, Hybrid, DPGAN, NDPDC, LDPDC, DPMix)
    return {method.name: method for method in found}


def default_for(schema: Schema) -> str:
    """The method for those who choose none, by the schema alone: what records look like may not decide it.

    >>> from simulacra.schema import Boolean, ImageShape, Schema
    >>> default_for(Schema(columns=(Boolean(name="ill"),))), default_for(Schema(image=ImageShape(height=8, width=8)))
    ('pairs', 'dp-merf')
    """
    few = schema.image is None and sum(column.cells for column in schema.columns) <= MOST_CELLS
    return "pairs" if few else "dp-merf"


def make_method(name: str, settings: Mapping[str, Any], schema: Schema) -> Method:
    """A method with its settings, checked against the kind of data; `auto` is the default for that kind."""
    if name == AUTO:
        name = default_for(schema)
        try:
            return make_method(name, settings, schema)
        except SettingError as error:  # perhaps a setting of another method: say which one this is
            raise SettingError(f"{error} (the method is {name} by default; choose another with method)") from None
    known = all_methods()
    if name not in known:
        raise SettingError(f'unknown method "{name}"{suggestion(name, known)}')
    kind = known[name]
    if schema.image is not None and not kind.images:
        raise SchemaError(f"{name} is for tables, and the schema describes images")
    if schema.image is None and not kind.tables:
        raise SchemaError(f"{name} is for images, and the schema describes a table")
    defaults = kind().suited_to(schema)
    return defaults.replace(settings).resolved(schema)
