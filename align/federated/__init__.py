"""Federated learning on Flower: clients' networks are aligned before the server averages them, without data.

.. code-block:: python

    from align.federated import AlignedFedAvg

    strategy = AlignedFedAvg(model, fraction_train=0.25)  # in place of FedAvg(fraction_train=0.25)
"""

from typing import TYPE_CHECKING

from wsgraph.lazy import attach

__all__ = ["Aligned", "AlignedFedAvg"]

if TYPE_CHECKING:
    from .strategy import Aligned as Aligned
    from .strategy import AlignedFedAvg as AlignedFedAvg
else:
    __getattr__, __dir__ = attach(__name__, dict.fromkeys(__all__, ".strategy"))
