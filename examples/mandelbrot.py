"""The Mandelbrot set: lanes leave their loop after different numbers of iterations. Saves a grey picture (PGM)."""

import sys
from pathlib import Path

import numpy as np

import pydp


@pydp.vector
def escape(cr, ci, limit):
    zr, zi = 0.0, 0.0
    turns = 0
    while turns < limit and zr * zr + zi * zi <= 4.0:
        zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
        turns += 1
    return turns


@pydp.vector
def mandelbrot(idx, picture, scale, left, top, limit):
    picture[idx] = escape(left + scale * idx[1], top - scale * idx[0], limit)


def expected_turns(height, width, scale, left, top, limit):
    scale, left, top = np.float32(scale), np.float32(left), np.float32(top)
    cr = left + scale * np.arange(width, dtype=np.float32)[None, :] + np.zeros((height, 1), np.float32)
    ci = top - scale * np.arange(height, dtype=np.float32)[:, None] + np.zeros((1, width), np.float32)
    zr, zi, turns = np.zeros_like(cr), np.zeros_like(ci), np.zeros(cr.shape, np.int32)
    for _ in range(limit):
        inside = zr * zr + zi * zi <= 4
        zr, zi = np.where(inside, zr * zr - zi * zi + cr, zr), np.where(inside, np.float32(2) * zr * zi + ci, zi)
        turns += inside
    return turns


def main(device=None, height=240, width=320, limit=60):
    view = (2.4 / height, -2.2, 1.2, limit)
    picture = np.zeros((height, width), np.int32)
    pydp.forall(picture.shape, mandelbrot, picture, *view, device=device)
    return picture, expected_turns(height, width, *view)


if __name__ == "__main__":
    result, expected = main()
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "mandelbrot.pgm")
    grey = (255 - 255 * result // result.max()).astype(np.uint8)
    path.write_bytes(b"P5 %d %d 255\n" % grey.shape[::-1] + grey.tobytes())
    print(f"wrote {path}; equal to NumPy's: {np.array_equal(result, expected)}")
