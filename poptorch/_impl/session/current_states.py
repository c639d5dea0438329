"""Parameters and buffers of a compiled model whose objects the program replaced since (`load_state_dict(assign=True)`,
`model.to(...)`): what goes to the device and comes back is what the model has now.
"""

from __future__ import annotations

import torch

from poptorch._impl.capture.graph_capture import parameters_and_buffers


def follow(states: dict[str, torch.Tensor], model: torch.nn.Module) -> bool:
    """Replaces tensors of `states` by those that the model has now under their names; returns whether there were some.

    One that the model has no more stays: the program reads it.
    """
    now = {name: tensor for name, tensor, _ in parameters_and_buffers(model) if name in states}
    replaced = {name: tensor for name, tensor in now.items() if tensor is not states[name]}
    states.update(replaced)
    return bool(replaced)
