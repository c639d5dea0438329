// Importers of ai.graphcore's operators on sequences of several lengths, one behind the other: pieces that are copied,
// and a graph that runs on a few of them at a time.
#include <fmt/core.h>

#include <algorithm>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// For sequence i, rows [from, from + count) of a source become rows [to, to + count) of the result. Each is i32 [n].
struct Pieces {
  ir::Value *counts, *from, *to;
};

// `rest` (of the shape of the result, or a number) where no piece lies.
ir::Value* copied(NodeImportCall& call, ir::Value* source, const Pieces& pieces, int64_t rows,
                  ir::Value* rest) {
  const int64_t count = pieces.counts->type().elements();
  const auto column = [&](ir::Value* list) { return reshaped(call, list, {count, 1}); };
  ir::Value *row = places_along(call, rows, 1, 2), *zero = number_like(call, row, 0.0);
  ir::Value* within = call.op("sub", {row, column(pieces.to)});
  ir::Value* copies = call.op("logical_and", {call.op("greater_equal", {within, zero}),
                                              call.op("less", {within, column(pieces.counts)})});
  ir::Value* place =
      call.op("where", {copies, call.op("add", {within, column(pieces.from)}), number_like(call, row, -1.0)});
  place = call.op("reduce_max", {place}, {{"dims", std::vector<int64_t>{0}}, {"keep_dims", false}});
  ir::Value* taken =
      call.op("index_select", {source, call.op("maximum", {place, zero})}, {{"dim", int64_t{0}}});
  Shape shape(source->type().shape.size(), 1);
  shape[0] = rows;
  return call.op("where", {reshaped(call, call.op("greater_equal", {place, zero}), shape), taken, rest});
}

ir::Value* list_of(NodeImportCall& call, int i, int64_t count) {
  require_integer(call, i);
  const Shape& shape = call.operand(i)->type().shape;
  if (shape != Shape{count})
    node_shape_error(call, fmt::format("has {} as operand {}, and {} sequences", to_string(shape), i, count));
  return call.cast(call.operand(i), DType::kI32);
}

// Operands: source, destination, counts, places in the source, places in the destination.
void import_sequence_slice(NodeImportCall& call) {
  require_equal_dtypes(call, 0, 1);
  ir::Value *source = call.operand(0), *into = call.operand(1);
  const Shape from = source->type().shape, shape = into->type().shape;
  if (shape.empty() || from.size() != shape.size() ||
      !std::equal(from.begin() + 1, from.end(), shape.begin() + 1))
    node_shape_error(call, fmt::format("of source {} and destination {}; they differ in dimension 0 only",
                                       to_string(from), to_string(shape)));
  const int64_t count = call.operand(2)->type().elements();
  const Pieces pieces{list_of(call, 2, count), list_of(call, 3, count), list_of(call, 4, count)};
  ir::Value* rest = flag_of(call, "zeroUnused", false) ? number_like(call, into, 0.0) : into;
  call.set_result(0, call.op("detach", {copied(call, source, pieces, shape[0], rest)}));
}

// --- packed blocks

// Sequences behind each other in `data`, as many as a call of the graph takes of each.
struct Packed {
  ir::Value *data, *offsets, *lengths;  // the lists have one entry for each sequence of every call
  int64_t longest;
};

// [batch, longest, ...] of the sequences from `first` on, zeros behind their ends.
ir::Value* unpacked(NodeImportCall& call, const Packed& packed, int64_t first, int64_t batch) {
  const Shape& shape = packed.data->type().shape;
  const auto column = [&](ir::Value* list) {
    return reshaped(call, sliced(call, list, 0, first, batch), {batch, 1});
  };
  ir::Value* step = places_along(call, packed.longest, 1, 2);
  ir::Value* inside = call.op("less", {step, column(packed.lengths)});
  ir::Value* place = call.op("add", {column(packed.offsets), step});
  place = call.op("where", {inside, place, number_like(call, place, 0.0)});
  ir::Value* rows = call.op("index_select", {packed.data, reshaped(call, place, {batch * packed.longest})},
                            {{"dim", int64_t{0}}});
  Shape result = shape, mask(shape.size() + 1, 1);
  result[0] = packed.longest;
  result.insert(result.begin(), batch);
  mask[0] = batch;
  mask[1] = packed.longest;
  rows = reshaped(call, rows, result);
  return call.op("where", {reshaped(call, inside, mask), rows, number_like(call, rows, 0.0)});
}

