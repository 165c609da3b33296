"""Deep-Align: a learned aligner. One forward pass, no data.

F = F_proj ∘ F_prod ∘ F_enc:  encoder → outer product of matching embeddings → Sinkhorn or assignment
"""

from __future__ import annotations

import copy
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import torch
from huggingface_hub import PyTorchModelHubMixin, snapshot_download
from torch import Tensor, nn

from wsgraph import Encoder, EncoderConfig, WeightGraph, plain
from wsgraph.files import differences, read_tensors, replacing, save_tensors
from wsgraph.network import Network
from wsgraph.nn.encoder import together
from wsgraph.nn.spectral import signed

from .alignment import Alignment, aligned_graphs, project
from .evidence.closed_form import LARGE, Evidence
from .evidence.responses import Responses
from .projection.refinement import can_refine, refined
from .running.networks import in_one_dtype

PAPER = "https://proceedings.mlr.press/v235/navon24a.html"
VIEWS = 8
"""Choices of the codes' signs over which an answer is averaged."""
BUNDLED = Path(__file__).parent / "pretrained"
"""The aligner that comes with the package: ``config.json``, ``model.safetensors`` and its model card."""
CONFIG, WEIGHTS = "config.json", "model.safetensors"
Views = list[dict[str, Tensor]]
"""Embeddings under each view of the codes: group name → ``[K, n, output]``."""
STORED = {"encoder", "scale"}
"""What every stored config holds."""


