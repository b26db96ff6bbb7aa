"""The operator in ADIOS2: files of Python and C++, types, shapes, parameters, and
errors. test_block.c tests more shapes, and hostile blocks.

TEST_PLUGIN and TEST_EXAMPLE name the plugin and examples/adios2_write, if CMake
has found ADIOS2. Otherwise the test compiles both for the ADIOS2 of PyPI's wheel,
with TEST_CXX from TEST_SOURCE and TEST_ARCHIVES."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import adios2
    import numpy as np
except ImportError as error:
    print("skipped: no ADIOS2 for Python:", error)
    sys.exit(77)

SOURCE = os.environ["TEST_SOURCE"]
LIBRARIES = os.path.dirname(adios2.__file__)
BPLS = os.environ.get("TEST_BPLS") or shutil.which("bpls")


def compile_cxx(out, *words):
    subprocess.run([os.environ["TEST_CXX"], "-std=c++17", "-O1", "-isystem",
                    os.path.join(LIBRARIES, "include"), "-o", out, *words],
                   check=True)


def make_plugin(folder):
    """Compiles the plugin for the wheel's headers; returns its folder."""
    if os.environ.get("TEST_PLUGIN"):
        return os.path.dirname(os.environ["TEST_PLUGIN"])
    if not os.path.exists(os.path.join(LIBRARIES, "include/adios2/plugin")):
        print("skipped: this wheel of ADIOS2 has no header for plugins")
        sys.exit(77)
    compile_cxx(os.path.join(folder, "libterp_adios2.so"), "-shared", "-fPIC",
                "-Wall", "-Wextra", "-Werror", "-I" + SOURCE,
                "-I" + os.path.join(SOURCE, "codec/api"),
                os.path.join(SOURCE, "adios2/operator.cpp"),
                *os.environ["TEST_ARCHIVES"].split(":"), "-lpthread", "-ldl",
                "-lm", "-Wl,-z,defs", "-Wl,--version-script=" +
                os.path.join(SOURCE, "adios2/operator.map"))
    return folder


