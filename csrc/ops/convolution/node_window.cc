#include "ops/convolution/node_window.h"

#include <fmt/core.h>

namespace ipu::ops {
namespace {

void check_length(NodeImportCall& call, std::string_view name, const std::vector<int64_t>& list,
                  size_t wanted) {
  if (list.size() != wanted)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("attribute mismatch: {} of {} is {}; it has {} entries.", name, call.described(),
                            to_string(list), wanted));
}

}  // namespace

Window read_node_window(NodeImportCall& call, std::vector<int64_t> kernel, std::span<const int64_t> sizes) {
  const size_t rank = kernel.size();
  const std::vector<int64_t> ones(rank, 1);
  Window window;
  window.kernel = std::move(kernel);
  window.strides = call.integers("strides", ones);
  window.dilations = call.integers("dilations", ones);
  std::vector<int64_t> pads = call.integers("pads", std::vector<int64_t>(2 * rank, 0));
  if (window.strides.empty()) window.strides = ones;
  if (window.dilations.empty()) window.dilations = ones;
  if (pads.empty()) pads.assign(2 * rank, 0);
  check_length(call, "strides", window.strides, rank);
  check_length(call, "dilations", window.dilations, rank);
  check_length(call, "pads", pads, 2 * rank);
  for (const int64_t stride : window.strides)
    if (stride < 1) call.unsupported(fmt::format("strides {}", to_string(window.strides)));
  window.padding_low.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  window.padding_high.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  const std::string word = call.text("auto_pad", "NOTSET");
  if (word == "NOTSET") return window;
  if (word != "VALID" && word != "SAME_UPPER" && word != "SAME_LOWER")
    call.unsupported(fmt::format("auto_pad=\"{}\"", word));
  for (size_t d = 0; d < rank; ++d) {
    // As many outputs as strides fit into the input.
    const int64_t outputs = (sizes[d] + window.strides[d] - 1) / window.strides[d];
    const int64_t total =
        word == "VALID"
            ? 0
            : std::max<int64_t>(0, (outputs - 1) * window.strides[d] + window.extent(d) - sizes[d]);
    window.padding_low[d] = word == "SAME_LOWER" ? total - total / 2 : total / 2;
    window.padding_high[d] = total - window.padding_low[d];
  }
  return window;
}

}  // namespace ipu::ops
