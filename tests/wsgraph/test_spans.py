import torch

from wsgraph import Axis, Group, Param, Spec
from wsgraph.spans import part_sizes, parts_along, spans

AXIS = Axis((("a", 4), ("b",)))
SPEC = Spec([Group("a", 2), Group("b", 3), Group("out", 5)], [Param("w", ("out", AXIS), "weight", reads=1)])


def test_one_after_the_other():
    assert list(spans([2, 0, 3])) == [(0, 2), (2, 0), (2, 3)]
    assert list(spans([])) == []


def test_sizes_of_parts():
    assert part_sizes(SPEC, AXIS) == [8, 3]


def test_parts_of_an_axis_with_their_share_of_a_tensor():
    tensor = torch.arange(55.0).view(5, 11)
    (first, left), (second, right) = parts_along(SPEC, AXIS, tensor, 1)
    assert (first, second) == (("a", 4), ("b",))
    assert torch.equal(left, tensor[:, :8].view(5, 2, 4))
    assert torch.equal(right, tensor[:, 8:])
