// Importers of TensorFlow's lookups, segments and scatters. An index outside its dimension is an error of the run, as on TensorFlow's CPUs,
// but in segments, where a negative one says that the row does not count.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/definition/tensorflow_nodes.h"
#include "ops/indexing/node_slices.h"

namespace ipu::ops {
namespace {

ir::Value* index_operand(NodeImportCall& call, int i) { return call.cast(call.operand(i), DType::kI32); }

Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a;
  shape.insert(shape.end(), b.begin(), b.end());
  return shape;
}

// --- lookups

// Slices of x along `axis`, in the shape of the index.
ir::Value* taken(NodeImportCall& call, ir::Value* x, ir::Value* index, int64_t axis) {
  const Shape from = x->type().shape, places = index->type().shape;
  ir::Value* flat = reshaped(call, index, {index->type().elements()});
  const Shape front = joined(Shape(from.begin(), from.begin() + axis), places);
  return reshaped(call, call.op("index_select", {x, flat}, {{"dim", axis}}),
                  joined(front, Shape(from.begin() + axis + 1, from.end())));
}

// The first `batch` dimensions of x and index go together: [B, before, n, behind] and [B, K] give [B, before, K, behind].
ir::Value* taken_in_batches(NodeImportCall& call, ir::Value* x, ir::Value* index, int64_t axis,
                            int64_t batch) {
  const Shape from = x->type().shape, places = index->type().shape;
  const auto rank = std::ssize(from);
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < batch; ++d) perm.push_back(d);
  perm.push_back(axis);
  for (int64_t d = batch; d < rank; ++d)
    if (d != axis) perm.push_back(d);
  const Shape batches(from.begin(), from.begin() + batch), before(from.begin() + batch, from.begin() + axis),
      behind(from.begin() + axis + 1, from.end()), wanted(places.begin() + batch, places.end());
  const int64_t blocks = element_count(batches), count = element_count(places);
  ir::Value* number = call.op("iota", {},
                              {{"shape", Shape{blocks, count / std::max<int64_t>(blocks, 1)}},
                               {"dim", int64_t{0}},
                               {"dtype", DType::kI32}});
  const std::vector<ir::Value*> each{reshaped(call, number, {count}), reshaped(call, index, {count})};
  ir::Value* flat =
      build_op(call.builder(), "flat_index", each, {{"sizes", Shape{blocks, from[axis]}}})->result();
  const Shape rest = joined(before, behind);
  x = reshaped(call, transposed(call, x, perm), joined({blocks * from[axis]}, rest));
  ir::Value* y = call.op("index_select", {x, flat}, {{"dim", int64_t{0}}});
  y = reshaped(call, y, joined(joined(batches, wanted), rest));
  // [B, K, before, behind] to [B, before, K, behind]
  perm.resize(y->type().shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  const auto middle = perm.begin() + batch;
  std::rotate(middle, middle + std::ssize(wanted), middle + std::ssize(wanted) + std::ssize(before));
  return transposed(call, y, perm);
}

void import_gather(NodeImportCall& call, bool has_axis) {
  call.ignore("validate_indices");
  ir::Value *x = call.operand(0), *index = index_operand(call, 1);
  const size_t rank = x->type().shape.size();
  const auto index_rank = std::ssize(index->type().shape);
  int64_t batch = call.integer("batch_dims", 0);
  if (batch < 0) batch += index_rank;
  const int64_t axis = has_axis ? operand_axis(call, 2, rank) : batch;
  if (batch < 0 || batch > axis || batch > index_rank || axis >= std::ssize(x->type().shape))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("value out of range: {} has batch_dims {} and axis {}.",
                                                      call.described(), batch, axis));
  call.set_result(0,
                  batch == 0 ? taken(call, x, index, axis) : taken_in_batches(call, x, index, axis, batch));
}

void import_gather_nd(NodeImportCall& call) {
  require_default(call, "bad_indices_policy", std::string());
  call.set_result(0, gathered(call, named_slices(call, call.operand(0), 1, 0)));
}

