#!/usr/bin/env python3
"""Trains a small network with PyTorch on a compressed HDF5 file: it predicts the
next time step of waves from the two before.

    pip install h5z-terp torch
    ./train_torch.py FILE [WORKERS]

FILE is made if it does not exist. WORKERS: processes of DataLoader; by default
none, because the dataset reads ahead with threads.
"""
import os
import sys

import h5py
import h5z_terp
import numpy as np
import torch
from h5z_terp.torch import SampleDataset
from torch.utils.data import DataLoader

STEPS, SIZE, EPOCHS = 400, 48, 3


def make(path):
    """Waves that run in all directions, and noise."""
    dice = np.random.default_rng(1)
    y, x = np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij")
    values = np.zeros((STEPS, SIZE, SIZE), "f4")
    for _ in range(8):
        along, across, speed, phase = dice.uniform(-0.5, 0.5, 4)
        for t in range(STEPS):
            values[t] += np.sin(along * x + across * y + speed * t + 9 * phase)
    values += dice.normal(0, 1e-3, values.shape)
    with h5py.File(path, "w") as file:
        file.create_dataset("u", data=values, chunks=(16, SIZE, SIZE),
                            **h5z_terp.Terp(abs=1e-2))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    path, workers = sys.argv[1], int((sys.argv + [0])[2])
    if not os.path.exists(path):
        make(path)
    device = "cuda" if torch.cuda.is_available() and workers == 0 else None
    # Three steps in a row: two for the network, and the one that follows.
    dataset = SampleDataset(path, "u", window=3, stride=1, batch=16, seed=0,
                            device=device)
    loader = DataLoader(dataset, batch_size=None, num_workers=workers)
    torch.manual_seed(0)
    network = torch.nn.Conv2d(2, 1, 3, padding=1).to(device or "cpu")
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    losses = []
    for epoch in range(EPOCHS):
        dataset.set_epoch(epoch)
        total = 0.0
        for steps in loader:
            loss = ((network(steps[:, :2]) - steps[:, 2:]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() / len(dataset)
        losses.append(total)
        print(f"epoch {epoch}, loss {total:.4f}")
    if not losses[-1] < losses[0]:
        sys.exit("the network has learned nothing")


if __name__ == "__main__":
    main()
