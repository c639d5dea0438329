// Importer of ai.graphcore's MultiConv: several convolutions in one node, each three operands (data, weight, bias or
// none) in a row. Lists of numbers are those of all convolutions one after the other.
#include <fmt/core.h>

#include "ops/convolution/volume.h"
#include "ops/convolution/window.h"
#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

constexpr int kOperands = 3;

// The entries of one convolution in a list of all.
class Lists {
 public:
  Lists(NodeImportCall& call, size_t total) : call_(call), total_(total) {}

  std::vector<int64_t> of(const char* name, size_t start, size_t count, size_t times,
                          int64_t fallback) const {
    const std::vector<int64_t> all = call_.integers(name, {});
    if (all.empty()) return std::vector<int64_t>(count * times, fallback);
    if (all.size() != total_ * times)
      node_attribute_error(
          call_, fmt::format("has {} numbers in '{}'; its convolutions have {} spatial dimensions, {} "
                             "numbers each",
                             all.size(), name, total_, times));
    const auto first = all.begin() + static_cast<int64_t>(start * times);
    return {first, first + static_cast<int64_t>(count * times)};
  }

 private:
  NodeImportCall& call_;
  size_t total_;
};

// x with d - 1 zeros between neighbours along its spatial dimensions.
ir::Value* dilated(NodeImportCall& call, ir::Value* x, const std::vector<int64_t>& dilations) {
  for (size_t d = 0; d < dilations.size(); ++d) {
    if (dilations[d] == 1) continue;
    const int64_t dim = static_cast<int64_t>(d) + 2, size = x->type().shape[dim];
    Shape split = x->type().shape;
    split.insert(split.begin() + dim + 1, 1);
    std::vector<int64_t> low(split.size(), 0), high(low);
    high[static_cast<size_t>(dim) + 1] = dilations[d] - 1;
    ir::Value* wide =
        call.op("pad", {reshaped(call, x, split)}, {{"low", low}, {"high", high}, {"value", 0.0}});
    Shape whole = x->type().shape;
    whole[dim] = size * dilations[d];
    x = sliced(call, reshaped(call, wide, whole), dim, 0, (size - 1) * dilations[d] + 1);
  }
  return x;
}

// Zeros around y; negative numbers cut.
ir::Value* padded(NodeImportCall& call, ir::Value* y, const std::vector<int64_t>& pads) {
  const size_t rank = pads.size() / 2;
  std::vector<int64_t> low(rank + 2, 0), high(low);
  bool pads_any = false;
  for (size_t d = 0; d < rank; ++d) {
    if (pads[d] < 0)
      y = sliced(call, y, static_cast<int64_t>(d) + 2, -pads[d], y->type().shape[d + 2] + pads[d]);
    if (pads[rank + d] < 0)
      y = sliced(call, y, static_cast<int64_t>(d) + 2, 0, y->type().shape[d + 2] + pads[rank + d]);
    low[d + 2] = std::max<int64_t>(0, pads[d]);
    high[d + 2] = std::max<int64_t>(0, pads[rank + d]);
    pads_any = pads_any || low[d + 2] > 0 || high[d + 2] > 0;
  }
  return pads_any ? call.op("pad", {y}, {{"low", low}, {"high", high}, {"value", 0.0}}) : y;
}

void check_shapes(NodeImportCall& call, int i) {
  const Shape &x = call.operand(i)->type().shape, &w = call.operand(i + 1)->type().shape;
  if (x.size() < 3 || x.size() > 5 || w.size() != x.size() || w[1] < 1 || x[1] % w[1] != 0)
    node_shape_error(call, fmt::format("convolves {} with {}; they are [N, C, ...] and [O, C / groups, ...]",
                                       to_string(x), to_string(w)));
}

// The types of partial sums: none, or one for each convolution.
std::vector<std::string> partials_of(NodeImportCall& call, int count) {
  if (!call.has("partialsTypes")) return {};
  std::vector<std::string> types = call.texts("partialsTypes");
  if (!types.empty() && types.size() != static_cast<size_t>(count))
    node_attribute_error(
        call, fmt::format("has {} types in 'partialsTypes' for {} convolutions", types.size(), count));
  for (const std::string& type : types)
    if (type != "half" && type != "float")
      node_attribute_error(call, fmt::format("has '{}' in 'partialsTypes'; there are half and float", type));
  return types;
}

void import_multi_conv(NodeImportCall& call) {
  // Advice on memory, tiles and cycles, which has no say in the values.
  for (const char* name : {"availableMemoryProportions", "planType", "perConvReservedTiles", "cycleBackOff",
                           "enableConvDithering"})
    call.ignore(name);
  const int count = call.result_count(), given = call.operand_count();
  const std::vector<std::string> partials = partials_of(call, count);
  if (given > kOperands * count || given < kOperands * count - 1)
    node_shape_error(call,
                     fmt::format("has {} operands for {} convolutions; each takes three", given, count));
  size_t total = 0, start = 0;
  for (int n = 0; n < count; ++n) {
    check_shapes(call, kOperands * n);
    total += call.operand(kOperands * n)->type().shape.size() - 2;
  }
  const Lists lists(call, total);
  for (int n = 0; n < count; ++n) {
    const int first = kOperands * n;
    ir::Value *x = call.operand(first), *weight = call.operand(first + 1);
    ir::Value* bias = call.has_operand(first + 2) ? call.operand(first + 2) : nullptr;
    const size_t rank = x->type().shape.size() - 2;
    const auto list = [&](const char* name, size_t times, int64_t fallback, int64_t least) {
      std::vector<int64_t> values = lists.of(name, start, rank, times, fallback);
      for (const int64_t value : values)
        if (value < least)
          node_attribute_error(call, fmt::format("has {} in '{}'; each is at least {}", value, name, least));
      return values;
    };
    constexpr int64_t kAny = std::numeric_limits<int32_t>::min();
    const int64_t groups = x->type().shape[1] / weight->type().shape[1];
    x = padded(call, dilated(call, x, list("inDilations", 1, 1, 1)), list("pads", 2, 0, kAny));
    const Attributes attributes{{"strides", list("strides", 1, 1, 1)},
                                {"padding_low", std::vector<int64_t>(rank, 0)},
                                {"padding_high", std::vector<int64_t>(rank, 0)},
                                {"dilations", list("dilations", 1, 1, 1)},
                                {"groups", groups}};
    if (!partials.empty())
      call.builder().settings.outline.set("multi_conv_partials", partials[static_cast<size_t>(n)]);
    ir::Value* y = rank == 3         ? volume_convolution(call, x, weight, bias, attributes)
                   : bias == nullptr ? call.op("conv", {x, weight}, attributes)
                                     : call.op("conv", {x, weight, bias}, attributes);
    call.set_result(n, padded(call, y, list("outPads", 2, 0, kAny)));
    start += rank;
  }
}

struct ConvolutionGraphcoreImporters {
  ConvolutionGraphcoreImporters() {
    register_graphcore_importer(
        {"MultiConv", "multiconv", "inputs*2:F", "outputs*1:F", "yes",
         "args:id lists, dilations:int lists=[], inDilations:int lists=[], pads:int lists=[], outPads:int lists=[], "
         "strides:int lists=[], availableMemoryProportions:floats=[], partialsTypes:strings=[], "
         "planType:string(parallel|serial)=None, perConvReservedTiles:int=None, cycleBackOff:float=None, enableConvDithering:ints=[]",
         "Several convolutions in one node; each list is empty or has one entry for each."},
        import_multi_conv);
  }
};
const ConvolutionGraphcoreImporters convolution_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
