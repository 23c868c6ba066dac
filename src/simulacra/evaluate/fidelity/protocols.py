"""How many images against which: two protocols of the literature, whose figures cannot be exchanged."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """So many generated images, against the real test or training images."""

    name: str
    generated: int
    reference: str
    citation: str


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="dp-gan",
            generated=60_000,
            reference="test",
            citation="Bie, Kamath and Zhang: Private GANs, revisited (2023)",
        ),
        Protocol(
            name="dp-mepf",
            generated=5_000,
            reference="train",
            citation="Harder et al.: Pre-trained Perceptual Features Improve Differentially Private Image Generation "
            "(TMLR 2023)",
        ),
    )
}
