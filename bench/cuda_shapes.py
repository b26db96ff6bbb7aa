#!/usr/bin/env python3
"""Makes fields of the shapes that public data sets have, and measures the CUDA
engine on each.
`cuda_shapes.py PROGRAM FOLDER [FIELD...]` makes the named fields, by default all,
in FOLDER, runs PROGRAM (cuda_shapes) on each, and prints one CSV. A field is a
Gaussian random field with mean 0 and standard deviation 1. Its amplitudes are
proportional to k^-n exp(-k / cutoff), where n is half of the rank plus 5/6. So
lines through fields of different ranks have the same spectrum. Needs numpy and
scipy."""
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.fft

# The shape, the type, the cutoff in periods along the longest dimension, and a
# value that replaces 31 % of the values, in contiguous areas (None: no value).
FIELDS = {
    "cube": ((512, 512, 512), "f32", 60, None),
    "cube500": ((500, 500, 500), "f32", 60, None),
    "cube513": ((513, 513, 513), "f32", 60, None),
    "odd": ((449, 449, 235), "f32", 40, None),
    "hurricane": ((100, 500, 500), "f32", 60, None),
    "levels": ((98, 1200, 1200), "f32", 100, None),
    "box": ((256, 384, 384), "f32", 40, None),
    "globe": ((26, 1800, 3600), "f32", 300, None),
    "pressure": ((37, 721, 1440), "f32", 150, None),
    "pressure_nan": ((37, 721, 1440), "f32", 150, math.nan),
    "ocean": ((50, 1080, 2160), "f32", 200, None),
    "ocean_fill": ((50, 1080, 2160), "f32", 200, 1e20),
    "orbitals": ((115, 69, 69, 288), "f32", 30, None),
    "line": ((134217728,), "f32", 20000, None),
    "double": ((384, 384, 384), "f64", 60, None),
    "double_odd": ((383, 385, 387), "f64", 60, None),
    "surface": ((1800, 3600), "f32", 300, None),
    "cube100": ((100, 100, 100), "f32", 20, None),
    "image": ((1024, 1024), "f32", 100, None),
    "thin": ((1000000, 3, 3), "f32", 5000, None),
}


def make(shape, cutoff, seed):
    workers = os.cpu_count()
    noise = np.random.default_rng(seed).standard_normal(shape,
                                                        dtype=np.float32)
    waves = scipy.fft.rfftn(noise, workers=workers, overwrite_x=True)
    del noise
    longest = max(shape)
    square = np.zeros((1,) * len(shape), np.float32)
    for axis, n in enumerate(shape):
        k = np.abs(scipy.fft.fftfreq(n, 1 / longest)).astype(np.float32)
        along = [1] * len(shape)
        along[axis] = waves.shape[axis]
        square = square + k[:waves.shape[axis]].reshape(along) ** 2
    length = np.sqrt(square)
    length[length == 0] = np.inf  # the mean becomes 0
    waves *= (length ** np.float32(-(len(shape) / 2 + 5 / 6)) *
              np.exp(-length / np.float32(cutoff)))
    field = scipy.fft.irfftn(waves, s=shape, workers=workers, overwrite_x=True)
    field -= field.mean(dtype=np.float64)
    field /= field.std(dtype=np.float64)
    return field


def write(folder, name):
    shape, dtype, cutoff, fill = FIELDS[name]
    path = Path(folder, f"{name}_{'x'.join(map(str, shape))}.{dtype}")
    if not path.exists():
        field = make(shape, cutoff, 1)
        if fill is not None:
            field[make(shape, 6, 101) > 0.5] = fill  # 31 % exceed 0.5
        field.astype(f"<{dtype[0]}{int(dtype[1:]) // 8}").tofile(path)
    return path


def main():
    program, folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    status = 0
    for number, name in enumerate(names or FIELDS):
        fill = FIELDS[name][3]
        words = [] if fill is None or math.isnan(fill) else [repr(fill)]
        got = subprocess.run([program, write(folder, name), *words],
                             capture_output=True, text=True)
        sys.stdout.write(got.stdout if number == 0 else
                         "".join(got.stdout.splitlines(True)[1:]))
        sys.stdout.flush()
        sys.stderr.write(got.stderr)
        status = status or got.returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
