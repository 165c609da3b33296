"""The folder of an experiment: whatever was measured is kept at once, so that the same command goes on.

``results.json`` has everything that was measured, and by what: command, commit, versions, settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from wsgraph.files import replacing

from ..provenance import in_words, provenance
from .settings import Settings

RESULTS = "results.json"


class Notebook:
    """What is known of an experiment so far.

    Args:
        folder: Where it is kept.
        settings: Of the experiment; what others have measured is not taken for these.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        plain = json.loads(json.dumps(asdict(settings)))
        path = folder / RESULTS
        stored = json.loads(path.read_text()) if path.is_file() else {}
        if stored and stored.get("settings") != plain:
            raise ValueError(
                f"{path} was made with other settings; choose another folder with --output, or delete this one"
            )
        self.stored: dict[str, Any] = {"made": {}, "settings": plain, "measured": stored.get("measured", {})}

    def keep(self, key: str, measure: Callable[..., Any], *args: Any) -> Any:
        """What ``measure(*args)`` gives, now, or gave under this name before."""
        measured = self.stored["measured"]
        if key not in measured:
            measured[key] = json.loads(json.dumps(measure(*args)))
            self.stored["made"] = provenance()
            self.write(RESULTS, json.dumps(self.stored, indent=1))
        return measured[key]

    def write(self, name: str, text: str) -> None:
        """A file of the folder, complete or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / name) as temporary:
            temporary.write_text(text)

    def close(self, tables: Mapping[str, str]) -> None:
        """Write the tables, with what made them above, and say where."""
        head = f"{in_words()}, {self.settings.scale} scale.\n\n"
        differs = f"What the paper has otherwise: {self.settings.differs}\n\n" if self.settings.differs else ""
        self.write("table.md", head + differs + tables["md"])
        self.write("table.tex", f"% {in_words()}\n{tables['tex']}")
        console = Console(markup=False, width=200)
        console.print(f"{self.settings.title}\n{tables['md']}", soft_wrap=True)
        console.print(f"written: {self.folder / 'table.md'}", soft_wrap=True)