// Operands: k times data, offsets and lengths, then offsets and lengths of the result. The graph sees the sequences in
// groups, and its results are packed again.
void import_packed_data_block(NodeImportCall& call) {
  const int operands = call.operand_count(), inputs = (operands - 2) / 3;
  if (operands < 5 || (operands - 2) % 3 != 0)
    node_shape_error(
        call, fmt::format("has {} operands; it takes three for each input and two of the result", operands));
  const std::vector<int64_t> longest = call.integers("maxSequenceLengths");
  const int64_t size = call.integer("resultSize"), batch = call.integer("callbackBatchSize");
  if (std::ssize(longest) < inputs ||
      std::any_of(longest.begin(), longest.end(), [](int64_t l) { return l < 1; }))
    node_attribute_error(
        call, fmt::format("has maxSequenceLengths {}; it is one positive number for each of {} inputs",
                          to_string(longest), inputs));
  if (size < 1 || batch < 1)
    node_attribute_error(
        call, fmt::format("has resultSize {} and callbackBatchSize {}; both are at least 1", size, batch));
  const int64_t count = call.operand(operands - 1)->type().elements(), calls = (count + batch - 1) / batch;
  if (count < 1) node_shape_error(call, "has no sequences");
  // Sequences without elements fill the last group.
  const auto filled = [&](int i) {
    ir::Value* list = list_of(call, i, count);
    if (calls * batch == count) return list;
    return call.op("pad", {list},
                   {{"low", Shape{0}}, {"high", Shape{calls * batch - count}}, {"value", 0.0}});
  };
  std::vector<Packed> packed;
  std::vector<ir::Type> types;
  for (int i = 0; i < inputs; ++i) {
    ir::Value* data = call.operand(3 * i);
    if (data->type().shape.empty() || data->type().shape[0] < 1)
      node_shape_error(
          call, fmt::format("has {} as operand {}, which has no rows", to_string(data->type().shape), 3 * i));
    packed.push_back({data, filled(3 * i + 1), filled(3 * i + 2), longest[static_cast<size_t>(i)]});
    ir::Type type = data->type();
    type.shape[0] = packed.back().longest;
    type.shape.insert(type.shape.begin(), batch);
    types.push_back(type);
  }
  const ImportedBody body = call.body("callback", types);
  if (body.graph->outputs().size() != 1)
    node_shape_error(
        call, fmt::format("has a callback that gives {} values; it gives one", body.graph->outputs().size()));
  const Shape shape = body.graph->outputs()[0]->type().shape;
  if (shape.size() < 2 || shape[0] != batch)
    node_shape_error(call,
                     fmt::format("has a callback that gives {}; it gives [{}, ...], elements of {} sequences",
                                 to_string(shape), batch, batch));
  std::vector<ir::Value*> results;
  for (int64_t n = 0; n < calls; ++n) {
    std::vector<ir::Value*> arguments;
    for (const Packed& p : packed) arguments.push_back(unpacked(call, p, n * batch, batch));
    arguments.insert(arguments.end(), body.captured.begin(), body.captured.end());
    results.push_back(call.builder().call(body.graph, arguments)[0]);
  }
  ir::Value* all = concatenated(call, results, 0);
  Shape rows(shape.begin() + 1, shape.end());
  rows[0] = calls * batch * shape[1];
  all = reshaped(call, all, rows);
  const Pieces pieces{
      list_of(call, operands - 1, count),
      call.op("iota", {},
              {{"shape", Shape{count}}, {"dtype", DType::kI32}, {"step", static_cast<double>(shape[1])}}),
      list_of(call, operands - 2, count)};
  call.set_result(0, call.op("detach", {copied(call, all, pieces, size, number_like(call, all, 0.0))}));
}

struct GraphcoreSequencesRegistrations {
  GraphcoreSequencesRegistrations() {
    register_graphcore_importer(
        {"SequenceSlice", "sequenceslice",
         "source:X destination:X n:UINT32 sourceOffset:UINT32 destOffset:UINT32", "y:X", "none",
         "zeroUnused:flag=0",
         "[source, destination, lengths, source offsets, destination offsets]: copies rows."},
        import_sequence_slice);
    register_graphcore_importer(
        {"PackedDataBlock", "packedDataBlock", "inputs*3:X", "y:X", "none",
         "maxSequenceLengths:ints, resultSize:int, callbackBatchSize:int, callback:graph, debugName:debug=''",
         "Runs the graph of a child builder on sequences that are stored back to back."},
        import_packed_data_block);
  }
};
const GraphcoreSequencesRegistrations graphcore_sequences_registrations;

}  // namespace
}  // namespace ipu::ops
