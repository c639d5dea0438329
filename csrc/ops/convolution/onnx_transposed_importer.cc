// Importer of ONNX's transposed convolution, of one to three spatial dimensions.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ops/convolution/volume.h"
#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"

namespace ipu::ops {
namespace {

std::vector<int64_t> list_of(NodeImportCall& call, const char* name, size_t count, int64_t fallback) {
  std::vector<int64_t> list = call.integers(name, {});
  if (list.empty()) list.assign(count, fallback);
  if (list.size() != count)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("attribute mismatch: {} of {} is {}; it has {} entries.", name, call.described(),
                            to_string(list), count));
  return list;
}

struct Geometry {
  std::vector<int64_t> strides, dilations, low, high, more, sizes;
  std::vector<int64_t> before;  // zeros in front of the result
};

// PopART's stated sizes: what is too much of the whole result is cut on both sides, the odd element behind, or in front
// for SAME_UPPER.
void cut_to_sizes(Geometry& g, size_t d, int64_t whole, bool is_upper) {
  const int64_t total = whole - g.sizes[d];
  const int64_t less = total >= 0 ? total / 2 : -((1 - total) / 2), more = total - less;
  g.low[d] = is_upper ? more : less;
  g.high[d] = total - g.low[d];
  g.before[d] = std::max<int64_t>(0, -g.low[d]);
  g.low[d] = std::max<int64_t>(0, g.low[d]);
  if (g.high[d] < 0) g.more[d] -= std::exchange(g.high[d], 0);
}

void check_stated_sizes(NodeImportCall& call, const std::string& auto_pad, size_t rank) {
  if (auto_pad == "VALID")
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format(
            "attribute mismatch: {} has an output_shape and auto_pad VALID, which cuts nothing; leave "
            "one of them out.",
            call.described()));
  if (rank != 2)
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("attribute mismatch: {} has an output_shape and {} spatial dimensions; it is for two. "
                    "State pads instead.",
                    call.described(), rank));
}

// Sizes follow from the padding, or the padding from sizes that are stated.
Geometry read_geometry(NodeImportCall& call, const Shape& x, const Shape& weight) {
  const size_t rank = x.size() - 2;
  Geometry g{list_of(call, "strides", rank, 1),
             list_of(call, "dilations", rank, 1),
             {},
             {},
             list_of(call, "output_padding", rank, 0),
             {},
             std::vector<int64_t>(rank, 0)};
  const std::vector<int64_t> pads = list_of(call, "pads", 2 * rank, 0);
  g.low.assign(pads.begin(), pads.begin() + std::ssize(g.strides));
  g.high.assign(pads.begin() + std::ssize(g.strides), pads.end());
  const std::string word = call.text("auto_pad", "NOTSET");
  const bool is_same = word == "SAME_UPPER" || word == "SAME_LOWER";
  std::vector<int64_t> wanted = call.integers("output_shape", {});
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != rank) list_of(call, "output_shape", rank, 0);
  if (!wanted.empty() && call.is_popart()) check_stated_sizes(call, word, rank);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t whole =
        g.strides[d] * (x[d + 2] - 1) + g.more[d] + (weight[d + 2] - 1) * g.dilations[d] + 1;
    if (word == "VALID") g.low[d] = g.high[d] = 0;
    if (wanted.empty() && !is_same) {
      g.sizes.push_back(whole - g.low[d] - g.high[d]);
      continue;
    }
    g.sizes.push_back(wanted.empty() ? x[d + 2] * g.strides[d] : wanted[d]);
    if (!wanted.empty() && call.is_popart()) {
      cut_to_sizes(g, d, whole, word == "SAME_UPPER");
      continue;
    }
    const int64_t total = std::max<int64_t>(0, whole - g.sizes[d]);
    g.more[d] += std::max<int64_t>(0, g.sizes[d] - whole);
    // Which side takes the odd element was turned round in version 11.
    const bool is_less_in_front = (word == "SAME_UPPER") == (call.version() >= 11);
    g.low[d] = is_less_in_front ? total / 2 : total - total / 2;
    g.high[d] = total - g.low[d];
  }
  return g;
}

void import_conv_transpose(NodeImportCall& call) {
  ir::Value *x = call.operand(0), *weight = call.operand(1);
  const Shape &from = x->type().shape, &filter = weight->type().shape;
  const int64_t groups = call.integer("group", 1);
  if (from.size() < 3 || from.size() > 5 || filter.size() != from.size() || filter[0] != from[1])
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} with {}; both have channels and one to three spatial "
                            "dimensions.",
                            call.described(), to_string(from), to_string(filter)));
  const size_t rank = from.size() - 2;
  const std::vector<int64_t> kernel(filter.begin() + 2, filter.end());
  const std::vector<int64_t> stated = call.integers("kernel_shape", kernel);
  if (!stated.empty() && stated != kernel)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has kernel_shape {}, its weight is {}.", call.described(),
                            to_string(stated), to_string(filter)));
  Geometry g = read_geometry(call, from, filter);
  Shape shape{from[0], filter[1] * groups}, reached = shape, before(from.size(), 0), behind(from.size(), 0);
  for (size_t d = 0; d < rank; ++d) {
    if (g.sizes[d] < 1)
      throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} would give {} elements along "
                                                        "dimension {}.",
                                                        call.described(), g.sizes[d], d + 2));
    // More behind than a stride reaches no tap: less padding first, then zeros.
    if (g.more[d] >= g.strides[d]) {
      behind[d + 2] = std::max<int64_t>(0, g.more[d] - g.high[d]);
      g.high[d] = std::max<int64_t>(0, g.high[d] - g.more[d]);
    }
    before[d + 2] = g.before[d];
    shape.push_back(g.sizes[d]);
    reached.push_back(g.sizes[d] - before[d + 2] - behind[d + 2]);
  }
  const Attributes attributes{{"strides", g.strides},     {"padding_low", g.low}, {"padding_high", g.high},
                              {"dilations", g.dilations}, {"groups", groups},     {"input_shape", reached}};
  ir::Value* y = rank == 3 ? transposed_volume_convolution(call, x, weight, attributes)
                           : call.op("conv_input_gradient", {x, weight}, attributes);
  if (reached != shape) y = call.op("pad", {y}, {{"low", before}, {"high", behind}, {"value", 0.0}});
  if (call.has_operand(2)) {
    Shape per_channel(rank + 1, 1);
    per_channel[0] = shape[1];
    y = call.op("add", {y, reshaped(call, call.operand(2), per_channel)});
  }
  call.set_result(0, y);
}

struct OnnxTransposedImporter {
  OnnxTransposedImporter() { register_onnx_importer("ConvTranspose", {6}, import_conv_transpose); }
};
const OnnxTransposedImporter onnx_transposed_importer;

const PopartOperators onnx_transposed_popart = {{
    {"ConvTranspose", "1 11", "X:F W:F B:F", "Y:F", "yes",
     "dilations kernel_shape pads strides auto_pad=NOTSET|SAME_UPPER|SAME_LOWER|VALID group "
     "output_padding output_shape"},
}};

}  // namespace
}  // namespace ipu::ops
