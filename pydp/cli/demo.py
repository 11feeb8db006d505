"""The command ``pydp demo``: two jobs on real data, each result checked against NumPy.

A photograph is blurred with a box filter through a summed-area table (two scans), and handwritten digits are
classified by their nearest neighbour (a matrix product with an epilogue, and an argmin). The data is part of
scikit-learn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

import pydp
from pydp.cli.choice import device_option


@click.command()
@device_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("pydp-demo.png"),
    help="File for the blurred photograph.",
)
def demo(which: str | None, output: Path) -> None:
    """Blur a photograph and classify digits on the best device, checked against NumPy."""
    try:
        import sklearn  # noqa: F401 - its data is used
    except ImportError:
        raise click.ClickException("the demo needs the data of scikit-learn: pip install scikit-learn") from None
    from rich.console import Console
    from rich.table import Table

    console = Console()
    device = pydp.device(which)
    console.print(f"device: {device.name} ({device.platform} {device.driver_version})")
    picture, first = blur(device)
    second = classify(device)
    table = Table("job", "equals NumPy", "time / ms", "NumPy's time / pydp's")
    for job in (first, second):
        table.add_row(job["job"], "yes" if job["right"] else "NO", f"{job['ms']:.2f}", f"{job['ratio']:.2f}")
    console.print(table)
    for job in (first, second):
        console.print(str(job["why"]))
    try:
        saved = save_picture(output, picture)
    except (ValueError, KeyError):
        raise click.ClickException(f"{output} is not a picture file name; endings such as .png are accepted") from None
    console.print(f"blurred photograph: {saved}")
    if not (first["right"] and second["right"]):
        raise click.ClickException("a result differs from NumPy's")


_RADIUS = 6


def _time(run: Callable[[], Any], repeats: int = 5) -> tuple[Any, float]:
    """The result and the median time of the runs in seconds, after one warm-up run."""
    result = run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return result, statistics.median(times)


def _box_filter(table: np.ndarray, radius: int) -> np.ndarray:
    """Means over squares of 2 * radius + 1, from a summed-area table (height, width, 3)."""
    padded = np.pad(table, ((radius + 1, radius), (radius + 1, radius), (0, 0)), mode="edge")
    padded[: radius + 1] = 0
    padded[:, : radius + 1] = 0
    side = 2 * radius + 1
    total = padded[side:, side:] - padded[:-side, side:] - padded[side:, :-side] + padded[:-side, :-side]
    height, width = table.shape[:2]
    rows = np.minimum(np.arange(height) + radius, height - 1) - np.maximum(np.arange(height) - radius, 0) + 1
    columns = np.minimum(np.arange(width) + radius, width - 1) - np.maximum(np.arange(width) - radius, 0) + 1
    return (total / (rows[:, None] * columns)[..., None]).astype(np.uint8)


def blur(device: pydp.Device) -> tuple[np.ndarray, dict[str, Any]]:
    """The blurred photograph and the measurements of the job."""
    from sklearn.datasets import load_sample_image

    photo = np.ascontiguousarray(load_sample_image("china.jpg"), dtype=np.int32)

    def table_pydp() -> np.ndarray:
        return pydp.scan(pydp.scan(photo, axis=0, device=device), axis=1, device=device)

    def table_numpy() -> np.ndarray:
        return np.cumsum(np.cumsum(photo, axis=0, dtype=np.int32), axis=1, dtype=np.int32)

    table, seconds = _time(table_pydp)
    reference, numpy_seconds = _time(table_numpy)
    return _box_filter(table, _RADIUS), {
        "job": f"summed-area table of a {photo.shape[1]} x {photo.shape[0]} photograph",
        "right": bool(np.array_equal(table, reference)),
        "ms": seconds * 1e3,
        "ratio": numpy_seconds / seconds,
        "why": pydp.explain(pydp.scan, photo, axis=0, device=device),
    }


def classify(device: pydp.Device) -> dict[str, Any]:
    """Classify handwritten digits by nearest neighbour; the measurements include the share of correct answers."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    shifted = np.concatenate([np.roll(images.reshape(-1, 8, 8), shift, axis=2).reshape(-1, 64) for shift in (0, -1, 1)])
    split = 1000
    known = np.ascontiguousarray(np.concatenate([shifted[i * len(images) : i * len(images) + split] for i in range(3)]))
    known = known.astype(np.float32)
    asked = np.ascontiguousarray(images[split:], dtype=np.float32)
    norms = (known**2).sum(axis=1)

    def nearest_pydp() -> np.ndarray:
        x, y, z = (pydp.field(one, device=device) for one in (asked, known, norms))
        found: np.ndarray = pydp.argmin(pydp.matmul(x, y.T, epilogue=("norms - 2 * x", {"norms": z})), axis=1).get()
        return found

    nearest, seconds = _time(nearest_pydp)
    expected, numpy_seconds = _time(lambda: np.argmin(norms - 2 * (asked @ known.T), axis=1))
    hits = float(np.mean(np.tile(labels[:split], 3)[nearest] == labels[split:]))
    return {
        "job": f"nearest of {len(known)} digits for {len(asked)} others ({hits:.1%} right)",
        "right": bool(np.array_equal(nearest, expected)),
        "ms": seconds * 1e3,
        "ratio": numpy_seconds / seconds,
        "why": pydp.explain(pydp.matmul, asked, known.T, epilogue=("norms - 2 * x", {"norms": norms}), device=device),
    }


def save_picture(path: Path, picture: np.ndarray) -> Path:
    """Save as PNG if matplotlib is installed, else as a portable pixmap; return the path used."""
    try:
        from matplotlib.image import imsave
    except ImportError:
        path = path.with_suffix(".ppm")
        height, width = picture.shape[:2]
        path.write_bytes(f"P6 {width} {height} 255\n".encode() + picture.astype(np.uint8).tobytes())
    else:
        imsave(path, picture)
    return path