def waves(shape, dtype="f8"):
    """A smooth field between -1 and 1."""
    values = np.zeros(shape)
    for axis, dim in enumerate(shape):
        along = np.sin(0.3 * np.arange(dim) + axis)
        values += along.reshape([-1] + [1] * (len(shape) - axis - 1))
    values /= len(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 0.5j * values[::-1]
    return np.ascontiguousarray(values.astype(dtype))


def operation(**parameters):
    return ("plugin", {"PluginName": "terp", "PluginLibrary": "terp_adios2",
                       **{key: str(word) for key, word in parameters.items()}})


class Operator(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.plugins = make_plugin(cls.folder)
        os.environ["ADIOS2_PLUGIN_PATH"] = cls.plugins

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, name="file.bp"):
        path = os.path.join(self.folder, name)
        shutil.rmtree(path, ignore_errors=True)
        return path

    def write(self, path, array, nblocks=1, nsteps=1, **parameters):
        """Writes blocks along the slowest dim, the same in each step. Returns the
        bytes of the data."""
        with adios2.Stream(path, "w") as stream:
            for _ in range(nsteps):
                stream.begin_step()
                at = 0
                for block in np.array_split(array, nblocks):
                    block = np.ascontiguousarray(block)
                    first = at == 0 and stream.current_step() == 0
                    stream.write(
                        "a", block, array.shape,
                        [at] + [0] * (array.ndim - 1), block.shape,
                        operations=[operation(**parameters)] if first else None)
                    at += len(block)
                stream.end_step()
        return os.path.getsize(os.path.join(path, "data.0"))

    def read(self, path, **selection):
        with adios2.FileReader(path) as file:
            return file.read("a", **selection)

    def read_into(self, path, array):
        """The same for types that ADIOS2's FileReader does not know: complex."""
        io = adios2.Adios().declare_io("reader")
        engine = io.open(path, adios2.bindings.Mode.ReadRandomAccess)
        engine.get(io.inquire_variable("a"), array, adios2.bindings.Mode.Sync)
        engine.close()
        return array

    def check(self, array, limit, nblocks=1, **parameters):
        path = self.path()
        nbytes = self.write(path, array, nblocks, **parameters)
        found = self.read_into(path, np.zeros_like(array))
        self.assertEqual((found.dtype, found.shape), (array.dtype, array.shape))
        if limit == 0:
            self.assertEqual(found.tobytes(), array.tobytes())
        else:
            error = np.max(np.abs(found - array))
            self.assertLessEqual(error, limit)
            self.assertGreater(error, 0)
        return nbytes

    def test_types_keep_the_bound(self):
        for dtype in "f4", "f8", "c8", "c16":
            with self.subTest(dtype):
                array = waves((40, 30, 20), dtype)
                nbytes = self.check(array, 1e-3, abs=1e-3)
                self.assertLess(nbytes, array.nbytes / 4)
                self.assertLess(self.check(array, 0, lossless="true"),
                                array.nbytes)

    def test_integers_are_lossless_under_a_relative_bound(self):
        for dtype in "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8":
            with self.subTest(dtype):
                array = (100 * waves((50, 40))).astype("i8").astype(dtype)
                self.check(array, 0, rel=1e-3)
        self.check((1000 * waves((50, 40))).astype("i4"), 10, abs=10)

    def test_shapes_and_blocks(self):
        for shape in (5000,), (70, 80), (1, 4000), (9, 8, 7, 6), (3, 4, 5, 6, 7):
            for nblocks in 1, 3:
                if nblocks <= shape[0]:
                    with self.subTest(shape, nblocks=nblocks):
                        self.check(waves(shape, "f4"), 1e-3, nblocks, abs=1e-3)

    def test_small_blocks_survive(self):
        for n in 1, 2, 7:
            self.check(waves((n,), "f8"), 0, rel=1e-300)

    def test_parts_are_read(self):
        array = waves((60, 50))
        path = self.path()
        self.write(path, array, nblocks=3, abs=1e-4)
        part = self.read(path, start=[15, 7], count=[30, 20])
        self.assertLessEqual(np.max(np.abs(part - array[15:45, 7:27])), 1e-4)

    def test_steps_are_read(self):
        array = waves((60, 50))
        path = self.path()
        self.write(path, array, nblocks=2, nsteps=3, abs=1e-4)
        with adios2.Stream(path, "r") as stream:
            for _ in stream.steps():
                error = np.max(np.abs(stream.read("a") - array))
                self.assertLessEqual(error, 1e-4)
            self.assertEqual(stream.current_step(), 2)

    def test_parameters_have_the_names_of_other_hosts(self):
        array = waves((40, 40, 40), "f4")
        for limit, parameters in (
                (2e-3, {"rel": 1e-3}), (1e-3, {"pwr": 1e-3}),
                (5e-4, {"digits": 3}), (2 ** -9, {"bits": 8}),
                (1e-3, {"mode": "abs", "bound": 1e-3}),
                (1e-3, {"abs": 1e-3, "pipeline": "huffman", "effort": "fast",
                        "predictor": "lorenzo", "format": 1}),
                (1e-3, {"abs": 1e-3, "pipeline": "speed"})):
            with self.subTest(**parameters):
                self.check(array, limit, **parameters)
        path = self.path()
        self.write(path, array, psnr=60)
        error = np.sqrt(np.mean((self.read(path) - array) ** 2))
        self.assertGreaterEqual(20 * np.log10(np.ptp(array) / error), 60)
        self.write(path, abs(array), abs=0.1, valid_range="0:1",
                   keep_sign="values")
        self.assertGreaterEqual(self.read(path).min(), 0)
        array[3] = -9999
        self.write(path, array, rel=1e-3, missing=-9999)
        found = self.read(path)
        self.assertTrue((found[3] == -9999).all())
        self.assertLessEqual(np.max(np.abs(found - array)), 2e-3)

    def test_threads_write_the_same_bytes(self):
        array = waves((64, 64, 64), "f4")
        path = self.path()
        blocks = []
        for threads in 1, 2, 0:
            self.write(path, array, abs=1e-3, threads=threads)
            with open(os.path.join(path, "data.0"), "rb") as file:
                blocks.append(file.read())
        self.assertEqual(blocks[0], blocks[1])
        self.assertEqual(blocks[0], blocks[2])

    def test_wrong_parameters_are_named(self):
        for name, word in ("accuracy", 1), ("rel", "x"), ("threads", -1):
            with self.subTest(name), self.assertRaisesRegex(
                    Exception, f'terp: the parameter {name} = "{word}"'):
                adios2.Adios().define_operator(
                    "a", *operation(**{name: word}))
        with self.assertRaisesRegex(Exception, "terp: .*: give one bound"):
            adios2.Adios().define_operator("a", *operation(abs=1, rel=1))

    def test_other_types_stay_uncompressed(self):
        path = self.path()
        with adios2.Stream(path, "w") as stream:
            stream.begin_step()
            stream.write("text", "no numbers")
            stream.write("a", waves((30,)), [30], [0], [30],
                         operations=[operation(abs=0.1)])
            stream.end_step()
        with adios2.FileReader(path) as file:
            self.assertEqual(file.read("text"), "no numbers")

    def test_damaged_files_are_refused(self):
        path = self.path()
        self.write(path, waves((40, 50), "f4"), abs=1e-3)
        data = os.path.join(path, "data.0")
        with open(data, "r+b") as file:
            found = file.read()
            for at in found.index(b"tblk") + 8, found.index(b"TERP") + 40:
                file.seek(at)
                file.write(bytes([found[at] ^ 1]))
                file.flush()
                # A process of its own, in case ADIOS2 ends it.
                ended = subprocess.run(
                    [sys.executable, "-c", f"import adios2\n"
                     f"with adios2.FileReader({path!r}) as file:\n"
                     f"    file.read('a')"], capture_output=True, text=True)
                self.assertNotEqual(ended.returncode, 0)
                self.assertIn("terp: a block was not decoded: ", ended.stderr)
                file.seek(0)
                file.write(found)

    def test_programs_in_cxx_share_files(self):
        example = os.environ.get("TEST_EXAMPLE")
        if not example:
            example = os.path.join(self.folder, "adios2_write")
            compile_cxx(example, os.path.join(SOURCE,
                                              "examples/adios2_write.cpp"),
                        "-L" + LIBRARIES, "-ladios2_cxx", "-ladios2_core",
                        "-Wl,-rpath," + LIBRARIES, "-Wl,--allow-shlib-undefined")
        path = self.path("example.bp")
        said = subprocess.run([example, path, "1e-4"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        self.assertRegex(said, r"^largest error [\d.e-]+, bound 1e-4$")
        with adios2.FileReader(path) as file:
            self.assertEqual(file.read("rho", step_selection=[0, 1]).size,
                             2 * 40 * 50 * 60)
        self.assertLess(os.path.getsize(os.path.join(path, "data.0")),
                        3 * 2 * 40 * 50 * 60 * 8 / 10)

    @unittest.skipUnless(BPLS, "needs bpls")
    def test_bpls_prints_values(self):
        path = self.path()
        self.write(path, np.linspace(0, 1, 100, dtype="f4"), lossless="true")
        said = subprocess.run([BPLS, path, "-d", "a", "-n", "1"], check=True,
                              text=True, stdout=subprocess.PIPE).stdout
        self.assertRegex(said, r"\(99\) +1\b")


if __name__ == "__main__":
    unittest.main()
