"""Arrays in the memory of TERP_TEST_CUDART's device, with CuPy's interface.
The device may be emulated."""

import ctypes
import os

import numpy as np

_cuda = ctypes.CDLL(os.environ["TERP_TEST_CUDART"])


def _copy(to, start, nbytes):
    assert _cuda.cudaMemcpy(ctypes.c_void_p(to), ctypes.c_void_p(start),
                            ctypes.c_size_t(nbytes), 4) == 0


class Array:
    def __init__(self, at, shape, dtype, owner=None):
        self.at, self.shape, self.owner = at, tuple(shape), owner
        self.dtype = np.dtype(dtype)
        self.nbytes = self.dtype.itemsize * int(np.prod(shape))

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str,
                "data": (self.at, False), "version": 3, "strides": None}

    def __len__(self):
        return self.shape[0]

    @property
    def ndim(self):
        return len(self.shape)

    def __getitem__(self, part):
        if isinstance(part, int):
            nbytes = self.nbytes // self.shape[0]
            return Array(self.at + part * nbytes, self.shape[1:], self.dtype,
                         self)
        if isinstance(part, tuple):
            return array(self.get()[part])
        places = range(*part.indices(self.shape[0]))
        assert places.step == 1 and len(self.shape) == 1
        return Array(self.at + places.start * self.dtype.itemsize,
                     (len(places),), self.dtype, self)

    def __setitem__(self, part, values):
        host = self.get()
        host[part] = values.get() if isinstance(values, Array) else values
        self.set(host)

    def reshape(self, shape):
        return Array(self.at, shape, self.dtype, self)

    def __ne__(self, value):
        return array(self.get() != value)

    def __del__(self):
        if self.owner is None:
            _cuda.cudaFree(ctypes.c_void_p(self.at))

    def get(self):
        host = np.empty(self.shape, self.dtype)
        _copy(host.ctypes.data, self.at, host.nbytes)
        return host

    def set(self, values):
        assert values.nbytes == self.nbytes and values.flags.c_contiguous
        _copy(self.at, values.ctypes.data, self.nbytes)


def empty(shape, dtype):
    dtype = np.dtype(dtype)
    at = ctypes.c_void_p()
    nbytes = max(dtype.itemsize * int(np.prod(shape)), 1)
    assert _cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(nbytes)) == 0
    return Array(at.value, shape, dtype)


def array(values):
    values = np.array(values, order="C")
    made = empty(values.shape, values.dtype)
    _copy(made.at, values.ctypes.data, values.nbytes)
    return made


asarray = array
