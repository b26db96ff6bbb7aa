"""Values for the package's tests."""

import numpy as np


def waves(shape, dtype="f4"):
    places = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    values = sum(np.sin(place / (5 + 2 * i))
                 for i, place in enumerate(places))
    return np.ascontiguousarray(values, dtype)


def noise(shape, dtype="f4"):
    return np.random.default_rng(5).normal(size=shape).astype(dtype)