// --- rows that are combined

enum class Combine : uint8_t { kAssign, kAdd, kSub, kMul, kMin, kMax };

// x [n, rest...] with `rows` [k, rest...] put into those of `index` [k].
ir::Value* combined(NodeImportCall& call, ir::Value* x, ir::Value* index, ir::Value* rows, Combine how) {
  if (how == Combine::kSub) rows = call.op("neg", {rows});
  if (how == Combine::kAssign) return call.op("index_copy", {x, index, rows}, {{"dim", int64_t{0}}});
  if (how == Combine::kAdd || how == Combine::kSub)
    return call.op("index_add", {x, index, rows}, {{"dim", int64_t{0}}});
  Shape column(rows->type().shape.size(), 1);
  column[0] = rows->type().shape[0];
  index = expanded(call, reshaped(call, index, column), rows->type().shape);
  const std::string mode = how == Combine::kMul ? "multiply" : how == Combine::kMin ? "min" : "max";
  return call.op("scatter", {x, index, rows}, {{"dim", int64_t{0}}, {"mode", mode}});
}

double lowest(DType dtype) {
  if (dtype == DType::kF16) return -65504.0;
  if (is_floating_point(dtype)) return std::numeric_limits<float>::lowest();
  return -std::exp2(8.0 * static_cast<double>(size_in_bytes(dtype)) - 1.0);
}
double neutral(Combine how, DType dtype) {
  if (how == Combine::kMul) return 1.0;
  if (how == Combine::kMax) return lowest(dtype);
  return how != Combine::kMin ? 0.0 : is_floating_point(dtype) ? -lowest(dtype) : -lowest(dtype) - 1.0;
}

// Rows of data [ids..., rest...] by number; a row whose number is negative becomes one that changes nothing.
ir::Value* segments(NodeImportCall& call, Combine how, int64_t count) {
  ir::Value *data = call.operand(0), *ids = index_operand(call, 1);
  const Shape &shape = data->type().shape, &named = ids->type().shape;
  if (named.size() > shape.size() || !std::equal(named.begin(), named.end(), shape.begin()))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {} has segments {}.",
                                                      call.described(), to_string(shape), to_string(named)));
  const Shape rest(shape.begin() + std::ssize(named), shape.end());
  const DType dtype = data->type().dtype;
  const double nothing = neutral(how, dtype);
  const int64_t rows = element_count(named), width = element_count(rest);
  data = reshaped(call, data, {rows, width});
  ids = reshaped(call, ids, {rows});
  const ConstantPtr stated = call.constant(1);
  const std::vector<int64_t> numbers = stated == nullptr ? std::vector<int64_t>{-1} : integers_of(*stated);
  if (std::ranges::any_of(numbers, [](int64_t number) { return number < 0; })) {
    const Term number{call, ids}, column{call, reshaped(call, ids, {rows, 1})};
    data = (column < 0.0).choose(Term(nothing), Term(call, data)).value();
    ids = maximum(number, 0.0).value();
  }
  ir::Value* y = nullptr;
  if (how == Combine::kAdd && is_floating_point(dtype))
    y = call.op("embedding_gradient", {data, ids}, {{"rows", count}});
  else
    y = combined(call, call.builder().splat({dtype, {count, width}}, nothing), ids, data, how);
  return reshaped(call, y, joined({count}, rest));
}

void import_unsorted_segments(NodeImportCall& call, Combine how) {
  call.set_result(0, segments(call, how, operand_integer(call, 2, "num_segments")));
}

int64_t segment_count(NodeImportCall& call, const std::vector<int64_t>& ids) {
  constexpr int64_t kMost = 1 << 24;
  const int64_t count = ids.empty() ? 0 : ids.back() + 1;
  if (count < 0 || count > kMost)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("value out of range: {} has {} segments; from 0 to {}.",
                                                      call.described(), count, kMost));
  return count;
}

