"""Regions of images."""

from collections.abc import Sequence

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor


def roi_align(
    t: Tensor,
    rois: Tensor,
    batch_index: Tensor,
    output_size: Sequence[int],
    spatial_scale: float,
    sampling_ratio: int,
) -> Tensor:
    """Mean of bilinear samples in each bin of each region of interest, without a shift by half a pixel.

    Args:
        t: (N, C, H, W), floating.
        rois: (R, 4), floating: x1, y1, x2, y2 in coordinates of the original image.
        batch_index: (R,), integers: the image of each region.
        output_size: bins along height and width.
        spatial_scale: from coordinates of the original image to those of `t`.
        sampling_ratio: samples along height and width of a bin, 1 or more.

    Returns:
        (R, C, output_size[0], output_size[1]), in the dtype of `t`.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: shapes do not fit.

    Example:
        >>> y = ops.roi_align(x, rois, batch_index, (7, 7), 0.25, 2)
    """
    check_in_graph(_contexts.here.graph, t=t, rois=rois, batch_index=batch_index)
    check_tensor_ipu_and_tile_set(t=t, rois=rois, batch_index=batch_index)
    attributes = {
        "spatialScale": float(spatial_scale),
        "samplingRatio": int(sampling_ratio),
        "alignedHeight": int(output_size[0]),
        "alignedWidth": int(output_size[1]),
    }
    return create("RoiAlign", {0: t, 1: rois, 2: batch_index}, ("roi_align_out",), attributes)[0]
