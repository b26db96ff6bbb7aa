#!/usr/bin/env python3
"""Writes a small HDF5 file that resembles the data of a field of science:

    examples/fields.py climate|cosmology|particles|flow|radar|samples FILE

The pages in doc/audience use these files. The values are random with a fixed seed,
and have the spectra, ranges, fill values and zeros of real files, but no physics.
Needs numpy and h5py.
"""
import sys

import h5py
import numpy as np


def noise(shape, slope, seed):
    """A random field whose power falls with the wave number to the power `slope`;
    mean 0, standard deviation 1."""
    white = np.random.default_rng(seed).normal(size=shape)
    waves = np.meshgrid(*(np.fft.fftfreq(n) * n for n in shape), indexing="ij")
    squares = sum(wave**2 for wave in waves)
    squares.flat[0] = np.inf
    field = np.fft.ifftn(np.fft.fftn(white) * squares**(slope / 4)).real
    return field / field.std()


def grid(file, name, values, **attributes):
    """A dataset with the attributes of CF's conventions."""
    data = file.create_dataset(name, data=values)
    data.attrs.update(attributes)
    return data


def climate(file):
    """24 months on a grid of 2 degrees, in the style of CMIP: temperature,
    precipitation with many zeros, and an ocean with a fill value on land."""
    shape = months, nlat, nlon = 24, 90, 180
    lat = np.linspace(-89, 89, nlat)
    lon = np.arange(1.0, 360, 2)
    axes = [grid(file, "time", 15.0 + 30.4 * np.arange(months),
                 units="days since 2000-01-01"),
            grid(file, "lat", lat, units="degrees_north"),
            grid(file, "lon", lon, units="degrees_east")]
    season = np.cos(2 * np.pi * np.arange(months) / 12)[:, None, None]
    zonal = np.cos(np.radians(lat))[:, None]
    tas = 245 + 55 * zonal - 12 * season * np.sin(np.radians(lat))[:, None]
    grid(file, "tas", (tas + 3 * noise(shape, -3, 1)).astype("f4"), units="K")
    rain = noise(shape, -3, 2) + 0.3 * zonal
    rain = np.where(rain > 0.2, 2e-5 * np.exp(2 * rain), 0)
    grid(file, "pr", rain.astype("f4"), units="kg m-2 s-1")
    is_land = noise((nlat, nlon), -3, 3) > 0.6
    tos = np.clip(tas - 273 + noise(shape, -4, 4), -1.8, None)
    tos = np.where(is_land, 1e20, tos).astype("f4")
    grid(file, "tos", tos, units="degC", _FillValue=np.float32(1e20))
    ice = np.where(is_land, 1e20, np.clip(-110 * (tos + 0.9), 0, 100))
    grid(file, "siconc", ice.astype("f4"), units="%",
         _FillValue=np.float32(1e20), valid_range=np.float32([0, 100]))
    for axis in axes:
        axis.make_scale()
    for name in ("tas", "pr", "tos", "siconc"):
        for dim, axis in zip(file[name].dims, axes):
            dim.attach_scale(axis)


def cosmology(file):
    """A cube of 64^3 cells in the style of Nyx: densities over many decades,
    temperature and velocity."""
    shape = 64, 64, 64
    density = noise(shape, -2.2, 5)
    fields = file.create_group("native_fields")
    fields["baryon_density"] = np.exp(1.6 * density - 1.28).astype("f4")
    fields["dark_matter_density"] = np.exp(
        1.9 * density + 0.5 * noise(shape, -1.5, 6) - 1.9).astype("f4")
    fields["temperature"] = (9e3 * np.exp(0.9 * density)).astype("f4")
    for i, axis in enumerate("xyz"):
        fields["velocity_" + axis] = (1e7 * noise(shape, -3.5, 7 + i)
                                      ).astype("f4")


def particles(file):
    """100 frames of 2000 atoms in the style of H5MD: a vibrating, drifting liquid
    in a periodic box of 3 nm."""
    rng = np.random.default_rng(10)
    nframes, natoms = 100, 2000
    home = rng.uniform(0, 3, (natoms, 3))
    steps = rng.normal(scale=0.012, size=(nframes, natoms, 3))
    vibration = rng.normal(scale=0.01, size=(nframes, natoms, 3))
    positions = (home + np.cumsum(steps, axis=0) + vibration) % 3
    trajectory = file.create_group("particles/all")
    trajectory["position/value"] = positions.astype("f4")
    trajectory["position/value"].attrs["unit"] = "nm"
    trajectory["velocity/value"] = rng.normal(
        scale=0.4, size=(nframes, natoms, 3)).astype("f4")
    trajectory["species"] = rng.choice([1, 8, 1], natoms).astype("i4")


def flow(file):
    """Turbulence on 64^3 points: a velocity without divergence, as central
    differences see it, a pressure, and a passive scalar from 0 to 1."""
    shape = 64, 64, 64
    potential = [noise(shape, -17 / 3, 20 + i) for i in range(3)]

    def along(values, axis):
        return np.roll(values, -1, axis) - np.roll(values, 1, axis)

    curl = [along(potential[(i + 2) % 3], (i + 1) % 3) -
            along(potential[(i + 1) % 3], (i + 2) % 3) for i in range(3)]
    for name, values in zip("uvw", curl):
        file[name] = (values / np.std(curl[0])).astype("f4")
    file["p"] = (101325 + 40 * noise(shape, -13 / 3, 24)).astype("f4")
    file["scalar"] = np.clip(0.5 + 0.3 * noise(shape, -11 / 3, 25), 0, 1
                             ).astype("f4")


def radar(file):
    """A sweep of a weather radar (360 rays of 500 gates; NaN without echo), and a
    complex image of a synthetic aperture radar with speckle."""
    shape = 360, 500
    rng = np.random.default_rng(30)
    storm = noise(shape, -3, 31)
    echo = 20 + 18 * storm + rng.normal(size=shape)
    file["sweep/DBZH"] = np.where(storm > -0.3, echo, np.nan).astype("f4")
    velocity = 12 * noise(shape, -3.5, 32) + rng.normal(scale=0.5, size=shape)
    file["sweep/VRADH"] = np.where(storm > -0.3, velocity, np.nan).astype("f4")
    speckle = rng.normal(size=(512, 512, 2)) @ [1, 1j]
    file["image/slc"] = (speckle * np.exp(noise((512, 512), -2, 33))
                         ).astype("c8")
    file["image/reflectance"] = np.clip(
        0.25 + 0.12 * noise((512, 512), -2.5, 34), 0, 1).astype("f4")


def samples(file):
    """64 samples of four channels on 64^2 points, as for the training of a neural
    network, with a label each."""
    rng = np.random.default_rng(40)
    x = np.stack([[noise((64, 64), -3.5, 41 + 4 * i + k) for k in range(4)]
                  for i in range(64)])
    scale = np.reshape([1, 250, 1e5, 1e-3], (1, 4, 1, 1))
    file["x"] = (scale * (x * [[[[0.2]]]] + 1)).astype("f4")
    file["y"] = rng.integers(0, 10, 64).astype("i8")


KINDS = {function.__name__: function for function in (
    climate, cosmology, particles, flow, radar, samples)}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    with h5py.File(sys.argv[2], "w") as file:
        KINDS[sys.argv[1]](file)


if __name__ == "__main__":
    main()
