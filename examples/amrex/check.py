#!/usr/bin/env python3
"""Compares two AMReX plotfiles in HDF5 with the same boxes:

    check.py [--pwr] PLAIN.h5 OTHER.h5 [BOUND]

prints the compression ratio of OTHER.h5. For each component on each level it
prints the largest error relative to the component's range on that level, and
the largest error relative to the value. Exits with 1 where an error exceeds
BOUND times the range; with --pwr, BOUND times the value. Boxes are matched by
their corners, so the files may be written by different numbers of processes.
"""
import argparse
import sys

import h5py
import numpy as np


def components(file, level):
    """The values of a level: for each component, a dict from the corners of a
    box to the cells of the box."""
    group = file[level]
    ncomponents = int(file.attrs["num_components"].item())
    is_multi = "data:datatype=1" in group
    data = [group[f"data:datatype={i}"][()]
            for i in range(ncomponents if is_multi else 1)]
    offsets = group["data:offsets=0"][()]
    found = [{} for _ in range(ncomponents)]
    for box, begin, end in zip(group["boxes"][()], offsets, offsets[1:]):
        corners = np.array(box.tolist())
        ncells = int(np.prod(corners[len(corners) // 2:] -
                             corners[:len(corners) // 2] + 1))
        for i in range(ncomponents):
            if is_multi:
                cells = data[i][begin:begin + ncells]
            else:
                cells = data[0][begin + i * ncells:begin + (i + 1) * ncells]
            found[i][tuple(corners)] = cells.astype("f8")
        assert end - begin == ncells * (1 if is_multi else ncomponents)
    return found


def stored(file):
    """The bytes of all values, uncompressed and in the file."""
    data = [group[name] for group in file.values()
            for name in group if name.startswith("data:datatype")]
    return (sum(d.nbytes for d in data),
            sum(d.id.get_storage_size() for d in data))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plain")
    parser.add_argument("other")
    parser.add_argument("bound", type=float, nargs="?", default=np.inf)
    parser.add_argument("--pwr", action="store_true")
    options = parser.parse_args()
    is_kept = True
    with h5py.File(options.plain) as plain, h5py.File(options.other) as other:
        nbytes, stored_nbytes = stored(other)
        print(f"ratio {nbytes / stored_nbytes:.1f}")
        for level in sorted(n for n in plain if n.startswith("level_")):
            pairs = zip(components(plain, level), components(other, level))
            for i, (want, got) in enumerate(pairs):
                assert want.keys() == got.keys()
                want, got = (np.concatenate([boxes[k] for k in sorted(want)])
                             for boxes in (want, got))
                error = np.abs(want - got)
                of_range = error.max() / (np.ptp(want) or 1)
                with np.errstate(divide="ignore", invalid="ignore"):
                    of_value = np.where(error == 0, 0, error / np.abs(want))
                name = plain.attrs[f"component_{i}"]
                name = name.decode() if isinstance(name, bytes) else name
                print(f"{level} {name}: error / range {of_range:.4g}, "
                      f"error / value {of_value.max():.4g}")
                worst = of_value.max() if options.pwr else of_range
                # Rounding: of the bound once, and of the float64 error once.
                is_kept &= bool(worst <= options.bound * (1 + 1e-9))
    sys.exit(not is_kept)


if __name__ == "__main__":
    main()
