"""``wsalign many``: a table of all pairs, of those that failed too."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from align.cli import command
from align.cli.mass import MANY
from align.mass import Results, driver
from wsgraph import Permutation, to_graph


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are aligned in this process."""

    def in_process(work: Callable[[Any], Any], items: Any, *_: Any) -> Any:
        yield from map(work, items)

    monkeypatch.setattr(driver, "in_processes", in_process)


def test_examples_are_commands() -> None:
    shown = re.findall(r"^  wsalign (.*?)(?:  +#.*)?$", MANY, re.MULTILINE)
    assert len(shown) == 4
    for words in shown:
        assert command._parser().parse_args(words.split()).command == "many"


def test_a_table_with_barriers(run, tmp_path: Path) -> None:
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    words = f"many a.safetensors b.safetensors c.pt {tmp_path}/broken.safetensors -o {tmp_path}/out --model nets:Net"
    code, out, _ = run(f"{words} --data data.safetensors --method weight_matching --part 4 --json")
    assert code == 0
    assert (json.loads(out)["pairs"], json.loads(out)["failed"]) == (6, 3)

    import nets

    results = Results(tmp_path / "out")
    rows = results.table.to_pylist()
    assert [(row["a"][0], row["b"][0]) for row in rows[:2]] == [("a", "b"), ("a", "c")]
    for row in rows:
        assert (row["barrier"] is None) == (row["distance"] is None) == (row["error"] is not None)
    assert "is not a readable safetensors file" in rows[2]["error"]
    state = torch.load("c.pt", weights_only=True)["model"]
    spec = to_graph(nets.Net()).spec
    moved, a = Permutation(spec, results.maps(1)).apply(state), to_graph("a.safetensors", spec=spec).tensors
    params = [name for name in a if "running" not in name and "num_batches" not in name]
    distance = sum(float((moved[name] - a[name]).square().sum()) for name in params) ** 0.5
    assert distance == pytest.approx(rows[1]["distance"])
    with pytest.raises(KeyError, match="pair 2 has no permutation"):
        results.maps(2)

    code, out, _ = run(f"{words} --data data.safetensors --method weight_matching --part 4")
    assert "6 pairs, 3 failed; mean distance" in out
    assert "the first that failed: a.safetensors and" in out
    code, _, err = run(f"{words} --method identity --part 4")
    assert (code, "holds another job: method is 'weight_matching' there and 'identity' here" in err) == (1, True)


def test_many_pairs_by_one_call_are_those_of_single_calls(run, tmp_path: Path) -> None:
    words = "many a.safetensors b.safetensors c.safetensors --model nets:Net --method deep_align -o"
    assert run(f"{words} {tmp_path}/one --part 1")[0] == run(f"{words} {tmp_path}/three --part 3")[0] == 0
    one, three = Results(tmp_path / "one"), Results(tmp_path / "three")
    assert one.table["distance"].to_pylist() == pytest.approx(three.table["distance"].to_pylist())
    assert [one.maps(2)[group].tolist() for group in one.maps(2)] == [three.maps(2)[g].tolist() for g in one.maps(2)]

    save_file(torch.nn.Linear(4, 3).state_dict(), tmp_path / "other.safetensors")
    words = f"many a.safetensors b.safetensors {tmp_path}/other.safetensors --method deep_align -o {tmp_path}/odd"
    assert run(words)[0] == 0
    assert [row["error"] is None for row in Results(tmp_path / "odd").table.to_pylist()] == [True, False, False]


def test_what_cannot_work_is_refused(run, tmp_path: Path) -> None:
    code, _, err = run(f"many a.pt b.pt -o {tmp_path} --method ste --data digits")
    assert (code, "--method ste learns from data" in err) == (1, True)
    code, _, err = run(f"many a.pt -o {tmp_path}")
    assert (code, "there is no pair of networks in a.pt" in err) == (1, True)
    code, _, err = run(f"many a.pt b.pt -o {tmp_path} --part 0")
    assert (code, "size is 0, expected at least 1" in err) == (1, True)
