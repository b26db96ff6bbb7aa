#!/usr/bin/env python3
"""terp repack keeps coordinates bit for bit. It finds them by attributes of CF
and UGRID, in all forms that programs write."""
import sys
import unittest

from tool_case import OK, ToolTest, terp, warnings_of

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

N = 5000
FILTER = 46117


def wave(n=N, seed=1):
    """Values that a lossy copy would change."""
    noise = np.random.default_rng(seed).normal(size=n)
    return 100 + np.cumsum(noise)


class Coordinates(ToolTest):
    def write(self, attributes, name="x", group="/", **others):
        """A file with a dataset "x" with attributes, and a dataset "data"."""
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            folder = file.require_group(group)
            folder[name] = wave()
            folder["data"] = wave(seed=2)
            for key, value in attributes.items():
                folder[name].attrs[key] = value
            for key, value in others.items():
                folder["data"].attrs[key] = value
        return path

    def repack(self, path, *arguments):
        """The datasets that changed, and the messages."""
        out = self.path("out.h5")
        result = terp("repack", path, out, *(arguments or ("--rel=1e-3",)))
        self.assertEqual(result.returncode, OK, result.stderr)
        changed = set()

        def compare(name, dataset):
            if isinstance(dataset, h5py.Dataset) and np.any(
                    dataset[()] != copy[name][()]):
                changed.add(name)

        with h5py.File(path, "r") as file, h5py.File(out, "r") as copy:
            file.visititems(compare)
        return changed, warnings_of(result)

    def check(self, path, kind, *arguments):
        """Checks that x is unchanged, with a message, and that data has
        changed."""
        changed, said = self.repack(path, *arguments)
        self.assertEqual(changed, {"data"})
        self.assertEqual(
            said, f"terp repack: coordinates stay lossless: /x ({kind}); "
            "use --dataset to give them a bound\n")

    def test_units_tell_of_places_and_times(self):
        for units, kind in (("degrees_north", "a latitude"),
                            ("degreeN", "a latitude"),
                            ("degrees_E", "a longitude"),
                            ("degree_east", "a longitude"),
                            ("hours since 2000-01-01 00:00:0.0", "a time"),
                            ("Days Since 1-1-1", "a time")):
            with self.subTest(units):
                self.check(self.write({"units": units}), kind)

    def test_other_units_do_not(self):
        for units in ("degrees", "degree_true", "hours", "K", "since 2000",
                      "days since", "increase since then", "degrees_north_2"):
            with self.subTest(units):
                self.assertEqual(self.repack(self.write({"units": units})),
                                 ({"data", "x"}, ""))

    def test_names_and_axes_tell(self):
        for attributes, kind in (
                ({"standard_name": "latitude"}, "a latitude"),
                ({"standard_name": "projection_x_coordinate"}, "a coordinate"),
                ({"standard_name": "depth"}, "a coordinate"),
                ({"standard_name": "time"}, "a time"),
                ({"axis": "Z"}, "a coordinate")):
            with self.subTest(attributes):
                self.check(self.write(attributes), kind)
        for attributes in ({"standard_name": "air_temperature"},
                           {"axis": "long axis"}, {"positive": "down"},
                           {"axis": 1}):
            with self.subTest(attributes):
                self.assertEqual(self.repack(self.write(attributes))[0],
                                 {"data", "x"})

    # netCDF writes texts of fixed and variable length, other programs arrays.
    def test_text_may_have_any_form(self):
        units = "degrees_north"
        for value in (np.bytes_(units), units, np.bytes_(units + "\0\0"),
                      np.array([np.bytes_(units)]),
                      np.array([units], h5py.string_dtype()),
                      np.array([units], h5py.string_dtype("utf-8", 13)),
                      np.array(np.bytes_(units.ljust(30)))):
            with self.subTest(repr(value)):
                self.check(self.write({"units": value}), "a latitude")

    def test_references_tell(self):
        for attribute, kind in (
                ("coordinates", "a coordinate"),
                ("bounds", "bounds of a coordinate"),
                ("climatology", "bounds of a coordinate"),
                ("node_coordinates", "nodes of a mesh"),
                ("face_coordinates", "faces of a mesh"),
                ("face_node_connectivity", "the topology of a mesh")):
            with self.subTest(attribute):
                self.check(self.write({}, **{attribute: "x"}), kind)
        for value in ("lost x gone", "/x", "./x", np.bytes_("x"),
                      np.array(["lost", "x"], h5py.string_dtype())):
            with self.subTest(repr(value)):
                self.check(self.write({}, coordinates=value), "a coordinate")
        self.check(self.write({}, cell_measures="area: x volume: lost"),
                   "a measure of cells")

    # A formula refers to the surface pressure, which is data; so are its
    # errors.
    def test_terms_and_ancillary_data_are_data(self):
        for attribute, value in (("formula_terms", "ps: x"),
                                 ("ancillary_variables", "x"),
                                 ("cell_measures", "x: lost")):
            with self.subTest(attribute):
                self.assertEqual(
                    self.repack(self.write({}, **{attribute: value})),
                    ({"data", "x"}, ""))

    def test_names_are_looked_for_in_groups_above(self):
        for name, value in (("a/x", "x"), ("x", "x"), ("a/b/x", "x"),
                            ("a/g/x", "/a/g/x"), ("a/g/x", "../g/x"),
                            ("g/x", "../../g/x"), ("a/b/c/x", "c/x")):
            with self.subTest(f"{name} {value}"):
                path = self.write({}, group="/a/b", coordinates=value)
                with h5py.File(path, "r+") as file:
                    del file["a/b/x"]
                    file[name] = wave()
                changed, said = self.repack(path)
                self.assertEqual(changed, {"a/b/data"})
                self.assertIn(f" /{name} (a coordinate);", said)
        # The attribute means neither a dataset below nor one beside the group.
        for name in "a/b/c/x", "d/x":
            path = self.write({}, group="/a/b", coordinates="x")
            with h5py.File(path, "r+") as file:
                del file["a/b/x"]
                file[name] = wave()
            self.assertEqual(self.repack(path)[0], {"a/b/data", name})

    # xarray stores coordinates that belong to no variable at the group.
    def test_groups_refer_to_coordinates(self):
        path = self.write({})
        with h5py.File(path, "r+") as file:
            file.attrs["coordinates"] = "x"
        self.check(path, "a coordinate")

    def test_named_datasets_have_the_bound_that_is_given(self):
        path = self.write({"units": "degrees_north"})
        for argument in "x=1e-3", "*=1e-3":
            self.assertEqual(
                self.repack(path, "--rel=1e-3", "--dataset", argument),
                ({"data", "x"}, ""))

    def test_nothing_is_said_without_a_lossy_bound(self):
        path = self.write({"units": "degrees_north"})
        self.assertEqual(self.repack(path, "--lossless"), (set(), ""))
        self.assertEqual(self.repack(path, "--dataset=data=1e-3"),
                         ({"data"}, ""))

    def test_many_coordinates_are_told_in_one_line(self):
        path = self.path("in.h5")
        with h5py.File(path, "w") as file:
            for i in range(20):
                file[f"x{i:02}"] = wave()
                file[f"x{i:02}"].attrs["axis"] = "X"
        changed, said = self.repack(path)
        self.assertEqual(changed, set())
        self.assertEqual(said.count("\n"), 1)
        self.assertIn("/x05 (a coordinate), and 14 more; ", said)

    def test_record_says_lossless(self):
        path = self.write({"units": "degrees_north"})
        with h5py.File(path, "r+") as file:
            file["count"] = np.arange(N)
        self.repack(path, "--rel=1e-3", "--record")
        with h5py.File(self.path("out.h5"), "r") as file:
            for name in "x", "count":
                self.assertEqual(file[name].attrs["terp_bound_kind"],
                                 b"lossless")

    def test_advise_leaves_them_alone(self):
        path = self.write({}, bounds="x")
        said = self.expect(OK, "advise", path)
        self.assertIn("\n/x\n  bounds of a coordinate, which terp repack keeps "
                      "lossless\n", said)
        self.assertIn("\n/data\n  float64", said)
        self.assertIn("\n/x\n  float64",
                      self.expect(OK, "advise", path, "--dataset=x"))

    # A curvilinear grid: longitudes stay within 360 degrees, intervals hold
    # times.
    def test_grid_and_intervals_stay_exact(self):
        j, i = np.mgrid[0:100, 0:200]
        path = self.path("in.h5")
        times = np.arange(N)
        with h5py.File(path, "w") as file:
            file["lat"] = -90 + 180 * j / 99
            file["lon"] = (360 * i / 199 + 20 * np.sin(j / 50)) % 360
            file["time"] = times * 1.0
            file["time"].attrs["units"] = "hours since 2000-01-01"
            file["time"].attrs["bounds"] = "time_bnds"
            file["time_bnds"] = np.stack([times - 0.5, times + 0.5], 1)
            file["sst"] = 280 + 10 * np.cos(np.deg2rad(file["lat"][()]))
            file["sst"].attrs["coordinates"] = "lat lon"
        changed, said = self.repack(path)
        self.assertEqual(changed, {"sst"})
        for name in "lat", "lon", "time", "time_bnds":
            self.assertIn(f"/{name} (", said)


if __name__ == "__main__":
    unittest.main()
