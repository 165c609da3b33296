"""The real data sets, where the cache folder of this machine has them; nothing is fetched here."""

import hashlib

import pytest
import torch

from align.data import cache_folder, load
from align.data.catalogue import CATALOGUE
from align.data.store import compact_path, read_compact

COUNTS = {
    "mnist": (
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ),
    "fashion_mnist": ([6000] * 10, [1000] * 10),
    "cifar10": ([5000] * 10, [1000] * 10),
    "stl10": ([500] * 10, [800] * 10),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_set(name: str) -> None:
    entry = CATALOGUE[name]
    path = compact_path(entry, cache_folder())
    if not path.exists():
        pytest.skip(f"{path} is not there: `python -m align.data fetch {name}` gets it")
    raw = read_compact(entry, path)  # checks the SHA-256 of all tensors
    for split, counts in zip(("train", "test"), COUNTS[name], strict=True):
        assert raw[f"{split}_images"].shape == (sum(counts), *entry.shape)
        assert raw[f"{split}_labels"].bincount(minlength=10).tolist() == counts

    data = load(name)
    held = sum(COUNTS[name][0]) // 10
    assert [len(inputs) for inputs, _ in (data.train, data.val, data.test)] == [9 * held, held, sum(COUNTS[name][1])]
    assert data.test[0].shape[1:] == entry.shape == data.shape
    torch.testing.assert_close(
        data.test[0][:100], (raw["test_images"][:100] / 255 - entry.mean) / entry.std, atol=1e-5, rtol=1e-5
    )


CIFAR10_FILES = {
    "train": (
        "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    ),
    "test": ("8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",),
}
"""SHA-256 of data_batch_1.bin to data_batch_5.bin and test_batch.bin, as published."""


def test_cifar10_has_the_bytes_of_the_official_binary_files() -> None:
    path = compact_path(CATALOGUE["cifar10"], cache_folder())
    if not path.exists():
        pytest.skip(f"{path} is not there: `python -m align.data fetch cifar10` gets it")
    raw = read_compact(CATALOGUE["cifar10"], path)
    for split, expected in CIFAR10_FILES.items():
        records = torch.cat([raw[f"{split}_labels"][:, None], raw[f"{split}_images"].flatten(1)], 1)
        got = [hashlib.sha256(file.contiguous().numpy().data).hexdigest() for file in records.split(10_000)]
        assert tuple(got) == expected
