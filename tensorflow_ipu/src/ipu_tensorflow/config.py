"""`ipu.config.IPUConfig`."""

from __future__ import annotations

from ipu_tensorflow.configuration import Configuration
from ipu_tensorflow.system import configure_ipu_system


class IPUConfig(Configuration):
    """The configuration of the IPUs of this process: attributes in categories, with defaults.

    Setting an attribute has no effect before `configure_ipu_system()`; `get_attribute_metadata(name)` tells type, default and
    meaning.
    """

    def configure_ipu_system(self, device: str = "cpu") -> None:
        """As `configure_ipu_system(self, device)`."""
        configure_ipu_system(self, device)
