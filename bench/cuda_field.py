#!/usr/bin/env python3
"""Makes the fields of the CUDA engine's benchmarks, which are cubes.
`cuda_field.py FOLDER [N [NAME]]` writes FOLDER/NAME_NxNxN.f32 (N: 512) unless it
exists, and prints its path. NAME is

    pres  a turbulence pressure: P(k) ~ k^-13/3, and an exponential dissipation
          range from a seventh of the Nyquist wavenumber on
    vel   a rougher field: amplitudes ~ k^-11/6, and a Gaussian dissipation range
          from 5/8 of the Nyquist wavenumber on

Both are Gaussian random fields of float32, mean 0, standard deviation 1."""
import os
import sys
from pathlib import Path

import numpy as np
import scipy.fft

# The seed, and the amplitude of a wavenumber in units of the Nyquist
# wavenumber.
FIELDS = {
    "pres": (104, lambda k: k ** np.float32(-13 / 6) * np.exp(k / np.float32(-9 / 64))),
    "vel": (101, lambda k: k ** np.float32(-11 / 6) * np.exp(-(k / np.float32(5 / 8)) ** 2)),
}


def make(name, n):
    seed, amplitude = FIELDS[name]
    workers = os.cpu_count()
    noise = np.random.default_rng(seed).standard_normal(
        (n, n, n), dtype=np.float32)
    waves = scipy.fft.rfftn(noise, workers=workers, overwrite_x=True)
    del noise
    k = scipy.fft.fftfreq(n, 0.5).astype(np.float32)
    kz = np.abs(k[:n // 2 + 1])
    for i in range(n):
        length = np.sqrt(k[i] ** 2 + k[:, None] ** 2 + kz ** 2)
        length[length == 0] = np.inf  # no mean
        waves[i] *= amplitude(length)
    field = scipy.fft.irfftn(waves, s=(n, n, n), workers=workers,
                             overwrite_x=True)
    field -= field.mean(dtype=np.float64)
    field /= field.std(dtype=np.float64)
    return field


def main():
    folder = Path(sys.argv[1])
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    name = sys.argv[3] if len(sys.argv) > 3 else "pres"
    path = folder / f"{name}_{n}x{n}x{n}.f32"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        make(name, n).astype("<f4").tofile(part)
        part.rename(path)
    print(path)


if __name__ == "__main__":
    main()