// How many segments there are is said by the last number.
// A number without rows is 0, or 1 of a product: not the largest number of the type, as in unsorted segments.
void import_sorted_segments(NodeImportCall& call, Combine how) {
  const std::vector<int64_t> ids = call.operand_integers(1, "segment_ids");
  const int64_t count = segment_count(call, ids);
  ir::Value* y = segments(call, how, count);
  if (how == Combine::kMin || how == Combine::kMax) {
    std::vector<double> is_there(static_cast<size_t>(count), 0.0);
    for (const int64_t id : ids)
      if (id >= 0 && id < count) is_there[static_cast<size_t>(id)] = 1.0;
    Shape column(y->type().shape.size(), 1);
    column[0] = count;
    const Term mask{call, call.builder().constant(constant_of(DType::kBool, column, is_there))};
    y = mask.choose(Term(call, y), 0.0).value();
  }
  call.set_result(0, y);
}

void import_segment_mean(NodeImportCall& call) {
  const std::vector<int64_t> ids = call.operand_integers(1, "segment_ids");
  std::vector<double> rows(static_cast<size_t>(segment_count(call, ids)), 0.0);
  for (const int64_t id : ids)
    if (id >= 0 && id < std::ssize(rows)) ++rows[static_cast<size_t>(id)];
  for (double& count : rows) count = std::max(count, 1.0);
  const Term sum{call, segments(call, Combine::kAdd, std::ssize(rows))};
  Shape column(sum.value()->type().shape.size(), 1);
  column[0] = std::ssize(rows);
  set_result(call, sum / Term(call, call.builder().constant(constant_of(sum.dtype(), column, rows))));
}

ir::Value* scattered_nd(NodeImportCall& call, ir::Value* x, int index, int updates, Combine how) {
  const Slices s = named_slices(call, x, index, 0);
  ir::Value* given = call.operand(updates);
  const Shape wanted = joined(s.named, s.rest);
  if (given->type().shape != wanted)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has updates {}; with these indices they are {}.",
                            call.described(), to_string(given->type().shape), to_string(wanted)));
  ir::Value* rows = reshaped(call, given, joined({element_count(s.named)}, s.rest));
  return reshaped(call, combined(call, s.x, s.index, rows, how), x->type().shape);
}

void import_scatter_nd(NodeImportCall& call) {
  require_default(call, "bad_indices_policy", std::string());
  const Shape shape = operand_sizes(call, 2, "shape");
  ir::Value* zeros = call.builder().splat({call.operand(1)->type().dtype, shape}, 0.0);
  call.set_result(0, scattered_nd(call, zeros, 0, 1, Combine::kAdd));
}

void import_tensor_scatter(NodeImportCall& call, Combine how) {
  require_default(call, "bad_indices_policy", std::string());
  call.set_result(0, scattered_nd(call, call.operand(0), 1, 2, how));
}

void import_variable_scatter_nd(NodeImportCall& call, Combine how) {
  require_default(call, "bad_indices_policy", std::string());
  call.assign(0, scattered_nd(call, call.operand(0), 1, 2, how));
}

// One number may stand for all updates.
ir::Value* scattered_rows(NodeImportCall& call, Combine how) {
  ir::Value *x = call.operand(0), *index = index_operand(call, 1);
  node_dim(call, 0, x->type().shape.size());
  const Shape rest(x->type().shape.begin() + 1, x->type().shape.end());
  const Shape places = index->type().shape;
  const int64_t rows = element_count(places);
  ir::Value* updates = expanded(call, call.operand(2), joined(places, rest));
  updates = reshaped(call, updates, joined({rows}, rest));
  return combined(call, x, reshaped(call, index, {rows}), updates, how);
}

void import_variable_scatter(NodeImportCall& call, Combine how) { call.assign(0, scattered_rows(call, how)); }

// TensorFlow writes into x, which nobody reads any more.
void import_inplace(NodeImportCall& call, Combine how) { call.set_result(0, scattered_rows(call, how)); }

// --- made of indices

