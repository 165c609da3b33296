"""Every test starts from the same seed, on one thread, with the Agg backend; nothing reports to anybody."""

import os

import matplotlib
import pytest
import torch
from hypothesis import HealthCheck, settings

# Before Flower is imported, and for the processes that tests start.
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
os.environ |= {"RAY_worker_niceness": "0"}  # else Ray's workers wait for every other test
matplotlib.use("Agg")
torch.set_num_threads(1)  # two pytest workers on two cores; more threads than cores would spin
# A busy machine is no failure: no deadlines, and none for drawing examples either.
slow = [HealthCheck.too_slow]
settings.register_profile("project", deadline=None, derandomize=True, max_examples=20, suppress_health_check=slow)
settings.load_profile("project")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param
