"""The folder of an experiment: whatever was measured is kept at once, so that the same command goes on.

``results.json`` has everything that was measured, and by what: command, commit, versions, settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from wsgraph import plain
from wsgraph.files import replacing

from ..provenance import in_words, provenance
from .settings import Settings

RESULTS = "results.json"
PROSE = ("title", "differs")
"""Settings that say something to readers, and nothing of what is measured."""


class Notebook:
    """What is known of an experiment so far.

    Args:
        folder: Where it is kept.
        settings: Of the experiment; what others have measured is not taken for these.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings, self.made = folder, settings, provenance()
        now = json.loads(json.dumps(asdict(settings)))
        path = folder / RESULTS
        stored = plain.parse(path.read_text(), str(path)) if path.is_file() else {"settings": now}
        _require_same(stored["settings"], now, path)
        measured, made = stored.get("measured", {}), stored.get("made", self.made)
        commits = stored.get("commits", dict.fromkeys(measured, made["commit"]))
        self.stored: dict[str, Any] = {"made": made, "settings": now, "measured": measured, "commits": commits}

    def keep(self, key: str, measure: Callable[..., Any], *args: Any) -> Any:
        """What ``measure(*args)`` gives, now, or gave under this name before."""
        measured = self.stored["measured"]
        if key not in measured:
            measured[key] = json.loads(json.dumps(measure(*args)))
            self.stored["made"], self.stored["commits"][key] = self.made, self.made["commit"]
            self.write(RESULTS, json.dumps(self.stored, indent=1))
        return measured[key]

    def write(self, name: str, text: str) -> None:
        """A file of the folder, complete or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / name) as temporary:
            temporary.write_text(text)

    def close(self, tables: Mapping[str, str]) -> None:
        """Write the tables, with what made them above, and say where."""
        commits = " and ".join(dict.fromkeys(self.stored["commits"].values()))
        made = in_words({**self.stored["made"], "commit": commits})
        head = f"{made}, {self.settings.scale} scale.\n\n"
        differs = f"What the paper has otherwise: {self.settings.differs}\n\n" if self.settings.differs else ""
        self.write("table.md", head + differs + tables["md"])
        self.write("table.tex", f"% {made}\n{tables['tex']}")
        console = Console(markup=False, width=200)
        console.print(f"{self.settings.title}\n{tables['md']}", soft_wrap=True)
        console.print(f"written: {self.folder / 'table.md'}", soft_wrap=True)


def file_name(title: str) -> str:
    """The title of a family as the name of a file.

    >>> file_name("3, 4 and 5 layers")
    '3-4-and-5-layers'
    """
    return re.sub(r"\W+", "-", title)


def _require_same(stored: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Raise if what is stored was measured otherwise than it would be now."""
    then, here = (_essence(settings) for settings in (stored, now))
    for key in here:
        if then.get(key) != here[key]:
            raise ValueError(
                f"{path} was made with other settings: {key} was {then.get(key)} and is {here[key]}. "
                "Choose another folder with --output, or delete that file; trained aligners are kept beside it."
            )


def _essence(settings: Mapping[str, Any]) -> dict[str, Any]:
    families = {title: family["train"] for title, family in settings["families"].items()}
    return {**{key: value for key, value in settings.items() if key not in PROSE}, "families": families}
