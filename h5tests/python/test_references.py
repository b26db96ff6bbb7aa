"""kerchunk and VirtualiZarr describe chunks that terp's filter compressed, after
``import h5z_terp``; Zarr and xarray read them without HDF5."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest

import h5z_terp
from fields import waves
from h5z_terp import Terp

zarr = pytest.importorskip("zarr", minversion="3")
xarray = pytest.importorskip("xarray")

VALUES = waves((40, 33, 20))


def write(path, values=VALUES, settings=Terp(abs=1e-3), **options):
    """A file with dimension scales, which VirtualiZarr expects."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("wave", data=values, chunks=(16, 16, 16),
                                   compression=settings, **options)
        file.create_dataset("zip", data=values, chunks=(16, 16, 16),
                            compression="gzip", shuffle=True)
        for i, name in enumerate("xyz"):
            scale = file.create_dataset(name, data=np.arange(values.shape[i]))
            scale.make_scale(name)
            data.dims[i].attach_scale(scale)
            file["zip"].dims[i].attach_scale(scale)


def by_kerchunk(path):
    pytest.importorskip("kerchunk")
    from kerchunk.hdf import SingleHdf5ToZarr

    with open(path, "rb") as file:
        return SingleHdf5ToZarr(file, str(path), inline_threshold=0).translate()


def parse(path):
    """VirtualiZarr's store."""
    pytest.importorskip("virtualizarr", minversion="2")
    from obstore.store import LocalStore
    from virtualizarr.parsers import HDFParser
    try:
        from obspec_utils.registry import ObjectStoreRegistry
    except ImportError:
        from virtualizarr.registry import ObjectStoreRegistry

    return HDFParser()(f"file://{path}", registry=ObjectStoreRegistry(
        {"file://": LocalStore()}))


def by_virtualizarr(path):
    target = path.with_suffix(".json")
    dataset = parse(path).to_virtual_dataset()
    # The accessor has another name in newer versions.
    accessor = dataset.vz if hasattr(dataset, "vz") else dataset.virtualize
    accessor.to_kerchunk(str(target), format="json")
    return json.loads(target.read_text())


def open_references(references):
    pytest.importorskip("fsspec")
    from fsspec.implementations.reference import ReferenceFileSystem

    store = zarr.storage.FsspecStore(
        ReferenceFileSystem(references, asynchronous=True), read_only=True)
    return zarr.open_group(store, mode="r", zarr_format=2)


makers = pytest.mark.parametrize("make", [by_kerchunk, by_virtualizarr])


@makers
@pytest.mark.parametrize("settings", [
    Terp(abs=1e-3), Terp(lossless=True),
    Terp(pwr=1e-2, floor=1e-3, missing=9, valid_range=(-5, 5), effort="fast")],
    ids=repr)
def test_references_read_what_hdf5_reads(tmp_path, make, settings):
    path = tmp_path / "a.h5"
    write(path, settings=settings)
    group = open_references(make(path))
    with h5py.File(path) as file:
        for name in "wave", "zip":
            np.testing.assert_array_equal(group[name][...], file[name][...])


@makers
def test_references_hold_the_bound(tmp_path, make):
    path = tmp_path / "a.h5"
    write(path, settings=Terp(rel=1e-3, effort="fast"))
    found = make(path)["refs"]["wave/.zarray"]
    found = found if isinstance(found, dict) else json.loads(found)
    assert found["filters"] == [{"id": "terp", "rel": 1e-3, "effort": "fast"}]


@makers
@pytest.mark.parametrize("dtype", [">f4", "f8", "f2", "i4", "u1"])
def test_types(tmp_path, make, dtype):
    path = tmp_path / "a.h5"
    write(path, (10 * VALUES).astype(dtype))
    read = open_references(make(path))["wave"][...]
    with h5py.File(path) as file:
        np.testing.assert_array_equal(read, file["wave"][...])


def test_filters_behind_terp(tmp_path):
    path = tmp_path / "a.h5"
    from h5py import h5d, h5p, h5s, h5t

    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((16, 16, 16))
    creation.set_shuffle()
    creation.set_filter(h5z_terp.FILTER_ID, 0, Terp(abs=1e-3).cd_values)
    creation.set_deflate(3)
    with h5py.File(path, "w") as file:
        h5d.create(file.id, b"wave", h5t.IEEE_F32LE,
                   h5s.create_simple(VALUES.shape), creation)
        file["wave"][...] = VALUES
        assert list(file["wave"]._filters) == ["shuffle", "46117", "gzip"]
    with h5py.File(path) as file:
        expected = file["wave"][...]
    read = open_references(by_kerchunk(path))["wave"][...]
    np.testing.assert_array_equal(read, expected)
    with xarray.open_zarr(parse(path), consolidated=False,
                          zarr_format=3) as found:
        np.testing.assert_array_equal(found["wave"], expected)


def test_xarray_reads_virtualizarrs_store(tmp_path):
    path = tmp_path / "a.h5"
    write(path)
    with xarray.open_zarr(parse(path), consolidated=False,
                          zarr_format=3) as found:
        assert 0 < abs(found["wave"] - VALUES).max() <= 1e-3


def test_xarray_reads_kerchunks_references(tmp_path):
    path = tmp_path / "a.h5"
    write(path)
    target = tmp_path / "refs.json"
    target.write_text(json.dumps(by_kerchunk(path)))
    with xarray.open_dataset(str(target), engine="kerchunk") as found:
        assert 0 < abs(found["wave"] - VALUES).max() <= 1e-3


@pytest.mark.parametrize("settings", [
    Terp(rel=1e-3), Terp(rel=1e-3, members={"f0": {"abs": 1}})], ids=repr)
def test_tables_do_not_disturb_virtualizarr(tmp_path, settings):
    pytest.importorskip("virtualizarr", minversion="2")
    path = tmp_path / "a.h5"
    write(path)
    with h5py.File(path, "a") as file:
        file.create_dataset("t", data=np.ones(500, "f4,i4"), chunks=(500,),
                            **settings)
    found = zarr.open_group(parse(path), mode="r")
    assert 0 < abs(found["wave"][...] - VALUES).max() <= 1e-3
    with pytest.raises(h5z_terp.TerpError, match="container"):
        found["t"][...]


@pytest.mark.parametrize("package, module", [
    ("kerchunk", "kerchunk.hdf"),
    ("virtualizarr", "virtualizarr.parsers.hdf.filters")])
def test_any_order_of_imports(package, module):
    pytest.importorskip(package)
    for imports in f"{module}, h5z_terp", f"h5z_terp, {module}":
        script = f"""
import {imports}
import sys
found = sys.modules[{module!r}]
learned = (found.SingleHdf5ToZarr._decode_filters if {package!r} == "kerchunk"
           else found._filter_to_codec)
assert learned.__wrapped__
"""
        subprocess.run([sys.executable, "-c", script], check=True)


def test_the_codec_of_references_does_not_write(tmp_path):
    from h5z_terp.zarr import TerpBytesCodec

    codec = TerpBytesCodec(abs=1e-3)
    assert TerpBytesCodec.from_dict(codec.to_dict()) == codec
    assert repr(codec) == "TerpBytesCodec(abs=0.001)"
    assert TerpBytesCodec().codec_config == {"id": "terp"}
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=(8,), dtype="f4",
                              compressors=codec)
    with pytest.raises(ValueError, match="only reads"):
        array[...] = 1
