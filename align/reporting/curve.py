"""The loss along the line between networks as a drawing inside a page; whoever points at it reads the values there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape

from ..judging.barrier import Barrier
from ..plots import COLOURS

WIDTH, HEIGHT = 360, 240
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 8, 30
"""Margins; sizes are those of a telephone, so that letters are readable there, and grow with the page."""
TICKS = 5
STEEP = 8.0
"""A largest loss of so many times the smallest is drawn on a logarithmic scale."""
SCRIPT = """<script>
for (const figure of document.querySelectorAll("figure.curve")) {
  const data = JSON.parse(figure.querySelector("script").textContent), svg = figure.querySelector("svg");
  const show = k => {
    figure.querySelector("line.at").setAttribute("x1", data.x[k]);
    figure.querySelector("line.at").setAttribute("x2", data.x[k]);
    figure.querySelector(".place").textContent = data.points[k];
    figure.querySelectorAll("td.value").forEach((cell, i) => { cell.textContent = data.values[i][k]; });
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * data.width / box.width;
    show(data.x.reduce((best, at, k) => Math.abs(at - x) < Math.abs(data.x[best] - x) ? k : best, 0));
  });
}
</script>"""
"""What makes curves answer; once on a page, after the last of them."""


def curve(curves: Mapping[str, Barrier]) -> str:
    """A drawing of the mean loss over pairs, with the values half way in a table below it."""
    points = [float(p) for p in next(iter(curves.values())).points]
    means = [[float(v) for v in c.loss.reshape(-1, len(points)).double().mean(0)] for c in curves.values()]
    x = [LEFT + (WIDTH - LEFT - RIGHT) * p for p in points]
    scale = _scale([v for row in means for v in row if math.isfinite(v)])
    lines = [
        f'<polyline stroke="{_colour(k)}" points="{_places(x, row, scale)}"><title>{escape(name)}</title></polyline>'
        for k, (name, row) in enumerate(zip(curves, means, strict=True))
    ]
    middle = len(points) // 2
    data = {
        "width": WIDTH,
        "x": x,
        "points": [f"{p:.2f}" for p in points],
        "values": [list(map(_number, m)) for m in means],
    }
    rows = [
        f'<tr><td><span class="swatch" style="background:{_colour(k)}"></span>{escape(name)}</td>'
        f'<td class="value">{_number(row[middle])}</td></tr>'
        for k, (name, row) in enumerate(zip(curves, means, strict=True))
    ]
    at = f'<line class="at" x1="{x[middle]:.1f}" x2="{x[middle]:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#999"/>'
    drawing = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{_axes(scale)}{at}{"".join(lines)}</svg>'
    place = f'loss at λ = <span class="place">{points[middle]:.2f}</span>'
    return (
        f'<figure class="curve">{drawing}<figcaption>From B (λ = 0) to A (λ = 1); point at the curves to read their '
        f"values.</figcaption><table><thead><tr><th></th><th>{place}</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f'<script type="application/json">{_inside_script(data)}</script></figure>'
    )


class _Scale:
    """From losses to heights on the drawing."""

    def __init__(self, low: float, high: float, steep: bool) -> None:
        self.steep = steep
        self.low, self.high = (math.log(low), math.log(high)) if steep else (low, high)

    def height(self, loss: float) -> float:
        value = math.log(loss) if self.steep else loss
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / (self.high - self.low)

    def ticks(self) -> list[float]:
        values = [self.low + (self.high - self.low) * k / (TICKS - 1) for k in range(TICKS)]
        return [math.exp(v) if self.steep else v for v in values]


def _scale(losses: Sequence[float]) -> _Scale:
    low, high = min(losses, default=0.0), max(losses, default=1.0)
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    return _Scale(low, high, steep=low > 0 and high > STEEP * low)


def _axes(scale: _Scale) -> str:
    marks = []
    for loss in scale.ticks():
        y = scale.height(loss)
        marks.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        marks.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{loss:.2g}</text>')
    for place, name in ((0.0, "B"), (0.5, "½"), (1.0, "A")):
        x = LEFT + (WIDTH - LEFT - RIGHT) * place
        marks.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{name}</text>')
    return "".join(marks)


def _places(x: Sequence[float], losses: Sequence[float], scale: _Scale) -> str:
    return " ".join(f"{a:.1f},{scale.height(v):.1f}" for a, v in zip(x, losses, strict=True) if math.isfinite(v))


def _colour(k: int) -> str:
    return COLOURS[k % len(COLOURS)]


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "–"


def _inside_script(data: object) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
