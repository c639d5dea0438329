#include "ops/convolution/tensorflow_window.h"

#include <fmt/core.h>

namespace ipu::ops {

std::vector<int64_t> spatial_entries(NodeImportCall& call, std::string_view name, std::vector<int64_t> list,
                                     size_t rank, bool is_last) {
  if (list.size() != rank + 2)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("attribute mismatch: {} of {} is {}; it has {} entries.", name, call.described(),
                            to_string(list), rank + 2));
  if (is_last) list = ir::channels_first(std::move(list));
  if (list[0] != 1 || list[1] != 1) call.unsupported(fmt::format("{} over the batch or the channels", name));
  return {list.begin() + 2, list.end()};
}

Window read_tensorflow_window(NodeImportCall& call, std::vector<int64_t> kernel,
                              std::span<const int64_t> sizes, bool is_last,
                              std::optional<std::vector<int64_t>> strides) {
  const size_t rank = kernel.size();
  const std::vector<int64_t> ones(rank + 2, 1);
  Window window;
  window.kernel = std::move(kernel);
  window.strides =
      spatial_entries(call, "strides", strides ? *strides : call.integers("strides"), rank, is_last);
  window.dilations = spatial_entries(call, "dilations", call.integers("dilations", ones), rank, is_last);
  for (size_t d = 0; d < rank; ++d)
    if (window.strides[d] < 1 || window.dilations[d] < 1 || window.kernel[d] < 1)
      throw Error(
          ErrorCode::kTypeMismatch,
          fmt::format("value out of range: {} has a window of {} with strides {} and dilations {}; all are "
                      "at least 1.",
                      call.described(), to_string(window.kernel), to_string(window.strides),
                      to_string(window.dilations)));
  window.padding_low.assign(rank, 0);
  window.padding_high.assign(rank, 0);
  const std::vector<int64_t> pads = call.integers("explicit_paddings", {});
  const std::string word = call.text("padding");
  if (word == "EXPLICIT") {
    if (pads.size() != 2 * (rank + 2))
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("attribute mismatch: explicit_paddings of {} is {}; it has {} entries.",
                              call.described(), to_string(pads), 2 * (rank + 2)));
    for (size_t d = 0; d < rank; ++d) {
      const size_t at = 2 * (d + (is_last ? 1 : 2));
      window.padding_low[d] = pads[at];
      window.padding_high[d] = pads[at + 1];
    }
    return window;
  }
  if (word != "SAME" && word != "VALID") call.unsupported(fmt::format("padding \"{}\"", word));
  if (word == "VALID") return window;
  for (size_t d = 0; d < rank; ++d) {  // as many outputs as strides fit into x; the odd element goes behind
    const int64_t outputs = (sizes[d] + window.strides[d] - 1) / window.strides[d];
    const int64_t total =
        std::max<int64_t>(0, (outputs - 1) * window.strides[d] + window.extent(d) - sizes[d]);
    window.padding_low[d] = total / 2;
    window.padding_high[d] = total - total / 2;
  }
  return window;
}

}  // namespace ipu::ops
