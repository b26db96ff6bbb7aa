"""What users of h5py and hdf5plugin expect: objects for ``compression``, digits
and bits, filter options read back, shapes of chunks, and the configuration."""

from decimal import Decimal
from fractions import Fraction
import json
import re
import subprocess
import sys

import h5py
import numpy as np
import pytest

import h5z_terp
from fields import noise, waves
from h5z_terp import Terp
from test_tool import terp

VALUES = waves((40, 33, 20))
ALL = [
    Terp(abs=1e-3), Terp(rel=0.1), Terp(psnr=60), Terp(lossless=True),
    Terp(pwr=1e-3, floor=1e-9, missing=-9999, valid_range=(-1, None)),
    Terp(rel=1e-3, keep_sign="values", pipeline="huffman", effort="best"),
    Terp(abs=2.5, predictor="lorenzo", pipeline="ratio", effort="fast"),
    Terp(abs=1e-3, dims=(16, 16), keep_sign="chunk", missing=0),
    Terp(lossless=True, format=1),
    Terp(pwr=1e-3, valid_range=(0, 5), dims=(8, 8), format=1),
]
PARTICLES = np.zeros(5000, [("mass", "f4"), ("id", "i4"), ("name", "S7"),
                            ("position", [("x", ">f8"), ("y", "f8")], (2,))])
PARTICLES["mass"] = np.cumsum(np.sin(np.arange(5000)))
PARTICLES["id"] = np.arange(5000)
PARTICLES["position"]["x"] = np.cos(np.arange(10000)).reshape(5000, 2)
MEMBERS = {"mass": Terp(lossless=True), "position.x": Terp(abs=0.5),
           "id": Terp(abs=3, effort="fast")}


