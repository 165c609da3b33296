"""The message-passing encoder."""

from .encoder import Encoder as Encoder
from .encoder import EncoderConfig as EncoderConfig
from .sweep import Sweep as Sweep

__all__ = ["Encoder", "EncoderConfig", "Sweep"]
