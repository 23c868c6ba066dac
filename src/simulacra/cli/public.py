"""pretrain and directions: what can be learned from public images before any private one is asked."""

from __future__ import annotations

import click

from simulacra.cli.inputs import schema_of
from simulacra.cli.options import flags
from simulacra.cli.show import emit, progress, say


def _widths(text: str) -> tuple[int, ...]:
    from simulacra.errors import SettingError

    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise SettingError(f'--widths wants whole numbers such as 32,64,128, got "{text}"')
    return found


@click.command()
@click.argument("network")
@click.option("--data", required=True, help="A known public data set of labelled images.")
@click.option("--epochs", type=int, default=15, show_default=True, help="How often each image is seen.")
@click.option("--batch", type=int, default=256, show_default=True, help="Images per step.")
@click.option("--rate", type=float, default=1e-3, show_default=True, help="Learning rate.")
@click.option("--side", type=int, help="Bring images to this side first.")
@click.option("--widths", default="32,64,128", show_default=True, help='Channels of the network "small".')
@flags("out", "seed", "device", "json")
def pretrain(
    network: str,
    data: str,
    epochs: int,
    batch: int,
    rate: float,
    side: int | None,
    widths: str,
    out: str,
    seed: int,
    device: str,
    as_json: bool,
) -> None:
    """Train the encoder NETWORK on public images, for dp-mepf. Writes OUT (.safetensors) and facts beside it."""
    from simulacra.networks import pretraining
    from simulacra.networks.devices import pick_device

    schooling = pretraining.Schooling(
        epochs=epochs, batch=batch, learning_rate=rate, side=side, seed=seed, device=pick_device(device)
    )
    with progress(as_json) as watcher:
        watcher.stage(f"Training {network} on {data}")
        facts = pretraining.pretrain(
            network, data=data, out=out, widths=_widths(widths), schooling=schooling, on_step=watcher.on_step
        )
    if as_json:
        emit({"out": out, **facts})
    else:
        say(f"{out}: {network} names {float(facts['accuracy']):.1%} of the test images of {data}")
        chosen = f" --set encoder.widths={facts['widths']}" if facts["widths"] else ""
        say(f"use it with: --set encoder.network={network}{chosen} --set encoder.weights={out}")


@click.command()
@click.argument("network")
@click.option("--data", required=True, help="A known public data set of images.")
@click.option("--weights", type=click.Path(), help="A file of the network's weights, if not the published ones.")
@click.option("--widths", default="32,64,128", show_default=True, help='Channels of the network "small".')
@click.option("--directions", "count", type=int, default=64, show_default=True, help="How many, in each layer.")
@click.option("--images", type=int, default=2000, show_default=True, help="How many public images are looked at.")
@click.option("--resize", type=int, help="As encoder.resize.")
@flags("schema", "out", "json")
def directions(
    network: str,
    data: str,
    weights: str | None,
    widths: str,
    count: int,
    images: int,
    resize: int | None,
    schema: str | None,
    out: str,
    as_json: bool,
) -> None:
    """Find the leading directions of NETWORK's features on public images, as a projection for dp-mepf.

    The schema of the private images says how large they are; without one they are as the public ones.
    """
    from simulacra import datasets
    from simulacra.errors import SettingError
    from simulacra.features.directions import find_directions
    from simulacra.networks import encoder_files

    image = (schema_of(schema) if schema else datasets.schema(data)).image
    if image is None:
        raise SettingError("directions are for images, and the schema describes a table")
    loaded = encoder_files.load(network, file=weights, widths=_widths(widths))
    facts = find_directions(
        loaded, network, image=image, data=data, out=out, directions=count, images=images, resize=resize
    )
    if as_json:
        emit({"out": out, **facts})
    else:
        say(f"{out}: {count} directions per layer of {network}, from {facts['images']} images of {data}")
        say(f"use it with: --set projection.source={out}")
