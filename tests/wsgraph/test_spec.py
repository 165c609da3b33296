import copy
import dataclasses

import pytest
import torch
from networks import cnn, mlp

from wsgraph import Axis, Group, Param, Spec, to_graph, trace

INPUT, HIDDEN, OUTPUT = (
    Group("input", 4, why="network input"),
    Group("fc1", 3),
    Group("output", 2, why="network output"),
)


def layers(hidden="fc1"):
    return [
        Param("fc1.weight", (hidden, "input"), "weight", reads=1),
        Param("fc1.bias", (hidden,), "bias", block="fc1.weight"),
        Param("fc2.weight", ("output", hidden), "weight", reads=1),
    ]


@pytest.fixture
def spec():
    return Spec([INPUT, HIDDEN, OUTPUT], layers())


def test_groups_and_shapes(spec):
    assert [g.name for g in spec.free] == ["fc1"]
    assert spec.groups["input"].pinned
    assert not spec.groups["fc1"].pinned
    assert {name: spec.shape(name) for name in spec.params} == {
        "fc1.weight": (3, 4),
        "fc1.bias": (3,),
        "fc2.weight": (2, 3),
    }


def test_shorthand_axes():
    param = Param("w", ("conv", 3, ("conv", 7, 7), Axis((("a",), ("b", 2)))))
    assert [str(axis) for axis in param.axes] == ["conv", "3", "conv·7·7", "a+b·2"]
    assert param.axes[3].groups == ("a", "b")


def test_frozen(spec):
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.groups = {}
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.groups["fc1"].size = 5


@pytest.mark.parametrize(
    ("groups", "params", "message"),
    [
        ([INPUT, INPUT], [], "a name is used twice"),
        ([Group("fc1", 0)], [], "group 'fc1' has 0 elements, expected at least 1"),
        ([INPUT, OUTPUT], layers("fc9"), r"has an axis of group 'fc9', expected one of \['input', 'output'\]"),
        ([Group("dims", 6, parent="heads")], [], "'dims' .* nested in 'heads'.*no such group"),
        ([Group("dims", 6, parent="heads"), Group("heads", 4)], [], r"whose size divides it \(got 4\)"),
        ([Group("a", 2, parent="b"), Group("b", 2, parent="a")], [], "group 'a' is nested in itself"),
        ([Group("a", 2, parent="a")], [], "group 'a' is nested in itself"),
        ([Group("dims", 6, why="position", parent="heads"), Group("heads", 2)], [], "so 'heads', .* must be too"),
    ],
)
def test_mistakes_in_a_hand_written_spec_are_named(groups, params, message):
    with pytest.raises(ValueError, match=message):
        Spec(groups, params)


@pytest.mark.parametrize("model", [cnn(), mlp(4, 3, 2)], ids=["cnn", "mlp"])
def test_json_round_trip(model):
    spec = trace(model)
    again = Spec.from_json(spec.to_json())
    assert again == spec
    assert again.fingerprint == spec.fingerprint
    assert hash(again) == hash(spec)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"groups": [{"colour": 3}], "params": [], "scalings": []}', "3"])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match=r"not a Spec in JSON .*expected what Spec.to_json wrote"):
        Spec.from_json(text)


def test_the_fingerprint_tells_symmetries_apart(spec):
    pinned = Spec([INPUT, dataclasses.replace(HIDDEN, why="sliced"), OUTPUT], layers())
    assert spec.fingerprint == Spec([INPUT, HIDDEN, OUTPUT], layers()).fingerprint
    assert spec.fingerprint != pinned.fingerprint


def test_printed_as_a_table(spec):
    nested = Spec([*spec.groups.values(), Group("dims", 6, parent="fc1", activation="relu")], layers())
    lines = str(nested).splitlines()
    assert lines[0].split() == ["group", "size", "activation", "pinned", "because", "parameters"]
    assert lines[2].split() == ["input", "4", "identity", "network", "input", "fc1.weight"]
    assert lines[3].split() == ["fc1", "3", "identity", "-", "fc1.weight,", "fc1.bias,", "fc2.weight"]
    assert lines[5].split()[:5] == ["dims", "(in", "fc1)", "6", "relu"]
    assert lines[-1] == "2 of 4 groups may be permuted; 3 parameters"


def test_missing_and_extra_keys_are_named(spec):
    tensors = {name: torch.zeros(spec.shape(name)) for name in spec.params}
    spec.check(tensors)
    tensors["fc3.weight"] = tensors.pop("fc2.weight")
    with pytest.raises(
        KeyError, match=r"missing keys \['fc2.weight'\], unexpected keys \['fc3.weight'\].*trace its own"
    ):
        spec.check(tensors)


