"""Parts of tensors."""

from popart._impl.facade.values import Region