@dataclass(frozen=True)
class DeepAlignConfig:
    """Configuration of a :class:`DeepAlign`.

    Args:
        encoder: Sizes of the encoder.
        scale: Initial s² of the scores s²·cos. The paper starts at 1; soft permutations stay blurred for thousands of
            steps then, because s moves by about the learning rate per step.
        refinement: Steps by which an answer about plain MLPs is refined on what they dream of, see
            :mod:`align.projection.refinement`. An aligner that knows the data of its family does better without.
        pictures: How many, of nothing, both networks are shown, see :mod:`align.evidence.responses`; 0 to not run them.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    scale: float = 16.0
    refinement: int = 0
    pictures: int = 0

    def __post_init__(self) -> None:
        if self.refinement < 0:
            raise ValueError(f"refinement is {self.refinement}, expected a number of steps")
        if self.pictures < 0 or self.pictures == 1:
            raise ValueError(f"pictures is {self.pictures}, expected 0, or 2 and more to see how neurons vary")
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale is {self.scale}, expected a number above 0")


class DeepAlign(nn.Module, PyTorchModelHubMixin, library_name="wsgraph", paper_url=PAPER):
    """Learned weight alignment for networks of any architecture.

    ``DeepAlign()`` is the pretrained aligner that comes with the package (see ``align/pretrained/README.md``), in eval
    mode. With a ``config`` it is a new, untrained one in training mode. ``save_pretrained(dir)`` and
    ``from_pretrained(dir)`` follow the conventions of the Hugging Face hub.

    Args:
        config: Sizes of a new aligner; see :class:`DeepAlignConfig`. The same as plain data (JSON) is accepted too.

    Example:
        >>> import torch, align
        >>> from wsgraph import to_graph
        >>> from torch import nn
        >>> a, b = (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(2))
        >>> alignment = align.DeepAlign()(to_graph(a), to_graph(b))
        >>> b = alignment.apply(b)
    """

    def __init__(self, config: DeepAlignConfig | Mapping[str, Any] | None = None) -> None:
        super().__init__()
        bundled = config is None
        if config is None:
            config, tensors = _stored(BUNDLED)
        self.config = config_from(config) if isinstance(config, Mapping) else config
        self._hub_mixin_config = self.config  # what save_pretrained writes, also for the bundled one
        with torch.random.fork_rng(devices=[], enabled=bundled):  # the bundled one draws nothing of the caller's
            self.encoder, self.evidence = Encoder(self.config.encoder), Evidence()
            self.responses = Responses(self.config.pictures) if self.config.pictures else None
        self.s = nn.Parameter(torch.tensor(self.config.scale**0.5))
        if bundled:
            self.load_state_dict(tensors)
        self.train(not bundled)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike[str], **hub: Any) -> DeepAlign:
        """An aligner that :meth:`save_pretrained` wrote, in eval mode; nothing in its files is run.

        Args:
            pretrained_model_name_or_path: A folder, or a name on the Hugging Face hub.
            hub: Options of ``huggingface_hub.snapshot_download``, such as ``revision`` and ``token``.
        """
        folder = Path(pretrained_model_name_or_path)
        if not folder.is_dir():
            name = os.fspath(pretrained_model_name_or_path)
            folder = Path(snapshot_download(str(name), allow_patterns=[CONFIG, WEIGHTS], **hub))
        config, tensors = _stored(folder)
        with torch.device("meta"):  # sizes that the file does not have must not be allocated
            expected = cls(config).state_dict()
        if wrong := differences(expected, tensors):
            raise ValueError(
                f"{folder / WEIGHTS} does not hold the aligner that {CONFIG} describes: {wrong}. Both files must be as "
                "save_pretrained wrote them."
            )
        aligner = cls(config)
        aligner.load_state_dict(tensors)
        return aligner.eval()

    def _save_pretrained(self, save_directory: Path) -> None:
        text = _as_text(self.config)
        save_tensors(self.state_dict(), save_directory / WEIGHTS, {"format": "pt", "config": text})
        with replacing(save_directory / CONFIG) as temporary:
            temporary.write_text(text)

    @overload
    def forward(self, a: WeightGraph, b: WeightGraph) -> Alignment: ...
    @overload
    def forward(self, a: Sequence[WeightGraph], b: Sequence[WeightGraph]) -> list[Alignment]: ...

    def forward(self, a: Any, b: Any) -> Alignment | list[Alignment]:
        """Align b to a; sequences (or PyG batches) of networks, of any architectures, are aligned pair by pair.

        In eval mode the hard permutation is found at once and nothing is differentiated; in training mode use
        ``alignment.scores`` and ``alignment.soft()``.
        """
        left, right = _as_list(a), _as_list(b)
        if len(left) != len(right):
            raise ValueError(f"{len(left)} networks a but {len(right)} networks b; expected pairs")
        pairs = [in_one_dtype(*aligned_graphs(x, y)) for x, y in zip(left, right, strict=True)]
        start = time.perf_counter()
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            scores: list[dict[str, Tensor]] = [{} for _ in pairs]
            for rows in _together(pairs):
                left, right = [pairs[i][0] for i in rows], [pairs[i][1] for i in rows]
                found = self.stacked_scores(left, right)
                if not self.training:
                    found = self._refined([g.network for g in left], [g.network for g in right], found)
                for k, i in enumerate(rows):
                    scores[i] = {name: s[k] for name, s in found.items()}
        out = [Alignment(x, y, s, method="deep_align") for (x, y), s in zip(pairs, scores, strict=True)]
        if not self.training:
            project(out)
        elapsed = (time.perf_counter() - start) / max(len(out), 1)
        out = [alignment.replace(elapsed=elapsed) for alignment in out]
        return out[0] if _is_single(a) else out

    def unrefined(self) -> DeepAlign:
        """The same aligner, parameters shared, that answers with its scores as they are: faster, and not as good."""
        other = copy.copy(self)
        other.config = other._hub_mixin_config = replace(self.config, refinement=0)
        return other

    def stacked_scores(
        self, a: Sequence[WeightGraph], b: Sequence[WeightGraph], draw: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """φ(a, b) = s²⟨a/‖a‖, b/‖b‖⟩ + evidence, of K pairs of one architecture: free group → ``[K, n_a, n_b]``.

        This is what training differentiates and what every call starts from; training draws one view of the codes, an
        answer is the mean over several.

        Args:
            a: The reference networks.
            b: Those to be permuted; a single pair may have different widths.
            draw: Draws the view.
        """
        left, right = [g.network for g in a], [g.network for g in b]
        codes = self.encoder.codes((left, right))
        views = self._views(codes, left[0], draw)
        if len(a) == 1:
            each = [[_lead(e) for e in self.encoder.embed_views(side, views)] for side in (left, right)]
        else:
            twice = [{g: c if c.dim() == 2 else torch.cat([c, c]) for g, c in view.items()} for view in views]
            both = self.encoder.embed_views([*left, *right], twice)
            each = [[{g: e.chunk(2)[k] for g, e in view.items()} for view in both] for k in (0, 1)]
        return self._scores(left, right, *each)

    @torch.no_grad()
    def among(self, graphs: Sequence[WeightGraph], pairs: Sequence[tuple[int, int]]) -> list[dict[str, Tensor]]:
        """Scores of pairs among many networks of one architecture, whose codes come from all of them.

        So each network is embedded once, whatever pairs it is in.

        Args:
            graphs: The networks.
            pairs: Their places; the second network of a pair is to be permuted.

        Shapes:
            - **output:** of every pair, free group → ``[n, n]``
        """
        networks = [g.network for g in graphs]
        views = self._views(self.encoder.codes([[n] for n in networks]), networks[0])
        each: dict[int, Views] = {}
        for rows in together(networks):
            found = self.encoder.embed_views([networks[i] for i in rows], views)
            found = [_lead(view) for view in found] if len(rows) == 1 else found
            each |= {i: [{g: e[k : k + 1] for g, e in view.items()} for view in found] for k, i in enumerate(rows)}
        out = []
        for i, j in pairs:
            a, b = [networks[i]], [networks[j]]
            scores = self._refined(a, b, self._scores(a, b, each[i], each[j]))
            out.append({name: s[0] for name, s in scores.items()})
        return out

    def _scores(self, a: Sequence[Network], b: Sequence[Network], left: Views, right: Views) -> dict[str, Tensor]:
        """Scores of K pairs from the embeddings of both sides, the evidence and responses."""
        scores = {}
        for group in a[0].spec.free:
            cosines = [_cosine(x[group.name], y[group.name]) for x, y in zip(left, right, strict=True)]
            scores[group.name] = self.s.square() * (sum(cosines[1:], cosines[0]) / len(cosines))
        scores = self.evidence(a, b, scores)
        return scores if self.responses is None else self.responses(a, b, scores)

    def _refined(self, a: Sequence[Network], b: Sequence[Network], scores: dict[str, Tensor]) -> dict[str, Tensor]:
        """Scores of K pairs as they are answered: refined, where the aligner does that and the networks can be run."""
        steps = self.config.refinement
        return refined(a, b, scores, steps) if steps and can_refine(a[0], b[0]) else scores

    def _views(
        self, codes: dict[str, Tensor], network: Network, draw: torch.Generator | None = None
    ) -> list[dict[str, Tensor]]:
        """The codes as they are and with other signs; one drawn view in training, and as they are for large networks.

        Only singular vectors have signs that mean nothing. Those of places on a grid are what tells left from right.
        """
        if self.config.encoder.codes != "spectral":
            return [codes]
        if draw is not None:
            return [signed(codes, draw)]
        if self.training or sum(t.numel() for t in network.tensors.values()) > LARGE:
            return [codes]
        return [codes, *(signed(codes, torch.Generator().manual_seed(k)) for k in range(1, VIEWS))]


def _lead(embeddings: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: e[None] for name, e in embeddings.items()}


def _together(pairs: Sequence[tuple[WeightGraph, WeightGraph]]) -> list[list[int]]:
    """Indices of pairs to score in one go: both networks of all pairs can be stacked."""
    owner = {}
    for rows in together([g.network for pair in pairs for g in pair]):
        owner.update(dict.fromkeys(rows, rows[0]))
    groups: dict[object, list[int]] = {}
    for i in range(len(pairs)):
        same = owner[2 * i] == owner[2 * i + 1]
        groups.setdefault(owner[2 * i] if same else (i,), []).append(i)
    return list(groups.values())


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    a, b = (x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(1e-12) for x in (a, b))
    return a @ b.mT


def _is_single(graphs: Any) -> bool:
    return isinstance(graphs, WeightGraph) and not isinstance(graphs.network, list)


def _as_list(graphs: Any) -> list[WeightGraph]:
    if isinstance(graphs, WeightGraph):
        return [graphs] if _is_single(graphs) else graphs.to_data_list()
    found = list(graphs) if isinstance(graphs, Sequence) else [graphs]
    for graph in found:
        if not isinstance(graph, WeightGraph):
            raise TypeError(f"expected a WeightGraph or several, got {type(graph).__name__}; pass to_graph(model)")
    return found


def _as_text(config: DeepAlignConfig) -> str:
    return json.dumps(asdict(config), sort_keys=True, indent=2)


def _stored(folder: Path) -> tuple[DeepAlignConfig, dict[str, Tensor]]:
    """Config and parameters of an aligner's folder; neither is believed without the other."""
    there = [name for name in (CONFIG, WEIGHTS) if (folder / name).is_file()]
    if len(there) < 2:
        found = ", ".join(there) or "neither"
        raise FileNotFoundError(f"no aligner in {folder}: expected {CONFIG} and {WEIGHTS}, found {found}")
    path = folder / CONFIG
    try:
        config = config_from(plain.parse(path.read_bytes(), "it"))
    except ValueError as error:
        raise ValueError(f"{path} is not the config of an aligner: {error}") from error
    tensors, meta = read_tensors(folder / WEIGHTS)
    if "config" in meta and not _describes(meta["config"], config):
        raise ValueError(
            f"{path} is not the config that {WEIGHTS} beside it was written with: one of them is damaged or of another "
            "aligner. Get both again."
        )
    return config, tensors


def _describes(text: str, config: DeepAlignConfig) -> bool:
    """Whether a text is that config, be it one of a version that knew fewer settings."""
    try:
        return config_from(plain.parse(text, "it")) == config
    except ValueError:
        return False


def config_from(data: Mapping[str, Any]) -> DeepAlignConfig:
    """A :class:`DeepAlignConfig` from plain data (JSON, YAML); what is left out is as the defaults are.

    A stored one leaves nothing out, so without ``codes`` it is of the time when there was but one kind of them, with
    ``refine`` of the time before :mod:`align.evidence.closed_form`: its parameters mean nothing to an aligner of today.
    """
    stored = isinstance(data, Mapping) and data.keys() >= STORED and isinstance(data["encoder"], Mapping)
    if stored and ("codes" not in data["encoder"] or "refine" in data):
        lacks = "has 'refine'" if "codes" in data["encoder"] else "has no encoder.codes"
        raise ValueError(
            f"this aligner was made by an earlier version (its config {lacks}), and its parameters would be misread; "
            "train it again, or use it with the version that made it"
        )
    return plain.build(DeepAlignConfig, data)
