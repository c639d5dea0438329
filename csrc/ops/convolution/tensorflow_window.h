// TensorFlow's way to say a window: lists with an entry for each dimension of x, in the order of data_format, and a word that says how
// x is padded.
#pragma once

#include "ops/convolution/window.h"
#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {

// The spatial entries of a list of `rank` entries; Error(kUnsupportedOps) unless those of batch and channels are 1.
std::vector<int64_t> spatial_entries(NodeImportCall& call, std::string_view name, std::vector<int64_t> list,
                                     size_t rank, bool is_last);
// From attributes strides, dilations, padding and explicit_paddings; `sizes`: the spatial sizes of x. `strides`: those of
// an operand instead.
Window read_tensorflow_window(NodeImportCall& call, std::vector<int64_t> kernel,
                              std::span<const int64_t> sizes, bool is_last,
                              std::optional<std::vector<int64_t>> strides = {});

}  // namespace ipu::ops
