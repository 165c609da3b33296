import copy
import threading
import warnings

import pytest
import torch
from networks import Net, cnn, mlp
from torch import nn
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

from wsgraph import Permutation, trace
from wsgraph.inputs import infer_example_input
from wsgraph.modules import tensors_of, with_tensors
from wsgraph.shell import shell

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Locked(nn.Module):
    """Holds what cannot be copied, and says so to pickle."""

    def __init__(self):
        super().__init__()
        self.fc, self.lock = nn.Linear(4, 2), threading.Lock()

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.lock = threading.Lock()

    def forward(self, x):
        with self.lock:
            return self.fc(x)


class Slotted(Locked):
    """Pickled as something other than a dict."""

    def __getstate__(self):
        return (super().__getstate__(),)

    def __setstate__(self, state):
        super().__setstate__(state[0])


class Stubborn(nn.Module):
    """A copy of it is itself."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def __deepcopy__(self, memo):
        return self

    def forward(self, x):
        return self.fc(x)


class Referring(nn.Module):
    """Reaches modules by lists and dicts, registered and not, and itself."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.again, self.hidden, self.me = [self.fc], {"last": (nn.Linear(2, 2),)}, [self]
        self.me.append(self.me)

    def forward(self, x):
        return self.hidden["last"][0](self.me[0].again[0](x))


