// Importers of max_pool with indices, and of max_pool of integers: every window is gathered by a table of places
// that is known when the model is compiled. Floats take their values, and so their gradients, from the op max_pool.
#include "ops/pooling/pool_support.h"

namespace ipu::ops {
namespace {

// The place in a plane of each element of each window: [windows, taps] flat. What lies in the padding stands
// for the first element of the window, which cannot win against itself.
std::vector<int32_t> places_of(const Window& window, std::span<const int64_t> input, const Shape& output) {
  const int64_t taps = element_count(window.kernel);
  std::vector<int32_t> places(static_cast<size_t>(element_count(output) * taps));
  for_each_position(output, [&](int64_t position, const std::vector<int64_t>& at) {
    const auto row = places.begin() + position * taps;
    bool is_first = true;
    for_each_tap(window, input, at, [&](int64_t tap, int64_t offset) {
      if (is_first) std::fill_n(row, taps, static_cast<int32_t>(offset));
      is_first = false;
      row[tap] = static_cast<int32_t>(offset);
    });
  });
  return places;
}

}  // namespace

void import_indexed_max_pool(AtenImportCall& call, const Pool& pool) {
  const Shape& shape = pool.x->type().shape;
  const std::span<const int64_t> input = std::span(shape).subspan(2);
  const Shape output = output_sizes(pool.window, input);
  require_input_in_windows(pool.window, input, output);
  const int64_t planes = shape[0] * shape[1], windows = element_count(output),
                taps = element_count(pool.window.kernel);
  const std::vector<int32_t> places = places_of(pool.window, input, output);
  ir::Value* table = call.builder().constant(ir::make_constant(DType::kI32, {windows * taps}, places.data()));
  ir::Value* flat = reshaped(call, pool.x, {planes, element_count(Shape(input.begin(), input.end()))});
  ir::Value* elements =
      reshaped(call, call.op("index_select", {flat, table}, {{"dim", int64_t{1}}}), {planes, windows, taps});
  if (is_floating_point(pool.x->type().dtype)) {
    Attributes attributes = pool.attributes;
    attributes.set("dilations", pool.window.dilations);
    call.set_result(0,
                    reshaped(call, pooled(call, "max_pool", pool.x, attributes), call.result_type(0).shape));
  } else {
    ir::Value* largest =
        call.op("reduce_max", {elements}, {{"dims", std::vector<int64_t>{2}}, {"keep_dims", false}});
    call.set_result(0, reshaped(call, largest, call.result_type(0).shape));
  }
  if (call.result_count() < 2) return;
  ir::Value* tap = call.op("argmax", {elements}, {{"dim", int64_t{2}}, {"keep_dims", false}});
  ir::Value* rows = call.op("iota", {},
                            {{"shape", Shape{1, windows}},
                             {"dim", int64_t{1}},
                             {"dtype", DType::kI32},
                             {"start", 0.0},
                             {"step", static_cast<double>(taps)}});
  ir::Value* chosen = reshaped(call, call.op("add", {tap, rows}), {planes * windows});
  ir::Value* place = call.op("index_select", {table, chosen}, {{"dim", int64_t{0}}});
  call.set_result(1, reshaped(call, place, call.result_type(1).shape));
}

namespace {

struct MaxPoolIndexImporters {
  MaxPoolIndexImporters() {
    register_aten_importer("max_pool2d_with_indices",
                           [](AtenImportCall& call) { import_indexed_max_pool(call, read_pool(call, 2)); });
    register_aten_importer("max_pool3d_with_indices",
                           [](AtenImportCall& call) { import_indexed_max_pool(call, read_pool(call, 3)); });
  }
};
const MaxPoolIndexImporters max_pool_index_importers;

}  // namespace
}  // namespace ipu::ops