// An index that is not there gives no row.
void import_one_hot(NodeImportCall& call) {
  call.ignore("TI");
  const Term index{call, index_operand(call, 0)};
  const int64_t depth = operand_integer(call, 1, "depth");
  Shape shape = index.value()->type().shape, row(shape.size() + 1, 1);
  int64_t axis = call.integer("axis", -1);
  axis = node_dim(call, axis, row.size());
  shape.insert(shape.begin() + axis, 1);
  row[axis] = depth;
  const Term places{call, call.op("iota", {}, {{"shape", row}, {"dim", axis}, {"dtype", DType::kI32}})};
  const Term column{call, reshaped(call, index.value(), shape)};
  set_result(call, (column == places).choose(term(call, 2), term(call, 3)));
}

// Rows of all the data in the order that constant indices say; of equal ones the last counts.
void import_dynamic_stitch(NodeImportCall& call) {
  const int count = call.operand_count() / 2;
  std::vector<ir::Value*> data;
  std::vector<int64_t> source;
  int64_t row = 0;
  Shape rest;
  for (int i = 0; i < count; ++i) {
    const std::vector<int64_t> indices = call.operand_integers(i, "indices");
    ir::Value* part = call.operand(count + i);
    const auto index_rank = std::ssize(call.operand(i)->type().shape);
    if (index_rank > std::ssize(part->type().shape))
      throw Error(
          ErrorCode::kTypeMismatch,
          fmt::format("shape mismatch: {} of rows {}, which has not the {} dimensions of its indices.",
                      call.described(), to_string(part->type().shape), index_rank));
    rest = Shape(part->type().shape.begin() + index_rank, part->type().shape.end());
    data.push_back(reshaped(call, part, joined({std::ssize(indices)}, rest)));
    for (const int64_t index : indices) {
      if (index < 0) node_dim(call, index, 0);  // says that it is out of range
      if (index >= std::ssize(source)) source.resize(static_cast<size_t>(index) + 1, -1);
      source[static_cast<size_t>(index)] = row++;
    }
  }
  if (data.empty()) call.operand(0);  // says that it is missing
  if (std::ranges::count(source, -1) > 0) call.unsupported("indices that leave places open");
  ir::Value* all = concatenated(call, data, 0);
  ir::Value* order =
      call.builder().constant(constant_of(DType::kI32, {std::ssize(source)}, {source.begin(), source.end()}));
  call.set_result(0, call.op("index_select", {all, order}, {{"dim", int64_t{0}}}));
}

// The first so many elements of each sequence in reverse order; the others stay where they are.
void import_reverse_sequence(NodeImportCall& call) {
  call.ignore("Tlen");
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const int64_t along = axis_of(call, "seq_dim", 0, shape.size()),
                batch = axis_of(call, "batch_dim", 0, shape.size());
  Shape column(shape.size(), 1);
  column[batch] = shape[batch];
  const Term length{call, reshaped(call, index_operand(call, 1), column)};
  Shape row(shape.size(), 1);
  row[along] = shape[along];
  const Term place{call, call.op("iota", {}, {{"shape", row}, {"dim", along}, {"dtype", DType::kI32}})};
  const Term source = (place < length).choose(length - 1.0 - place, place);
  call.set_result(0, call.op("gather", {x, expanded(call, source.value(), shape)}, {{"dim", along}}));
}

// The diagonal of each matrix with so many below and above it; negative: all.
void import_band_part(NodeImportCall& call) {
  call.ignore("Tindex");
  const Term x = term(call, 0);
  const Shape& shape = x.value()->type().shape;
  const int64_t rank = std::ssize(shape), lower = operand_integer(call, 1, "num_lower"),
                upper = operand_integer(call, 2, "num_upper");
  node_dim(call, -2, shape.size());
  const auto places = [&](int64_t dim) {
    Shape line(shape.size(), 1);
    line[dim] = shape[dim];
    return Term(call, call.op("iota", {}, {{"shape", line}, {"dim", dim}, {"dtype", DType::kI32}}));
  };
  const Term below = places(rank - 2) - places(rank - 1);
  Term y = x;
  if (lower >= 0) y = (below > static_cast<double>(lower)).choose(0.0, y);
  if (upper >= 0) y = (below < -static_cast<double>(upper)).choose(0.0, y);
  call.set_result(0, y.value() == x.value() ? call.op("nop", {x.value()}) : y.value());
}