def run(script):
    return subprocess.run([sys.executable, "-c", script], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


# ---- objects ----


def test_objects_are_filters_of_h5py():
    bound = Terp(rel=1e-3)
    assert isinstance(bound, h5py.filters.FilterRefBase)
    assert bound.filter_id == h5z_terp.FILTER_ID
    assert bound.filter_name == "terp"
    assert bound.filter_options == bound.cd_values
    assert bound.get_config() == {"rel": 1e-3}


@pytest.mark.parametrize("imports", [
    "import h5z_terp; bound = h5z_terp.Terp(abs=0.1); import h5py",
    "import h5py, h5z_terp; bound = h5z_terp.Terp(abs=0.1)"])
def test_objects_may_be_older_than_h5py(tmp_path, imports):
    path = str(tmp_path / "a.h5")
    run(f"""{imports}
with h5py.File({path!r}, "w") as file:
    file.create_dataset("a", data=[1.0, 2.0, 3.0], chunks=(3,), compression=bound)
""")
    with h5py.File(path) as file:
        assert Terp.from_dataset(file["a"]) == Terp(abs=0.1)


def test_unknown_versions_of_packages_only_warn(tmp_path):
    (tmp_path / "odd.py").write_text("value = 1\n")
    script = """
import sys, warnings
sys.path.insert(0, %r)
from h5z_terp import _imports
seen = []
_imports.when_imported("odd", lambda module: seen.append(module.value))
import odd
_imports.when_imported("odd", lambda module: seen.append(module.value + 1))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    _imports.when_imported("odd", lambda module: module.missing)
print(seen, len(caught), "odd" in str(caught[0].message))
""" % str(tmp_path)
    assert run(script) == "[1, 2] 1 True\n"


@pytest.mark.parametrize("settings", [
    {"rel": "1e-3"}, {"rel": True}, {"rel": [1e-3]}, {"abs": 10**400},
    {"rel": np.array([1e-3])}, {"lossless": "yes"}, {"lossless": 2},
    {"pwr": 1e-3, "floor": "1"}, {"rel": 1, "missing": "a"},
    {"rel": 1, "missing": True}, {"rel": 1, "valid_range": ("0", 1)},
    {"rel": 1, "dims": 3}, {"rel": 1, "dims": (1.5,)}, {"rel": 1, "dims": (0,)},
    {"rel": 1, "dims": (2**32,)}, {"rel": 1, "dims": (1, 2, 3, 4)},
    {"rel": 1, "keep_sign": ["chunk"]}, {"rel": 1, "pipeline": 1},
    {"rel": 1, "members": ["a"]}, {"rel": 1, "members": {"a": 1}},
    {"rel": 1, "members": {1.5: {"abs": 1}}},
    {"rel": 1, "members": {2**32: {"abs": 1}}}], ids=repr)
def test_arguments_of_wrong_kinds_are_named(settings):
    with pytest.raises(ValueError, match=list(settings)[-1].rstrip("s")
                       if settings != {"abs": 10**400} else "finite"):
        Terp(**settings)


@pytest.mark.parametrize("settings", [
    {"lossless": 1}, {"lossless": np.True_}, {"rel": np.float32(0.25)},
    {"abs": np.int8(3)}, {"pwr": np.array(0.5), "floor": np.float64(1)},
    {"psnr": Fraction(121, 2)}, {"abs": Decimal("0.5"), "missing": np.uint8(7)}],
    ids=repr)
def test_configurations_are_json(settings):
    config = Terp(**settings).config
    kinds = {type(value) for value in json.loads(json.dumps(config)).values()}
    assert kinds == {bool} if "lossless" in settings else kinds <= {int, float}
    assert Terp(**config) == Terp(**settings)


# ---- text ----


@pytest.mark.parametrize("bound", ALL, ids=repr)
def test_text_keeps_all_settings(bound):
    assert Terp.from_text(bound.text) == bound
    assert terp("args", "--from-cd", ",".join(map(str, bound.cd_values))
                ) == bound.text + "\n"


def test_text_is_read_as_the_tool_reads_it():
    assert Terp.from_text('mode="rel", bound=1e-3') == Terp(rel=1e-3)
    assert Terp.from_text("digits=3, floor=1e-9") == Terp(digits=3, floor=1e-9)
    assert Terp.from_text("") == Terp(lossless=True)
    assert Terp(rel=1e-3).text == 'mode="rel", bound=0.001'
    with pytest.raises(ValueError, match="give one bound|one of abs"):
        Terp.from_text("rel=1, abs=1")
    with pytest.raises(ValueError, match="no such setting: 'a=1'"):
        Terp.from_text("a=1")
    with pytest.raises(TypeError, match="None is not a text"):
        Terp.from_text(None)


# ---- digits and bits ----


def words_of_tool(*options):
    text = terp("args", *options)
    words = re.search(r"compression_opts=\(([^)]*)\)", text).group(1)
    return tuple(map(int, words.split(",")))


@pytest.mark.parametrize("name, count", [
    *(("digits", n) for n in range(1, 16)),
    *(("bits", n) for n in (1, 2, 10, 23, 51, 52))])
def test_digits_and_bits_are_those_of_the_tool(name, count):
    words = words_of_tool(f"--{name}", count)
    assert Terp(**{name: count}) == Terp.from_filter_options(words)
    assert Terp(**{name: np.int32(count)}).config == Terp(
        **{name: count}).config


@pytest.mark.parametrize("digits", [1, 2, 3, 5])
def test_digits_stay(digits):
    """Just below a power of ten the digits allow the least error."""
    values = 10.0**np.arange(-30, 30) * (1 - 1e-9)
    values = np.outer(values, np.linspace(0.5, 1, 100)).astype("f8")
    read = h5z_terp.decompress(h5z_terp.compress(values, digits=digits))
    last = 10.0**(np.floor(np.log10(values)) + 1 - digits)
    assert 0.05 < (abs(read - values) / last).max() <= 0.5


@pytest.mark.parametrize("bits", [3, 10])
def test_bits_stay(bits):
    values = noise((64, 64), "f8")
    read = h5z_terp.decompress(h5z_terp.compress(values, bits=bits))
    error = abs(read / values - 1).max()
    assert 2.0**-bits / 4 < error <= 2.0**-bits / 2


@pytest.mark.parametrize("settings", [
    {"digits": 0}, {"digits": 16}, {"digits": 2.5}, {"digits": True},
    {"bits": 0}, {"bits": 53}, {"bits": "8"}, {"digits": 3, "pwr": 1e-3}])
def test_wrong_digits_and_bits(settings):
    with pytest.raises(ValueError, match="|".join(settings)):
        Terp(**settings)


# ---- missing values ----


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", ">f4", "i4", "c8"])
def test_missing_values_stay_in_arrays_and_files(tmp_path, dtype):
    values = (100 * VALUES).astype(dtype)
    values[5:9, 3] = -9999
    settings = Terp(rel=1e-2, missing=-9999)
    read = h5z_terp.decompress(settings.compress(values))
    assert (read[5:9, 3] == values[5:9, 3]).all()
    assert abs(read - values).max() <= 0.011 * np.ptp(100 * VALUES)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("a", data=values, chunks=values.shape,
                                   compression=settings)
        assert data.id.read_direct_chunk((0, 0, 0))[1] == settings.compress(
            values)


@pytest.mark.parametrize("missing", [np.nan, np.float32(np.inf), -np.inf])
def test_special_values_need_no_missing_value(missing):
    assert Terp(abs=1, missing=missing) == Terp(abs=1)


def test_integers_without_the_missing_value_have_none():
    values = np.arange(200, dtype="u1")
    assert (Terp(abs=1, missing=-9999).compress(values) ==
            Terp(abs=1).compress(values))
    assert (Terp(abs=1, missing=2.5).compress(values) ==
            Terp(abs=1).compress(values))


def test_a_fill_value_of_two_parts_leaves_no_missing_value():
    with pytest.raises(ValueError, match="missing"):
        Terp(abs=1, missing=2).compress(VALUES + 1j, fill=1 + 2j)


# ---- the version of the format ----


@pytest.mark.parametrize("settings, version", [
    (Terp(lossless=True), 2), (Terp(lossless=True, format=1), 1)])
def test_the_version_of_streams(tmp_path, settings, version):
    few = np.random.default_rng(1).choice(noise(30, "f8"), (32, 32, 32))
    stream = settings.compress(few, plain=True)
    assert h5z_terp.info(stream)["version"] == version
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset("a", data=few, chunks=few.shape,
                                     compression=settings)
        assert Terp.from_dataset(stored) == settings
        written = file.create_dataset("b", few.shape, "f8", chunks=few.shape,
                                      compression=settings)
        h5z_terp.write(written, few)
        for data in stored, written:
            assert data.id.read_direct_chunk((0, 0, 0))[1] == stream


@pytest.mark.parametrize("version", [0, 2, True, "1"])
def test_wrong_versions(version):
    with pytest.raises(ValueError, match="format"):
        Terp(abs=1, format=version)


# ---- filter options ----


@pytest.mark.parametrize("settings", ALL, ids=repr)
def test_options_come_back(tmp_path, settings):
    assert Terp.from_filter_options(settings.filter_options) == settings
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset("a", data=VALUES, chunks=(16, 16, 16),
                                     compression=settings)
        assert Terp.from_dataset(stored) == settings
        again = file.create_dataset("b", data=VALUES, chunks=(16, 16, 16),
                                    compression=Terp.from_dataset(stored))
        for at in (0, 0, 0), (32, 16, 16):
            assert (again.id.read_direct_chunk(at) ==
                    stored.id.read_direct_chunk(at))


@pytest.mark.parametrize("options, settings", [
    (["--rel", "1e-3"], Terp(rel=1e-3)), (["--lossless"], Terp(lossless=True)),
    (["--abs", "2500"], Terp(abs=2500)), (["--psnr", 60], Terp(psnr=60.0)),
    (["--abs", "3e-37"], Terp(abs=3e-37)),
    (["--abs", "1e9", "--missing=-9.5", "--valid-range=-3:1.5"],
     Terp(abs=1e9, missing=-9.5, valid_range=(-3.0, 1.5))),
    (["--pwr", "0.01", "--floor", "1e-5", "--keep-sign"],
     Terp(pwr=0.01, floor=1e-5, keep_sign="values")),
    (["--rel", "0.123456789012", "--brick", "8x4", "--effort", "best"],
     Terp(rel=0.123456789012, dims=(8, 4), effort="best")),
    (["--lossless", "--format=1"], Terp(lossless=True, format=1))])
def test_options_of_the_tool(options, settings):
    assert Terp.from_filter_options(words_of_tool(*options)) == settings


def test_large_mantissas():
    assert (Terp.from_filter_options((1, 2**32 - 1, 0)) == Terp(abs=2.0**32 - 1))
    assert (Terp.from_filter_options((1 | 0x40000, 1, 0, 2**32 - 1, 0)) ==
            Terp(abs=1.0, missing=-1.0))


@pytest.mark.parametrize("options", ["213", (2, 1, 3.5), (2, "1", 3),
                                     (2, 1, 2**32), (2, -2**31 - 1, 3)])
def test_options_are_words(options):
    with pytest.raises(ValueError, match="whole number"):
        Terp.from_filter_options(options)


def test_no_options_mean_lossless():
    assert Terp.from_filter_options(()) == Terp(lossless=True)


@pytest.mark.parametrize("options, named", [
    ((2, 1), "too early"), ((0, 1, 3), "bound mode"), ((9, 1, 3), "bound mode"),
    ((2, 0, 0), "bound"), ((3, 1, 0), "bound"), ((2 | 1 << 30, 1, 3), "mode"),
    ((2 | 32, 1, 3), "pipeline"), ((2 | 3 << 8, 1, 3), "predictor"),
    ((2 | 3 << 12, 1, 3), "effort"), ((2 | 3 << 20, 1, 3), "keep_sign"),
    ((2 | 0x20000, 1, 3, 1, 9), "floor"), ((3 | 0x20000, 1, 3, 1), "too early"),
    ((2 | 0x80000, 1, 3, 1, 0, 0, 0), "valid"), ((2, 1, 3, 4, 1, 1, 1, 1), "4"),
    ((2, 1, 3, 2, 8), "too early"), ((2, 1, 3, 1, 0), "dims"),
    ((2 | 1 << 31, 0, 0, 3, 0, 0, 0), "newer"),
    ((2 | 1 << 23, 1, 3, 0), "four words"),
    ((2 | 1 << 23, 1, 3, 0, 7, 1, 2), "four words"),
    ((2 | 1 << 23, 1, 3, 0, 7, 1 << 18, 1, 2), "mode"),
    ((2 | 1 << 23, 1, 3, 0, *(7, 1, 1, 2) * 17), "17"),
    ((2 | 1 << 31, 0, 1 << 29, 1, 0, 0, 0), "dims"),
    ((2 | 1 << 31, 0, 1 << 29, 1 | 1 << 24, 0, 0, 0, 0, 0), "dims")])
def test_wrong_options_are_named(options, named):
    with pytest.raises(ValueError, match=named):
        Terp.from_filter_options(options)
    with h5py.File("unused.h5", "w", driver="core", backing_store=False) as file:
        with pytest.raises((ValueError, RuntimeError, OSError)):
            file.create_dataset("a", (8, 8), "f4", chunks=(8, 8),
                                compression=h5z_terp.FILTER_ID,
                                compression_opts=options)


def test_members_have_bounds_of_their_own(tmp_path):
    settings = Terp(rel=1e-3, members=MEMBERS)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=PARTICLES, chunks=(1000,), **settings)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["a"].dtype == PARTICLES.dtype
        read = file["a"][...]
        assert Terp.from_dataset(file["a"]) == settings
        assert (Terp.from_filter_options(h5z_terp._hdf5.options_of(file["a"]))
                .cd_values == settings.cd_values)
        assert h5z_terp.read(file["a"]).tobytes() == read.tobytes()
    assert read["mass"].tobytes() == PARTICLES["mass"].tobytes()
    assert read["name"].tobytes() == PARTICLES["name"].tobytes()
    assert 0 < abs(read["id"] - PARTICLES["id"]).max() <= 3
    error = abs(read["position"]["x"] - PARTICLES["position"]["x"]).max()
    assert 0.1 < error <= 0.5
    assert abs(read["position"]["y"]).max() == 0


