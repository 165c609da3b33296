"""Pages of one file, as text and as a browser shows them: on a telephone, pointed at, without errors."""

import json
import os
import re
import shutil
import subprocess
from html import escape

import pytest
import torch

from align.judging.barrier import Barrier
from align.plots import plot_lines
from align.reporting.curve import SCRIPT, curve
from align.reporting.page import folded, heading, paragraph, picture, table, write_page

POINTS = torch.linspace(0, 1, 5)
CURVES = {
    "not aligned": Barrier(POINTS, torch.tensor([[0.2, 1.0, 9.5, 1.0, 0.3], [0.2, 1.0, 10.5, 1.0, 0.3]])),
    "deep align + 25 sinkhorn </script>": Barrier(POINTS, torch.tensor([0.2, 0.25, 0.26, 0.27, 0.3])),
}
COLUMNS = ("method", "barrier", "AUC", "accuracy half way")
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr"),
]
TELEPHONE = 390
SEEN = """<iframe id="page" width="{width}" height="2000" srcdoc="{page}"></iframe><pre id="seen"></pre><script>
onload = () => {{
  const page = document.getElementById("page").contentDocument, svg = page.querySelector("figure.curve svg");
  const box = svg.getBoundingClientRect();
  const values = () => [...page.querySelectorAll("td.value")].map(x => x.textContent);
  const half = values();
  const at = {{clientX: box.left + box.width - 2, clientY: box.top + 50, bubbles: true}};
  svg.dispatchEvent(new page.defaultView.PointerEvent("pointermove", at));
  document.getElementById("seen").textContent = JSON.stringify({{
    width: page.documentElement.scrollWidth, half: half, end: values(), place: page.querySelector(".place").textContent,
    right: Math.max(...[...page.querySelectorAll("table, svg, img")].map(x => x.getBoundingClientRect().right)),
    loaded: [...page.images].map(x => x.naturalWidth > 0), curves: page.querySelectorAll("polyline").length,
  }});
}}
</script>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    plot_lines(CURVES, folder / "lines.png")
    rows = [("activation matching on noise", "0.1234 ± 0.0123", "0.05678", "97.9%")] * 3
    parts = [
        paragraph("a < b"),
        heading("mlp"),
        table(COLUMNS, rows),
        curve(CURVES),
        picture(folder / "lines.png", "lines"),
    ]
    write_page(folder / "report.html", "Aligner for <mlp>", [*parts, folded("Settings", "lr: 1\n" * 3), SCRIPT])
    return folder / "report.html"


def test_all_is_inside(report):
    text = report.read_text()
    assert "<title>Aligner for &lt;mlp&gt;</title>" in text
    assert "<p>a &lt; b</p>" in text
    assert re.findall(r'(?:src|href)="([^"]{0,20})', text) == ["data:image/png;base64"[:20]]
    assert "default-src 'none'" in text


def test_values_are_means_over_pairs(report):
    found = re.search(r'<script type="application/json">(.*?)</script>', report.read_text())
    data = json.loads(found[1])
    assert data["values"] == [["0.2", "1", "10", "1", "0.3"], ["0.2", "0.25", "0.26", "0.27", "0.3"]]
    assert data["points"] == ["0.00", "0.25", "0.50", "0.75", "1.00"]


def test_losses_that_are_no_numbers_or_all_the_same():
    flat = curve({"a": Barrier(POINTS, torch.ones(5)), "b": Barrier(POINTS, torch.full((5,), torch.nan))})
    assert '<td class="value">–</td>' in flat
    assert "nan" not in flat


def test_a_browser_shows_it_on_a_telephone(report, tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        assert "CI" not in os.environ, "CI needs chromium: apt-get install chromium"
        pytest.skip("chromium is not installed, so that nobody looked at the page")
    seen = tmp_path / "seen.html"
    seen.write_text(SEEN.format(width=TELEPHONE, page=escape(report.read_text())))
    command = [browser, *OPTIONS, f"--user-data-dir={tmp_path / 'user'}", "--dump-dom", seen.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    found = json.loads(re.search(r'<pre id="seen">(.*?)</pre>', done.stdout)[1])
    assert found["width"] <= TELEPHONE
    assert found["right"] <= TELEPHONE
    assert found["loaded"] == [True]
    assert found["curves"] == 2
    assert found["half"] == ["10", "0.26"]
    assert (found["end"], found["place"]) == (["0.3", "0.3"], "1.00")
