import numpy as np
import pytest
import torch
from networks import cnn, mlp
from torch import nn

import align
from align.running.fitting import require_fitting
from wsgraph import to_graph

IMAGES, LABELS = torch.randn(6, 3, 8, 8), torch.zeros(6, dtype=torch.long)


@pytest.mark.parametrize("inputs", [torch.randn(6, 192), IMAGES.movedim(1, -1), torch.randn(6, 1, 8, 8)])
@pytest.mark.parametrize("use", [align.match, align.barrier])
def test_inputs_of_a_wrong_shape_are_named_before_anything_is_computed(inputs, use):
    expected = rf"data=, of shape {list(inputs.shape)}".replace("[", r"\[").replace("]", r"\]")
    with pytest.raises(ValueError, match=rf"{expected} and type torch.float32; its first layer is Conv2d\(3, .* Pass"):
        use(cnn(), cnn(), data=(inputs, LABELS))


def test_targets_are_counted_as_they_were_passed():
    with pytest.raises(ValueError, match="data has 400 inputs but 300 targets"):
        align.match(mlp(4, 5, 3), mlp(4, 5, 3), data=(torch.randn(400, 4), torch.zeros(300, dtype=torch.long)))


@pytest.mark.parametrize("data", [np.zeros((4, 3)), (np.zeros((4, 3)), np.zeros(4))])
def test_arrays_are_to_be_made_tensors(data):
    with pytest.raises(TypeError, match=r"data holds a ndarray, expected tensors: pass torch.as_tensor\(...\)"):
        align.match(mlp(3, 5, 2), mlp(3, 5, 2), "activation_matching", data=data)


@pytest.mark.parametrize(
    "data", [IMAGES, (IMAGES, LABELS), IMAGES.double(), [IMAGES], "noise", None, {"x": IMAGES}, iter([IMAGES])]
)
def test_what_fits_or_cannot_be_told_passes_and_the_network_stays_as_it_is(data):
    model = cnn().train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    require_fitting(model, data)
    assert model.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_what_is_no_module_is_not_run():
    model, misfit = mlp(3, 2), torch.randn(2, 7)
    with pytest.raises(ValueError, match="does not take the inputs"):
        require_fitting(model, misfit)
    require_fitting(to_graph(model), misfit)


def test_randomness_of_the_network_is_its_own():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Dropout()), torch.randn(4, 3)
    state = torch.get_rng_state()
    require_fitting(model, x)
    assert torch.equal(torch.get_rng_state(), state)
