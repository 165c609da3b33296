"""Numbers that the paper reports, as it prints them."""

from __future__ import annotations

REPORTED: dict[str, dict[str, tuple[float, float | None]]] = {
    "MNIST MLP": {
        "not aligned": (2.007, 0.835),
        "weight matching": (0.047, 0.011),
        "activation matching": (0.024, 0.007),
        "Sinkhorn": (0.027, 0.002),
        "weight matching + Sinkhorn": (0.012, 0.0),
        "deep align": (0.005, 0.0),
        "deep align + Sinkhorn": (0.0, 0.0),
    },
    "CIFAR-10 MLP": {
        "not aligned": (0.927, 0.493),
        "weight matching": (0.156, 0.068),
        "activation matching": (0.066, 0.024),
        "Sinkhorn": (0.183, 0.072),
        "weight matching + Sinkhorn": (0.137, 0.05),
        "deep align": (0.078, 0.029),
        "deep align + Sinkhorn": (0.037, 0.004),
    },
    "CIFAR-10 CNN": {
        "not aligned": (1.12, 0.52),
        "weight matching": (0.66, 0.17),
        "activation matching": (0.23, 0.0),
        "Sinkhorn": (0.31, 0.0),
        "weight matching + Sinkhorn": (0.24, 0.0),
        "activation matching + Sinkhorn": (0.10, None),
        "deep align": (0.23, 0.0),
        "deep align + Sinkhorn": (0.08, 0.0),
    },
    "STL-10 CNN": {
        "not aligned": (1.0, 0.65),
        "weight matching": (0.85, 0.45),
        "activation matching": (0.47, 0.25),
        "Sinkhorn": (0.36, 0.16),
        "weight matching + Sinkhorn": (0.31, 0.14),
        "activation matching + Sinkhorn": (0.26, None),
        "deep align": (0.38, 0.18),
        "deep align + Sinkhorn": (0.23, 0.09),
    },
    "VGG11": {
        "not aligned": (1.27, 0.73),
        "weight matching": (1.56, 0.75),
        "activation matching": (0.57, 0.20),
        "Sinkhorn": (0.36, 0.04),
        "weight matching + Sinkhorn": (0.31, 0.02),
        "deep align": (0.29, 0.05),
        "deep align + Sinkhorn": (0.09, 0.0),
    },
    "VGG16": {
        "not aligned": (1.13, 0.77),
        "weight matching": (2.07, 1.31),
        "activation matching": (2.33, 1.12),
        "Sinkhorn": (0.92, 0.21),
        "weight matching + Sinkhorn": (0.87, 0.20),
        "deep align": (0.67, 0.26),
        "deep align + Sinkhorn": (0.31, 0.01),
    },
    "MNIST MLPs of 3, 4 and 5 layers": {
        "weight matching": (0.04, None),
        "Sinkhorn": (0.02, None),
        "weight matching + Sinkhorn": (0.01, None),
        "deep align": (0.03, None),
        "deep align + Sinkhorn": (0.01, None),
    },
}
"""Networks → method → barrier and area under the curve of the loss; ``None`` where there is no number."""
LOSSES: dict[str, dict[str, float]] = {
    "MNIST MLP": {"supervised + LMC": 0.007, "supervised + alignment": 0.061, "all three": 0.005},
    "CIFAR-10 MLP": {"supervised + LMC": 0.070, "supervised + alignment": 0.343, "all three": 0.078},
    "CIFAR-10 INR": {"supervised + LMC": 0.063, "supervised + alignment": 0.127, "all three": 0.087},
}
"""Networks → losses that an aligner is trained with → its barrier."""
SECONDS = {"activation matching": 6.38, "Sinkhorn": 37.74, "deep align": 0.20}
"""Of aligning a pair of CIFAR-10 CNNs, on an A100."""