def test_settings_of_a_table_of_many_members(tmp_path):
    """Its filter has some hundred words."""
    kinds = "f4", "i4", "f8", "S3"
    dtype = np.dtype([(f"m{i}", kinds[i % 4]) for i in range(100)])
    settings = Terp(rel=1e-3, members={f"m{4 * i}": Terp(abs=i + 1)
                                       for i in range(16)})
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("a", (100,), dtype, compression=settings)
        assert len(h5z_terp._hdf5.options_of(data)) > 150
        assert Terp.from_dataset(data) == settings


def test_members_are_settings():
    settings = Terp(rel=1e-3, members=MEMBERS)
    assert Terp(**json.loads(json.dumps(settings.config))) == settings
    assert eval(repr(settings)) == settings
    assert hash(settings) == hash(Terp(rel=1e-3, members=MEMBERS))
    assert settings != Terp(rel=1e-3)


@pytest.mark.parametrize("members, named", [
    ({"x": Terp(abs=1, missing=3)}, "missing"),
    ({"x": {"pwr": 1e-3, "floor": 1}}, "floor"),
    ({"x": {"rel": 1e-3, "dims": (3,)}}, "dims"), ({"x": {}}, "exactly one"),
    ({str(i): {"abs": 1} for i in range(17)}, "at most 16")])