def test_a_wrong_shape_is_named(spec):
    tensors = {name: torch.zeros(spec.shape(name)) for name in spec.params}
    with pytest.raises(ValueError, match=r"'fc1.bias' has shape \(5,\), but the Spec expects \(3,\)"):
        spec.check({**tensors, "fc1.bias": torch.zeros(5)})


def test_two_architectures_are_told_apart_by_name(spec):
    wider = Spec([INPUT, Group("fc1", 5), OUTPUT], layers())
    shorter = Spec([INPUT, HIDDEN, OUTPUT], layers()[:2])
    stiffer = Spec([INPUT, Group("fc1", 3, why="sliced"), OUTPUT], layers())
    spec.require_same(Spec.from_json(spec.to_json()))
    with pytest.raises(ValueError, match=r"'fc1.weight' is \(3, 4\) in the first and \(5, 4\) in the second"):
        spec.require_same(wider)
    with pytest.raises(ValueError, match=r"different architectures: only the first has a parameter 'fc2.weight'"):
        spec.require_same(shorter)
    with pytest.raises(ValueError, match="two permutations have equal shapes but different symmetries") as error:
        spec.require_same(stiffer, "permutations")
    assert str(error.value).splitlines()[1:] == ["- 'fc1' has why '' in the first and 'sliced' in the second"]


def test_only_the_difference_is_shown(spec):
    other = Spec([INPUT, Group("hidden", 3), OUTPUT], layers("hidden"))
    with pytest.raises(ValueError, match="only the first has a group 'fc1'") as error:
        spec.require_same(other)
    assert "'fc1.weight' has axes 'fc1 × input' in the first and 'hidden × input' in the second" in str(error.value)
    backwards = Spec([INPUT, HIDDEN, OUTPUT], reversed(layers()))
    with pytest.raises(ValueError, match="- their layers come in another order"):
        spec.require_same(backwards)


def test_copies_are_the_same_object(spec):
    assert copy.deepcopy(spec) is spec


# ------------------------------------------------------------------------------------------------------------ blocks


@pytest.mark.parametrize(
    ("axes", "shape", "taps"),
    [
        (("fc1", "input"), (3, 4, 1), ()),
        (("fc1", "input", 1, 1), (3, 4, 1), ()),  # a kernel of one element
        (("fc1", "input", 5, 5), (3, 4, 25), (5, 5)),
        (("fc1", ("input", 7, 2)), (3, 4, 14), (7, 2)),  # after Flatten
        (("fc1", 1, 3, 3), (3, 9), (3, 3)),  # depthwise
        ((("fc1", 2), 1, 3, 3), (3, 18), (2, 3, 3)),  # depthwise with multiplier 2
        (("fc1",), (3, 1), ()),
    ],
)
def test_blocks_are_views_with_groups_first(axes, shape, taps):
    spec = Spec([INPUT, HIDDEN, OUTPUT], [Param("w", axes, "weight", reads=1)])
    (block,) = spec.blocks
    tensor = torch.randn(spec.shape("w"))
    assert block.view(tensor).shape == shape
    assert block.taps == taps
    assert block.view(tensor).untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
    assert block.view(torch.randn(2, *spec.shape("w"))).shape == (2, *shape)


def test_the_target_comes_first_wherever_the_parameter_reads():
    spec = Spec([INPUT, HIDDEN], [Param("w", ("input", "fc1"), "weight", reads=0)])
    (block,) = spec.blocks
    tensor = torch.randn(4, 3)
    assert (block.target, block.source) == ("fc1", "input")
    assert torch.equal(block.view(tensor)[..., 0], tensor.T)


def test_a_concatenated_axis_gives_one_block_per_part():
    axis = Axis((("fc1",), ("input", 2)))
    spec = Spec([INPUT, HIDDEN, OUTPUT], [Param("w", ("output", axis), "weight", reads=1)])
    tensor = torch.randn(2, 11)
    first, second = spec.blocks
    assert (first.source, second.source) == ("fc1", "input")
    assert torch.equal(first.view(tensor)[..., 0], tensor[:, :3])
    assert torch.equal(second.view(tensor), tensor[:, 3:].view(2, 4, 2))


def test_the_blocks_of_a_network_hold_all_its_weights():
    graph = to_graph(cnn())
    counted = sum(view.numel() for _, view in graph.blocks)
    assert counted == sum(t.numel() for name, t in graph.tensors.items() if "num_batches" not in name)


# ------------------------------------------------------------------------------------------------------------ display


def test_a_spec_shows_itself_in_one_line():
    assert repr(trace(mlp(3, 4, 2))) == "Spec(3 groups, 1 free, 4 parameters)"
    assert repr(Spec([Group("a", 2)], [Param("w", ("a",))])) == "Spec(1 group, 1 free, 1 parameter)"
