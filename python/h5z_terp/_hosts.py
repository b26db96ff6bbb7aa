"""Teaches other packages terp's filter. Importing h5z_terp calls `teach`; each
package learns when it is imported (_imports.py)."""

from __future__ import annotations

import functools
from typing import Any

from . import _imports
from ._hdf5 import check_variable, options_of, set_filter
from ._settings import FILTER_ID, Terp

_NAME = str(FILTER_ID)  # h5py's name of a filter that it does not know


def _teach_h5py(filters: Any) -> None:
    """`compression` may be an object of Terp."""
    filters.FilterRefBase.register(Terp)


# ---- xarray ----


def _encoding_of(variable: Any) -> dict[str, Any]:
    try:
        return dict(Terp.from_filter_options(options_of(variable)))
    except (TypeError, ValueError, RuntimeError):
        return {}


def _keep_filter_of(store: Any) -> None:
    """Variables that xarray reads have terp's filter in their encoding."""
    read = store.open_store_variable

    @functools.wraps(read)
    def open_store_variable(self: Any, name: Any, var: Any) -> Any:
        variable = read(self, name, var)
        variable.encoding.update(_encoding_of(var))
        return variable

    store.open_store_variable = open_store_variable


def _teach_h5netcdf(backend: Any) -> None:
    _keep_filter_of(backend.H5NetCDFStore)


def _may_have_filter(variable: Any) -> bool:
    """Whether terp can compress a variable of netCDF4. With the data model of
    netCDF-3 netCDF4 ends the definition of a variable at once."""
    try:
        check_variable(variable)
    except TypeError:
        return False
    return bool(variable.group().data_model == "NETCDF4")


def _teach_netcdf4(backend: Any) -> None:
    """xarray's engine netcdf4 takes the encoding of the engine h5netcdf. As with
    other encodings, what cannot be is an error only where the user asks for it,
    and not where it comes from the file that was read."""
    store = backend.NetCDF4DataStore
    _keep_filter_of(store)
    prepare = store.prepare_variable

    @functools.wraps(prepare)
    def prepare_variable(self: Any, name: Any, variable: Any, *others: Any,
                         **named: Any) -> Any:
        filter_of = variable.encoding.get("compression")
        if isinstance(filter_of, Terp):
            settings = filter_of
        elif filter_of in (FILTER_ID, _NAME):
            settings = Terp.from_filter_options(
                variable.encoding.get("compression_opts") or ())
        else:
            return prepare(self, name, variable, *others, **named)
        variable = variable.copy(deep=False)
        variable.encoding = {
            key: value for key, value in variable.encoding.items()
            if key not in ("compression", "compression_opts", "zlib", "shuffle",
                           "complevel")}
        is_new = name not in self.ds.variables
        is_asked = named.get("check_encoding", others[0] if others else False)
        prepared = prepare(self, name, variable, *others, **named)
        if is_new and variable.dims:
            target = self.ds.variables[name]
            if is_asked or _may_have_filter(target):
                set_filter(target, settings)
        return prepared

    store.prepare_variable = prepare_variable


# ---- references to chunks ----


class _WithoutTerp:
    """A dataset of h5py without terp's filter, and without the shuffle before it,
    which moves nothing."""

    shuffle = False

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._filters = {name: options
                         for name, options in dataset._filters.items()
                         if name != _NAME}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


def _config_of(options: Any) -> dict[str, Any]:
    """Without bounds of members, which codecs do not have. They cannot decode
    chunks with members, and say so."""
    config = Terp.from_filter_options(options).config
    config.pop("members", None)
    return config


def _teach_kerchunk(hdf: Any) -> None:
    reader = hdf.SingleHdf5ToZarr
    decode = reader._decode_filters

    @functools.wraps(decode)
    def _decode_filters(self: Any, h5obj: Any) -> Any:
        if _NAME not in getattr(h5obj, "_filters", ()):
            return decode(self, h5obj)
        from .numcodecs import TerpCodec

        return [TerpCodec(**_config_of(h5obj._filters[_NAME])),
                *decode(self, _WithoutTerp(h5obj))]

    reader._decode_filters = _decode_filters


def _teach_virtualizarr(filters: Any) -> None:
    make = filters._filter_to_codec

    @functools.wraps(make)
    def _filter_to_codec(filter_id: Any, filter_properties: Any = None) -> Any:
        if str(filter_id) != _NAME:
            return make(filter_id, filter_properties)
        from .numcodecs import TerpCodec

        return TerpCodec(**_config_of(filter_properties or ()))

    filters._filter_to_codec = _filter_to_codec


_LESSONS = {
    "h5py._hl.filters": _teach_h5py,
    # Debian and Ubuntu build h5py with HDF5 and with parallel HDF5.
    "h5py._debian_h5py_serial._hl.filters": _teach_h5py,
    "h5py._debian_h5py_mpi._hl.filters": _teach_h5py,
    "xarray.backends.h5netcdf_": _teach_h5netcdf,
    "xarray.backends.netCDF4_": _teach_netcdf4,
    "kerchunk.hdf": _teach_kerchunk,
    "virtualizarr.parsers.hdf.filters": _teach_virtualizarr,
}


def teach() -> None:
    for name, lesson in _LESSONS.items():
        _imports.when_imported(name, lesson)
