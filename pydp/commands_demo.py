"""The command ``pydp demo``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("-d", "--device", "which", default=None, help="Device: index, part of its name, 'cpu' or 'gpu'.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("pydp-demo.png"),
    help="Where the blurred photograph is saved.",
)
def demo(which: str | None, output: Path) -> None:
    """Blur a photograph and classify digits on the best device, checked against NumPy."""
    try:
        import sklearn  # noqa: F401 - its data are used
    except ImportError:
        raise click.ClickException("the demo's data come with scikit-learn: pip install scikit-learn") from None
    from rich.console import Console
    from rich.table import Table

    import pydp
    from pydp.demo import blur, classify, save_picture

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
        raise click.ClickException(f"{output} is no name of a picture; endings such as .png are accepted") from None
    console.print(f"blurred photograph: {saved}")
    if not (first["right"] and second["right"]):
        raise click.ClickException("a result differs from NumPy's")
