// Importers of torch's pooling: ceil_mode becomes padding at the end, adaptive pooling a mean or an ordinary
// pooling.
#include <fmt/core.h>

#include "ops/pooling/pool_support.h"

namespace ipu::ops {
namespace {

// A window over a volume is one over its planes and then one along the depth: maxima, their first place, sums
// and counts of elements all come out the same.
Attributes part_of(const Attributes& attributes, bool planes) {
  Attributes part = attributes;
  for (const char* name : {"kernel", "strides", "padding_low", "padding_high", "dilations", "ceil_padding"}) {
    if (attributes.find(name) == nullptr) continue;
    const std::vector<int64_t>& all = attributes.integers(name);
    const bool is_length = name[0] == 'k' || name[0] == 's' || name[0] == 'd';
    part.set(name,
             planes ? std::vector<int64_t>{all[1], all[2]} : std::vector<int64_t>{all[0], is_length ? 1 : 0});
  }
  if (!planes && attributes.integer("divisor", 0) != 0) part.set("divisor", int64_t{1});
  return part;
}

// [N, C, D, H, W] as [N, C * D, H, W] and as [N, C, D, H * W].
ir::Value* as_planes(ImportCall& call, ir::Value* x) {
  const Shape s = x->type().shape;
  return reshaped(call, x, {s[0], s[1] * s[2], s[3], s[4]});
}
ir::Value* as_columns(ImportCall& call, ir::Value* x) {
  const Shape s = x->type().shape;
  return reshaped(call, x, {s[0], s[1], s[2], s[3] * s[4]});
}

Attributes with_input(Attributes attributes, Shape shape) {
  attributes.set("input_shape", std::move(shape));
  return attributes;
}

}  // namespace

ir::Value* pooled(ImportCall& call, std::string_view kind, ir::Value* x, const Attributes& attributes) {
  const Shape s = x->type().shape;
  if (s.size() != 5) return call.op(kind, {x}, attributes);
  ir::Value* planes = call.op(kind, {as_planes(call, x)}, part_of(attributes, true));
  const Shape p = planes->type().shape;
  ir::Value* y =
      call.op(kind, {reshaped(call, planes, {s[0], s[1], s[2], p[2] * p[3]})}, part_of(attributes, false));
  return reshaped(call, y, {s[0], s[1], y->type().shape[2], p[2], p[3]});
}

ir::Value* max_pooled_gradient(ImportCall& call, ir::Value* x, ir::Value* y, ir::Value* dy,
                               const Attributes& attributes) {
  const Shape s = x->type().shape;
  if (s.size() != 5) return call.op("max_pool_gradient", {x, y, dy}, attributes);
  const Attributes within = part_of(attributes, true), along = part_of(attributes, false);
  ir::Value* images = as_planes(call, x);
  ir::Value* planes = call.op("max_pool", {images}, within);
  const Shape p = planes->type().shape;
  ir::Value* columns = reshaped(call, planes, {s[0], s[1], s[2], p[2] * p[3]});
  ir::Value* d = call.op("max_pool_gradient", {columns, as_columns(call, y), as_columns(call, dy)}, along);
  return reshaped(call, call.op("max_pool_gradient", {images, planes, reshaped(call, d, p)}, within), s);
}

ir::Value* average_pooled_gradient(ImportCall& call, ir::Value* dy, const Attributes& attributes) {
  const Shape s = attributes.integers("input_shape");
  if (s.size() != 5) return call.op("avg_pool_gradient", {dy}, attributes);
  const Shape y = dy->type().shape;
  const Attributes within = with_input(part_of(attributes, true), {s[0], s[1] * s[2], s[3], s[4]}),
                   along = with_input(part_of(attributes, false), {s[0], s[1], s[2], y[3] * y[4]});
  ir::Value* d = call.op("avg_pool_gradient", {as_columns(call, dy)}, along);
  d = reshaped(call, d, {s[0], s[1] * s[2], y[3], y[4]});
  return reshaped(call, call.op("avg_pool_gradient", {d}, within), s);
}

std::vector<target::Work> window_work(const ir::Op& op, const ir::Type& y, std::string_view function) {
  ir::Type windows{y.dtype, y.shape};
  windows.shape.push_back(element_count(op.attributes.integers("kernel")));
  return {pass_over(windows, {function})};
}

std::vector<int64_t> ceil_padding_of(const Window& window, std::span<const int64_t> sizes) {
  std::vector<int64_t> padding(window.rank(), 0);
  for (size_t d = 0; d < padding.size(); ++d) {
    const int64_t low = window.padding_low[d], stride = window.strides[d];
    const int64_t room = sizes[d] + low + window.padding_high[d] - window.extent(d);
    int64_t out = (room + stride - 1) / stride + 1;
    if ((out - 1) * stride >= sizes[d] + low) --out;
    padding[d] = std::max<int64_t>(0, (out - 1) * stride - room);
  }
  return padding;
}

namespace {

// x [N, C, spatial...]; torch also takes [C, spatial...].
ir::Value* batched_input(AtenImportCall& call, size_t rank) {
  ir::Value* x = call.tensor("self");
  Shape shape = x->type().shape;
  if (shape.size() == rank + 2) return x;
  if (shape.size() != rank + 1) {
    call.unsupported(fmt::format("an input of shape {} for {} spatial dimensions", to_string(shape), rank));
  }
  shape.insert(shape.begin(), 1);
  return reshaped(call, x, shape);
}

std::vector<int64_t> list_or(AtenImportCall& call, std::string_view name, size_t rank,
                             std::vector<int64_t> fallback) {
  if (!call.has(name) || call.integers(name).empty()) return fallback;
  return expand_to_rank(call, name, rank);
}

}  // namespace

Pool read_pool(AtenImportCall& call, size_t rank) {
  ir::Value* x = batched_input(call, rank);
  Window w;
  w.kernel = expand_to_rank(call, "kernel_size", rank);
  w.strides = list_or(call, "stride", rank, w.kernel);
  w.padding_low = w.padding_high = list_or(call, "padding", rank, std::vector<int64_t>(rank, 0));
  w.dilations = list_or(call, "dilation", rank, std::vector<int64_t>(rank, 1));
  std::vector<int64_t> ceil_padding(rank, 0);
  if (call.has("ceil_mode") && call.boolean("ceil_mode")) {
    ceil_padding = ceil_padding_of(w, std::span(x->type().shape).subspan(2));
    for (size_t d = 0; d < rank; ++d) w.padding_high[d] += ceil_padding[d];
  }
  Attributes attributes{{"kernel", w.kernel},
                        {"strides", w.strides},
                        {"padding_low", w.padding_low},
                        {"padding_high", w.padding_high}};
  return {x, std::move(w), std::move(ceil_padding), std::move(attributes)};
}

namespace {

void import_max_pool(AtenImportCall& call, size_t rank) {
  Pool pool = read_pool(call, rank);
  if (is_integer(pool.x->type().dtype)) return import_indexed_max_pool(call, pool);
  pool.attributes.set("dilations", pool.window.dilations);
  call.set_result(
      0, reshaped(call, pooled(call, "max_pool", pool.x, pool.attributes), call.result_type(0).shape));
}

void import_avg_pool(AtenImportCall& call, size_t rank) {
  Pool pool = read_pool(call, rank);
  if (std::any_of(pool.ceil_padding.begin(), pool.ceil_padding.end(), [](int64_t v) { return v != 0; })) {
    pool.attributes.set("ceil_padding", pool.ceil_padding);
  }
  if (call.has("count_include_pad"))
    pool.attributes.set("count_include_pad", call.boolean("count_include_pad"));
  const int64_t divisor = call.has("divisor_override") ? call.integer("divisor_override") : 0;
  pool.attributes.set("divisor", std::abs(divisor));  // 0: that of the window
  ir::Value* y = reshaped(call, pooled(call, "avg_pool", pool.x, pool.attributes), call.result_type(0).shape);
  call.set_result(0, divisor < 0 ? call.op("neg", {y}) : y);
}

void import_adaptive(AtenImportCall& call, size_t rank) {
  ir::Value* x = batched_input(call, rank);
  const Shape& shape = x->type().shape;
  const Shape result = call.result_type(0).shape;
  std::vector<int64_t> kernel(rank), dims(rank);
  bool everything = true;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t in = shape[d + 2], out = result[result.size() - rank + d];
    if (out < 1 || in % out != 0) {
      call.unsupported(fmt::format("an output size of {} does not divide the input size {}", out, in));
    }
    kernel[d] = in / out;
    dims[d] = static_cast<int64_t>(d) + 2;
    everything = everything && out == 1;
  }
  ir::Value* y = everything ? call.op("reduce_mean", {x}, {{"dims", dims}, {"keep_dims", true}})
                            : pooled(call, "avg_pool", x,
                                     {{"kernel", kernel},
                                      {"strides", kernel},
                                      {"padding_low", Shape(rank, 0)},
                                      {"padding_high", Shape(rank, 0)}});
  call.set_result(0, reshaped(call, y, result));
}

struct PoolImporters {
  PoolImporters() {
    register_aten_importer("max_pool1d", [](AtenImportCall& call) { import_max_pool(call, 1); });
    register_aten_importer("max_pool2d", [](AtenImportCall& call) { import_max_pool(call, 2); });
    register_aten_importer("avg_pool1d", [](AtenImportCall& call) { import_avg_pool(call, 1); });
    register_aten_importer("avg_pool2d", [](AtenImportCall& call) { import_avg_pool(call, 2); });
    register_aten_importer("max_pool3d", [](AtenImportCall& call) { import_max_pool(call, 3); });
    register_aten_importer("avg_pool3d", [](AtenImportCall& call) { import_avg_pool(call, 3); });
    for (const char* name : {"adaptive_avg_pool3d", "_adaptive_avg_pool3d"}) {
      register_aten_importer(name, [](AtenImportCall& call) { import_adaptive(call, 3); });
    }
    register_aten_importer("adaptive_avg_pool1d", [](AtenImportCall& call) { import_adaptive(call, 1); });
    for (const char* name : {"adaptive_avg_pool2d", "_adaptive_avg_pool2d"}) {
      register_aten_importer(name, [](AtenImportCall& call) { import_adaptive(call, 2); });
    }
  }
};
const PoolImporters pool_importers;

}  // namespace
}  // namespace ipu::ops
