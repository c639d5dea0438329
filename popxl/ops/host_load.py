"""Data from the host."""

from typing import Optional

from popxl._impl.build import create
from popxl.ops.init import init
from popxl.streams import HostToDeviceStream
from popxl.tensor import Tensor


def host_load(h2d_stream: HostToDeviceStream, name: Optional[str] = None) -> Tensor:
    """The next element of a stream; each execution takes one.

    Args:
        h2d_stream: made by `popxl.h2d_stream`.
        name: the tensor is called `<name>_hostload`; None: as the stream.

    Example:
        >>> x = ops.host_load(stream)
    """
    stem = f"{name or h2d_stream._stream_tensor.name}_hostload"
    made = init(h2d_stream.shape, h2d_stream.dtype, f"{stem}_init", "undef")
    return create("HostLoad", {0: made}, [stem], {"stream": h2d_stream.tensor_id})[0]
