#!/usr/bin/env python3
"""Makes the field of the CUDA engine's benchmarks, a turbulence pressure in a
cube: `cuda_field.py FOLDER [N]` writes FOLDER/pres_NxNxN.f32 (N: 512) unless
it is there, and prints its path.

A Gaussian random field with P(k) ~ k^-13/3 and an exponential dissipation
range from a seventh of the Nyquist wavenumber on, in float32, mean 0, standard
deviation 1."""
import os
import sys
from pathlib import Path

import numpy as np
import scipy.fft

SEED = 104
POWER = -7 / 3 - 2


def pressure(n):
    workers = os.cpu_count()
    noise = np.random.default_rng(SEED).standard_normal(
        (n, n, n), dtype=np.float32)
    waves = scipy.fft.rfftn(noise, workers=workers, overwrite_x=True)
    del noise
    cutoff = np.float32(36 * n / 512)
    k = scipy.fft.fftfreq(n, 1 / n).astype(np.float32)
    kz = np.arange(n // 2 + 1, dtype=np.float32)
    for i in range(n):
        length = np.sqrt(k[i] ** 2 + k[:, None] ** 2 + kz ** 2)
        length[length == 0] = np.inf  # the mean
        waves[i] *= length ** np.float32(POWER / 2) * np.exp(-length / cutoff)
    field = scipy.fft.irfftn(waves, s=(n, n, n), workers=workers,
                             overwrite_x=True)
    field -= field.mean(dtype=np.float64)
    field /= field.std(dtype=np.float64)
    return field


def main():
    folder = Path(sys.argv[1])
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    path = folder / f"pres_{n}x{n}x{n}.f32"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        pressure(n).astype("<f4").tofile(part)
        part.rename(path)
    print(path)


if __name__ == "__main__":
    main()