class Recording(nn.Module):
    """Its forward needs its own hook."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.seen = nn.Linear(4, 5), nn.Linear(5, 2), None
        self.first.register_forward_hook(self.see)

    def see(self, _module, _inputs, out):
        self.seen = out

    def forward(self, x):
        self.first(x)
        return self.last(torch.relu(self.seen))


def chain(first):
    return nn.Sequential(first, nn.ReLU(), nn.Linear(5, 2))


def tied():
    model = mlp(4, 4, 4, 4)
    model[2].weight = model[0].weight
    return model


def compiled():
    model = mlp(4, 5, 2)
    model.compile(backend="eager")
    return model


def deprecated(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return make(nn.Linear(4, 5))


ODD = {
    "weight norm by hook": lambda: chain(deprecated(weight_norm)),
    "spectral norm by hook": lambda: chain(deprecated(spectral_norm)),
    "pruned": lambda: chain(prune.l1_unstructured(nn.Linear(4, 5), "weight", amount=0.5)),
    "weight norm": lambda: chain(parametrizations.weight_norm(nn.Linear(4, 5))),
    "spectral norm": lambda: chain(parametrizations.spectral_norm(nn.Linear(4, 5))),
    "lstm": lambda: Net(lambda m, x: m.body(x)[0], body=nn.LSTM(4, 5)),
    "graph module": lambda: torch.fx.symbolic_trace(mlp(4, 5, 2)),
    "compiled": lambda: torch.compile(mlp(4, 5, 2), backend="eager"),
    "compiled in place": compiled,
    "tied": tied,
    "locked": Locked,
    "slotted": Slotted,
    "stubborn": Stubborn,
    "referring": Referring,
    "recording": Recording,
}


def everything(model):
    """All that a run might change in a module."""
    tensors = [t.clone() for t in [*model.state_dict().values(), *model.buffers()]]
    return tensors, [(m.training, sorted(vars(m))) for m in model.modules()], [p.grad for p in model.parameters()]


def assert_same(found, expected):
    assert all(map(torch.equal, found[0], expected[0]))
    assert found[1:] == expected[1:]


@pytest.mark.parametrize("name", ODD)
@torch.no_grad()
def test_a_shell_computes_the_same_with_the_same_parameters(name):
    model = ODD[name]()
    before = everything(model)
    private = shell(model)
    assert [id(p) for p in private.parameters()] == [id(p) for p in model.parameters()]
    assert not {id(m) for m in private.modules()} & {id(m) for m in model.modules()}
    private.eval()(X)
    assert_same(everything(model), before)
    assert torch.equal(shell(model).eval()(X), model.eval()(X))


@pytest.mark.parametrize("name", ODD)
@torch.no_grad()
def test_a_copy_with_other_tensors_uses_those(name):
    model = ODD[name]().eval()
    other = {k: t.detach() * 1.5 for k, t in tensors_of(model).items()}
    found = with_tensors(model, other)
    assert not {t.data_ptr() for t in found.state_dict().values()} & {t.data_ptr() for t in model.parameters()}
    out = found(X)
    model.load_state_dict(other)
    torch.testing.assert_close(out, model(X))


@pytest.mark.parametrize("name", ODD)
def test_names_and_order_are_those_of_the_state_dict(name):
    model = ODD[name]()
    assert list(tensors_of(model)) == list(model.state_dict())


def test_norms_count_in_their_own_buffers():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 2)).train()
    model[1].eval()
    before = everything(model)
    private = shell(model)
    assert [m.training for m in private.modules()] == [m.training for m in model.modules()]
    private.train()(X)
    assert_same(everything(model), before)
    assert int(private[1].num_batches_tracked) == 1


def test_an_embedding_that_renormalises_itself_leaves_the_callers_alone():
    model = nn.Sequential(nn.Embedding(5, 4, max_norm=0.1), nn.Linear(4, 2)).eval()
    before = everything(model)
    x = torch.arange(5)
    with torch.no_grad():
        out = shell(model)(x)
    trace(model, x)
    assert_same(everything(model), before)
    with torch.no_grad():
        assert torch.equal(out, model(x))


def test_flat_weights_of_an_lstm_are_its_own():
    model = nn.LSTM(4, 5)
    moved = with_tensors(model, {k: 2 * t for k, t in tensors_of(model).items()})
    assert all(a is b for a, b in zip(moved._flat_weights, moved.parameters(), strict=True))


def hooked(model):
    """The model with a hook of every kind, and what these have noticed."""
    noticed = []

    class Uncopyable:
        """A hook with a lock inside."""

        def __init__(self):
            self.lock = threading.Lock()

        def __call__(self, *_):
            noticed.append("call")

    register = [
        model.register_forward_hook,
        model.register_forward_pre_hook,
        model[0].register_forward_hook,
        model.register_full_backward_hook,
        model.register_state_dict_post_hook,
        model.register_state_dict_pre_hook,
        model.register_load_state_dict_post_hook,
    ]
    for add in register:
        add(Uncopyable())
    model.register_forward_pre_hook(lambda *_: noticed.append("keywords"), with_kwargs=True)
    return model, noticed


def test_hooks_of_the_user_neither_fire_nor_travel():
    model, noticed = hooked(cnn())
    x = torch.randn(2, 3, 8, 8)
    spec = trace(model, x)
    infer_example_input(model)
    moved = Permutation.random(spec).apply(model)
    for new in (shell(model), moved):
        assert not any(getattr(m, name) for m in new.modules() for name in vars(m) if "_hooks" in name)
        new(x).sum().backward()
        new.load_state_dict(new.state_dict())
        new.register_backward_hook(lambda *_: None)  # the kind that was not used before
    assert noticed == []
    model(x)
    assert len(noticed) == 4


def test_hooks_that_compute_weights_travel():
    model = ODD["weight norm by hook"]().eval()
    found = trace(model, X)
    moved = Permutation.random(found).apply(model)
    assert len(moved[0]._forward_pre_hooks) == 1
    torch.testing.assert_close(moved(X), model(X))


def test_a_hook_does_not_make_another_architecture(monkeypatch):
    model = mlp(4, 7, 3)
    spec = trace(model)
    monkeypatch.setattr("wsgraph.tracing.export", None)
    model.register_forward_hook(iter([]).__next__)  # which cannot be compared
    assert trace(model) is spec


def test_buffers_that_are_not_saved_are_not_shared_with_results():
    model = mlp(4, 5, 2)
    model.register_buffer("scale", torch.ones(2), persistent=False)
    model.register_buffer("result", model[0].weight * 2, persistent=False)
    moved = Permutation.random(trace(model)).apply(model)
    moved.scale.zero_()
    moved.result.zero_()
    assert bool(model.scale.all())
    assert bool(model.result.any())


def test_results_kept_from_earlier_calls_are_not_shared():
    model = Net(lambda m, x: m.body(x), body=nn.Linear(4, 2))
    model.kept = [model(X)]
    expected = model.kept[0].detach().clone()
    private = shell(model)
    private.kept[0].zero_()
    assert torch.equal(model.kept[0], expected)


def test_a_copy_of_a_shell_is_free_of_it():
    model = mlp(4, 5, 2)
    again = copy.deepcopy(shell(model))
    again[0].weight.data.zero_()
    assert bool(model[0].weight.any())