def test_wrong_members_are_named(members, named):
    with pytest.raises(ValueError, match=named):
        Terp(rel=1e-3, members=members)


def test_members_that_a_dataset_lacks(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises((ValueError, RuntimeError, OSError)):
            file.create_dataset("a", data=PARTICLES, chunks=(1000,),
                                **Terp(rel=1e-3, members={"vx": Terp(abs=1)}))


def test_from_dataset_of_h5netcdf_and_netcdf4(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    h5netcdf = pytest.importorskip("h5netcdf")
    settings = Terp(pwr=1e-3, floor=1e-9, missing=-9999, valid_range=(0, 1))
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 100)
        group = file.createGroup("inner")
        plain = file.createVariable("plain", "f4", ("x",), zlib=True)
        variable = group.createVariable("v", "f4", ("x",), chunksizes=(50,))
        h5z_terp.set_filter(variable, settings)
        variable[:] = np.linspace(0, 1, 100)
        assert Terp.from_dataset(variable) == settings
        with pytest.raises(ValueError, match="'plain' has no .*zlib"):
            Terp.from_dataset(plain)
    with h5netcdf.File(tmp_path / "a.nc") as file:
        assert Terp.from_dataset(file["inner/v"]) == settings


def test_datasets_without_terp_are_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("zip", data=VALUES, compression="gzip", shuffle=True)
        file.create_dataset("plain", data=VALUES)
        with pytest.raises(ValueError, match="'/zip' has no .*shuffle, zlib"):
            Terp.from_dataset(file["zip"])
        with pytest.raises(ValueError, match="'/plain' has no .*none"):
            Terp.from_dataset(file["plain"])
        with pytest.raises(TypeError, match="h5py._hl.*Group"):
            Terp.from_dataset(file["/"])
    with pytest.raises(TypeError, match="ndarray is not a dataset"):
        Terp.from_dataset(VALUES)


# ---- chunks ----

SHAPES = [(64, 64, 64), (130, 140, 150), (1000, 1000), (721, 1440),
          (24, 301, 400), (6, 5, 180, 360), (3, 3, 20, 40, 200), (8, 9999, 4),
          (2, 130, 2, 70), (500, 1, 1, 300), (7, 9, 11), (40, 7, 1, 3, 65, 66)]


def test_chunks_are_those_of_the_tool(tmp_path):
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        for i, shape in enumerate(SHAPES):
            file.create_dataset(f"a{i}", shape, "f4")  # without values
    terp("repack", tmp_path / "plain.h5", tmp_path / "small.h5", "--dataset",
         "*=rel:1e-3", "--rel", "1e-3")
    with h5py.File(tmp_path / "small.h5") as file:
        found = [file[f"a{i}"].chunks for i in range(len(SHAPES))]
    assert found == [h5z_terp.chunks(shape, "f4") for shape in SHAPES]


def test_chunks_of_tables(tmp_path):
    assert h5z_terp.chunks((None,), PARTICLES.dtype) == h5z_terp.chunks((None,))
    assert h5z_terp.chunks((9, 9), np.dtype(("f4", (3,)))) == (9, 9)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(
            "a", data=PARTICLES, compression=Terp(lossless=True),
            chunks=h5z_terp.chunks(PARTICLES.shape, PARTICLES.dtype))
        assert file["a"].chunks == PARTICLES.shape


def test_chunks_of_growing_and_odd_shapes():
    assert h5z_terp.chunks((None, 721, 1440)) == h5z_terp.chunks((0, 721, 1440))
    assert h5z_terp.chunks((None, 721, 1440))[0] > 1
    assert h5z_terp.chunks((10**6,), "f8") == (250000,)
    assert h5z_terp.chunks((100,)) == (100,)
    assert h5z_terp.chunks(np.array([64, 64]), bool) == (64, 64)
    with pytest.raises(ValueError, match="no chunks"):
        h5z_terp.chunks(())
    with pytest.raises(ValueError, match="no chunks"):
        h5z_terp.chunks((5, -1))
    for shape in 5, "ab", (5.5, 5):
        with pytest.raises(ValueError, match="no chunks"):
            h5z_terp.chunks(shape)
    with pytest.raises(TypeError, match="datetime64"):
        h5z_terp.chunks((64, 64), "M8[s]")


# ---- the configuration ----


def test_configuration():
    text = run("import json, h5py, h5z_terp\n"
               "print(json.dumps(h5z_terp.get_config()))")
    config = json.loads(text)
    assert config["version"] == h5z_terp.__version__
    assert config["instructions"] in ("avx2", "baseline")
    assert config["engine"] == "cpu" and config["threads"] >= 1
    assert config["plugin_dir"] == h5z_terp.PLUGIN_DIR
    assert h5z_terp.PLUGIN_DIR in config["plugin_path"]
    assert bool(config["device"]) != bool(config["no_device"])
    assert config["packages"]["h5py"] == h5py.version.version
    hdf5, = (found for found in config["hdf5"] if "h5py" in found["path"])
    assert hdf5["version"] == h5py.version.hdf5_version
    assert h5z_terp.PLUGIN_DIR in hdf5["plugin_dirs"]


def test_configuration_follows_the_environment():
    text = run("import os; os.environ.update(TERP_ENGINE='auto', "
               "TERP_CPU='baseline')\n"
               "import json, h5z_terp\n"
               "print(json.dumps(h5z_terp.get_config()))")
    config = json.loads(text)
    assert config["engine"] == "auto" and config["instructions"] == "baseline"
    assert config["hdf5"] == []
