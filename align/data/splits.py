"""One data set divided among several networks: by class for two, among the clients of federated learning.

Every function returns sorted index sets that are a partition: no image is left out, none is in two of them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

TRIES = 1_000


def disjoint_split(labels: Tensor, *, share: float = 0.95, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two sides that know different classes: the first gets ``share`` of the lower half of them, and the rest of the
    upper half; the second gets what remains.

    With ten classes and the default this is 95 % of classes 0-4 and 5 % of classes 5-9 against 5 % and 95 %.

    Args:
        labels: Integer labels [N].
        share: The part of each of its own classes that a side gets, between 0 and 1.
        seed: Chooses the images.

    Returns:
        Indices int64 of the first and of the second side.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}, expected a number between 0 and 1")
    generator = torch.Generator().manual_seed(seed)
    classes = labels.unique()
    sides: tuple[list[Tensor], list[Tensor]] = ([], [])
    for k, label in enumerate(classes):
        members = _shuffled((labels == label).nonzero().flatten(), generator)
        own, other = sides if k < len(classes) / 2 else sides[::-1]
        count = round(len(members) * share)
        own.append(members[:count])
        other.append(members[count:])
    first, second = (_joined(side) for side in sides)
    return first, second


def iid_clients(n: int, clients: int, *, seed: int = 0) -> list[Tensor]:
    """``n`` images dealt out at random, to each client the same number (or one more).

    Returns:
        One index set int64 per client.
    """
    _check(n, clients)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return [part.sort().values for part in order.tensor_split(clients)]


def dirichlet_clients(labels: Tensor, clients: int, alpha: float, *, seed: int = 0, minimum: int = 1) -> list[Tensor]:
    """Clients that hold different mixtures of classes: each class is divided among them in proportions drawn from
    Dirichlet(α, ..., α). A small α gives each client few classes, a large one nearly the same mixture to all.

    Args:
        labels: Integer labels [N].
        clients: How many.
        alpha: The concentration α > 0; 0.1 to 0.5 is usual for very unequal clients.
        seed: Chooses proportions and images.
        minimum: Proportions that leave a client with fewer images than this are drawn again.

    Returns:
        One index set int64 per client.
    """
    _check(len(labels), clients)
    if not alpha > 0:
        raise ValueError(f"alpha is {alpha}, expected a positive number")
    rng = np.random.default_rng(seed)
    counts = np.bincount(labels.numpy(force=True))
    for _ in range(TRIES):
        shares = rng.dirichlet(np.full(clients, alpha), size=len(counts))  # [classes, clients]
        cuts = np.rint(shares.cumsum(1) * counts[:, None]).astype(int)
        cuts[:, -1] = counts
        if np.diff(cuts, axis=1, prepend=0).sum(0).min() >= minimum:
            return _cut(labels, cuts, torch.Generator().manual_seed(seed))
    raise ValueError(
        f"{TRIES} draws left some of {clients} clients with fewer than {minimum} of {len(labels)} images: "
        f"take a larger alpha than {alpha}, fewer clients, or a smaller minimum"
    )


def _cut(labels: Tensor, cuts: np.ndarray, generator: torch.Generator) -> list[Tensor]:
    """Each class cut at its row of ``cuts`` [classes, clients], after shuffling."""
    parts = []
    for label, row in enumerate(cuts):
        members = _shuffled((labels == label).nonzero().flatten().cpu(), generator)
        parts.append(members.tensor_split(row[:-1].tolist()))
    return [_joined(list(client)) for client in zip(*parts, strict=True)]


def _shuffled(indices: Tensor, generator: torch.Generator) -> Tensor:
    return indices[torch.randperm(len(indices), generator=generator)]


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts).sort().values if parts else torch.empty(0, dtype=torch.long)


def _check(n: int, clients: int) -> None:
    if not 1 <= clients <= n:
        raise ValueError(f"{clients} clients for {n} images, expected between 1 and {n}")