struct IndexingTensorflowImporters {
  IndexingTensorflowImporters() {
    register_tensorflow_importer("ResourceGather", [](NodeImportCall& call) { import_gather(call, false); });
    register_tensorflow_importer("Gather", [](NodeImportCall& call) { import_gather(call, false); });
    register_tensorflow_importer("GatherV2", [](NodeImportCall& call) { import_gather(call, true); });
    register_tensorflow_importer("GatherNd", import_gather_nd);
    register_tensorflow_importer("ResourceGatherNd", import_gather_nd);
    register_tensorflow_importer("ScatterNd", import_scatter_nd);
    register_tensorflow_importer("OneHot", import_one_hot);
    register_tensorflow_importer("ReverseSequence", import_reverse_sequence);
    register_tensorflow_importer("MatrixBandPart", import_band_part);
    for (const char* type : {"DynamicStitch", "ParallelDynamicStitch"})
      register_tensorflow_importer(type, import_dynamic_stitch);
    using Rule = void (*)(NodeImportCall&, Combine);
    const auto add = [](const char* type, Rule rule, Combine how) {
      register_tensorflow_importer(type, [=](NodeImportCall& call) { rule(call, how); });
    };
    add("UnsortedSegmentSum", import_unsorted_segments, Combine::kAdd);
    add("UnsortedSegmentProd", import_unsorted_segments, Combine::kMul);
    add("UnsortedSegmentMin", import_unsorted_segments, Combine::kMin);
    add("UnsortedSegmentMax", import_unsorted_segments, Combine::kMax);
    add("SegmentSum", import_sorted_segments, Combine::kAdd);
    register_tensorflow_importer("SegmentMean", import_segment_mean);
    add("SegmentProd", import_sorted_segments, Combine::kMul);
    add("SegmentMin", import_sorted_segments, Combine::kMin);
    add("SegmentMax", import_sorted_segments, Combine::kMax);
    add("TensorScatterUpdate", import_tensor_scatter, Combine::kAssign);
    add("TensorScatterAdd", import_tensor_scatter, Combine::kAdd);
    add("TensorScatterSub", import_tensor_scatter, Combine::kSub);
    add("TensorScatterMin", import_tensor_scatter, Combine::kMin);
    add("TensorScatterMax", import_tensor_scatter, Combine::kMax);
    add("InplaceUpdate", import_inplace, Combine::kAssign);
    add("InplaceAdd", import_inplace, Combine::kAdd);
    add("InplaceSub", import_inplace, Combine::kSub);
    add("ResourceScatterNdUpdate", import_variable_scatter_nd, Combine::kAssign);
    add("ResourceScatterNdAdd", import_variable_scatter_nd, Combine::kAdd);
    add("ResourceScatterNdSub", import_variable_scatter_nd, Combine::kSub);
    add("ResourceScatterNdMin", import_variable_scatter_nd, Combine::kMin);
    add("ResourceScatterNdMax", import_variable_scatter_nd, Combine::kMax);
    add("ResourceScatterUpdate", import_variable_scatter, Combine::kAssign);
    add("ResourceScatterAdd", import_variable_scatter, Combine::kAdd);
    add("ResourceScatterSub", import_variable_scatter, Combine::kSub);
    add("ResourceScatterMul", import_variable_scatter, Combine::kMul);
    add("ResourceScatterMin", import_variable_scatter, Combine::kMin);
    add("ResourceScatterMax", import_variable_scatter, Combine::kMax);
  }
};
const IndexingTensorflowImporters indexing_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
