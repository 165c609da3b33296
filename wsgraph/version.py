"""The version of the installed distribution, which ``wsgraph`` and ``align`` share."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("wsgraph")
except PackageNotFoundError:  # a checkout on the path that nobody installed
    __version__ = "0+unknown"
