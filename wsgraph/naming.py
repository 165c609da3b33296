"""From the tracer's unknowns to groups and axes with names."""

from __future__ import annotations

from .axes import Atom, Dim, Part, part_size, resolve
from .nesting import parent_of
from .spec import Axis, Factor, Group

INPUT, OUTPUT = "network input", "network output"


class GroupNames:
    """Turns atoms into groups with names: the first layer that writes to a group names it."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, ...], str] = {}
        self._atoms: dict[str, Part] = {}
        self._around: set[Atom] = set()  # axes that others are nested in; some are pinned

    def visit(self, param: str, k: int, dim: Dim, reads: bool) -> None:
        layer = param.rpartition(".")[0] or param
        for part in resolve(dim):
            if not any(atom.feature for atom in part):
                continue
            if all(atom.pinned for atom in part):
                why = {INPUT: "input", OUTPUT: "output"}.get(part[0].pinned, layer if not reads else f"{layer}.input")
                self._add(part, why)
            else:
                parents = {parent_of(atom) for atom in part}
                for atom in part:
                    if not atom.pinned and atom not in parents and (atom.size > 1 or part_size(part) == 1):
                        self._add_nested(atom, layer)

    def _add_nested(self, atom: Atom, name: str) -> None:
        parent = parent_of(atom)
        if parent is not None and atom.size == 1:  # runs of one element: the parent itself
            self._add_nested(parent, name)
            return
        if parent is not None:
            self._around.add(parent)
            self._add_nested(parent, f"{name}.runs")
        self._add((atom,), name)

    def _add(self, part: Part, name: str) -> None:
        key = self._key(part)
        if key in self._names:
            return
        taken, base, count = set(self._names.values()), name, 2
        while name in taken:
            name, count = f"{base}.{count}", count + 1
        self._names[key] = name
        self._atoms[name] = part

    @staticmethod
    def _key(part: Part) -> tuple[int, ...]:
        return tuple(id(atom) for atom in part if atom.size > 1) or tuple(id(atom) for atom in part[:1])

    def name(self, part: Part) -> str | None:
        """Name of the group made of these atoms, if there is one."""
        return self._names.get(self._key(part))

    def axis(self, dim: Dim) -> Axis:
        return Axis(tuple(self._product(part) for part in resolve(dim)))

    def _product(self, part: Part) -> tuple[Factor, ...]:
        whole = self.name(part)
        if whole is not None and parent_of(part[0]) is None and (len(part) == 1 or self._around.isdisjoint(part)):
            return (whole,)
        factors: list[Factor] = []
        for atom, before in zip(part, (None, *part), strict=False):
            name = self.name((atom,)) if not atom.pinned or atom in self._around else None
            parent = parent_of(atom)
            if name is None or parent is None:
                factors.append(name or atom.size)
            elif before is parent:  # the group's runs are those of the factor before: it stands for both
                factors[-1] = name
            else:
                factors.append(f"/{name}")
        kept = [f for f in factors if f != 1]
        return tuple(kept) or (1,)

    def groups(self, used: set[str]) -> list[Group]:
        """The groups that parameters use, and those they are nested in."""
        found = {name: self._group(name, part) for name, part in self._atoms.items()}
        for name in list(used):
            parent = found[name].parent
            while parent is not None:
                used.add(parent)
                parent = found[parent].parent
        rank = {INPUT: 0, OUTPUT: 2}
        return sorted((g for g in found.values() if g.name in used), key=lambda g: rank.get(g.why, 1))

    def _group(self, name: str, part: Part) -> Group:
        why = next((atom.pinned for atom in part if atom.pinned), "")
        activation = next((a for atom in part for a in atom.activations), "identity")
        shape = tuple(atom.size for atom in part) if why else ()
        parent = parent_of(part[0])
        nested_in = None if parent is None else self.name((parent,))
        return Group(name, part_size(part) * self._runs(parent), why, activation, shape, nested_in)

    def _runs(self, parent: Atom | None) -> int:
        return 1 if parent is None else parent.size * self._runs(parent_of(parent))
