"""h5z_terp.torch in DataLoader: workers, shuffling, processes and tensors. pytest runs
it; or Python itself, with the folder of a wheel, which need not be installed:

    test_torch.py DIRECTORY_OF_THE_WHEEL"""

import glob
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

try:
    import h5py
    import numpy as np
    import torch
    from torch.utils.data import DataLoader
except ImportError as error:
    if __name__ == "__main__":
        print("skipped:", error)
        sys.exit(77)
    import pytest

    pytest.skip("no PyTorch", allow_module_level=True)

if __name__ == "__main__":
    wheels = glob.glob(sys.argv[1] + "/*.whl")
    if len(wheels) != 1:
        print("skipped: no wheel was built")
        sys.exit(77)
    unpacked = tempfile.TemporaryDirectory()
    zipfile.ZipFile(wheels[0]).extractall(unpacked.name)
    sys.path.insert(0, unpacked.name)
    os.environ["PYTHONPATH"] = unpacked.name  # of spawned workers

import h5z_terp  # noqa: E402
from h5z_terp import _samples  # noqa: E402
from h5z_terp.torch import SampleDataset  # noqa: E402

PLACES = np.meshgrid(np.arange(100), np.arange(12), np.arange(10),
                     indexing="ij")
ROWS = np.sin(sum(PLACES) / 7).astype("f4")


def double(values):
    return 2 * values


class Loading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "train.h5")
        lossless = h5z_terp.Terp(lossless=True)
        with h5py.File(cls.path, "w") as file:
            file.create_dataset("x", data=ROWS, chunks=(5, 12, 10), **lossless)
            file.create_dataset("y", data=np.arange(100), chunks=(5,))
            for dtype in ">f4", "u1", "u2", "u4", "i2", "f2", "c8":
                file[dtype] = (ROWS * 5).astype(dtype)
        # Small blocks, so that all workers have some.
        cls.nbytes = _samples._BLOCK_NBYTES[None]
        _samples._BLOCK_NBYTES[None] = 1

    @classmethod
    def tearDownClass(cls):
        _samples._BLOCK_NBYTES[None] = cls.nbytes
        cls.folder.cleanup()

    def labels(self, loader):
        found = []
        for x, y in loader:
            self.assertIsInstance(x, torch.Tensor)
            np.testing.assert_array_equal(x.numpy(), ROWS[y.numpy()])
            found += y.tolist()
        return found

    def test_workers_share_the_samples(self):
        dataset = SampleDataset(self.path, ["x", "y"], batch=8)
        for workers, start in (0, None), (2, "fork"), (2, "spawn"):
            with self.subTest(workers=workers, start=start):
                loader = DataLoader(dataset, batch_size=None,
                                    num_workers=workers,
                                    multiprocessing_context=start)
                self.assertEqual(sorted(self.labels(loader)),
                                 list(range(100)))

    def test_single_samples_are_stacked(self):
        dataset = SampleDataset(self.path, ["x", "y"], seed=1)
        self.assertEqual(len(dataset), 100)
        loader = DataLoader(dataset, batch_size=32, num_workers=2)
        first = self.labels(loader)
        self.assertEqual(sorted(first), list(range(100)))
        self.assertEqual(self.labels(loader), first)
        dataset.set_epoch(1)
        self.assertNotEqual(self.labels(loader), first)

    def test_torchs_seed_gives_the_order(self):
        dataset = SampleDataset(self.path, ["x", "y"])
        for workers in 0, 2:
            loader = DataLoader(dataset, batch_size=10, num_workers=workers)
            orders = []
            for seed in 7, 7, 8:
                torch.manual_seed(seed)
                orders += [self.labels(loader), self.labels(loader)]
            self.assertEqual(orders[0:2], orders[2:4])
            self.assertNotEqual(orders[0], orders[1])
            self.assertNotEqual(orders[0], orders[4])

    def test_types_of_tensors(self):
        for name, dtype in ((">f4", "float32"), ("u1", "uint8"),
                            ("u2", "int32"), ("u4", "int64"), ("i2", "int16"),
                            ("f2", "float16"), ("c8", "complex64")):
            found = torch.stack(list(SampleDataset(self.path, name,
                                                   shuffle=False)))
            self.assertEqual(found.dtype, getattr(torch, dtype))
            np.testing.assert_array_equal(
                found.numpy(), (ROWS * 5).astype(name).astype(dtype))
        one, = list(SampleDataset(self.path, "x", window=100,
                                  dtype=torch.float64, transform=double))
        self.assertEqual(one.dtype, torch.float64)
        np.testing.assert_array_equal(one.numpy(), 2 * ROWS.astype("f8"))

    def test_tensors_have_dlpack(self):
        tensor = next(iter(SampleDataset(self.path, "x")))
        np.testing.assert_array_equal(
            torch.utils.dlpack.from_dlpack(
                torch.utils.dlpack.to_dlpack(tensor)).numpy(), tensor.numpy())

    def test_processes_have_as_many_samples_each(self):
        from h5z_terp import torch as wrapper

        dataset = SampleDataset(self.path, ["x", "y"], seed=1)
        process = wrapper._process
        try:
            # Spawned workers do not know the number of their parent.
            for context in "fork", "spawn":
                shares = []
                for i in range(3):
                    wrapper._process = lambda: (i, 3)
                    shares.append(self.labels(DataLoader(
                        dataset, num_workers=2, batch_size=4,
                        multiprocessing_context=context)))
                    self.assertEqual(len(dataset), len(shares[-1]))
                self.assertEqual(list(map(len, shares)), [33, 33, 33])
                self.assertEqual(len(set(sum(shares, []))), 99)
            with self.assertRaisesRegex(ValueError, "need a seed"):
                list(SampleDataset(self.path, "x"))
        finally:
            wrapper._process = process

    def test_the_example_learns(self):
        example = os.path.join(os.path.dirname(__file__),
                               "../../examples/train_torch.py")
        said = subprocess.run(
            [sys.executable, example, os.path.join(self.folder.name, "u.h5"),
             "1"], check=True, text=True, stdout=subprocess.PIPE).stdout
        self.assertRegex(said, r"epoch 2, loss 0\.\d+\n$")

    def test_a_device_is_for_the_main_process(self):
        # Its arguments are checked before any GPU is looked for.
        dataset = SampleDataset(self.path, "x", device="cuda")
        with self.assertRaisesRegex(RuntimeError, "num_workers=0"):
            list(DataLoader(dataset, num_workers=1))
        if torch.cuda.is_available():
            found = torch.stack(list(SampleDataset(self.path, "x",
                                                   device="cuda",
                                                   shuffle=False)))
            self.assertTrue(found.is_cuda)
            np.testing.assert_array_equal(found.cpu().numpy(), ROWS)
        else:
            with self.assertRaisesRegex(RuntimeError, "finds no GPU"):
                list(dataset)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
