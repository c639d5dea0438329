// Importer of ONNX's RoiAlign with averages. A sample between elements is a product of a weight along the height
// and one along the width, so the mean of a cell of samples is that of two small matrices with x between them.
#include <fmt/core.h>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

class Regions {
 public:
  Regions(NodeImportCall& call, ir::Value* rois, DType dtype)
      : call_(call), rois_(call.cast(rois, DType::kF32)), dtype_(dtype), count_(rois->type().shape[0]) {}

  // [regions, cells, size]: how much each element counts in each cell. Coordinates `low` and `high` of a region
  // bound it; `per_cell` samples along a cell, 0: as many as elements of x it covers.
  ir::Value* weights(int64_t low, int64_t high, int64_t size, int64_t cells, int64_t per_cell, double scale) {
    ir::Value* start = op("mul", {column(low), number(scale)});
    ir::Value* extent =
        op("maximum", {op("sub", {op("mul", {column(high), number(scale)}), start}), number(1)});
    ir::Value* cell = op("div", {extent, number(static_cast<double>(cells))});  // [regions, 1, 1, 1]
    // A region is at most as long as x, so a cell has no more samples than that.
    const int64_t most = per_cell > 0 ? per_cell : std::max<int64_t>(1, (size + cells - 1) / cells);
    ir::Value* samples = number(static_cast<double>(most));
    if (per_cell <= 0) samples = op("minimum", {op("ceil", {cell}), samples});
    ir::Value* sample = range({1, 1, most, 1}, 2);
    ir::Value* step = op("div", {op("mul", {op("add", {sample, number(0.5)}), cell}), samples});
    ir::Value* place = op("add", {op("add", {start, op("mul", {range({1, cells, 1, 1}, 1), cell})}), step});
    const auto edge = static_cast<double>(size);
    ir::Value* counts = op(
        "logical_and", {op("greater_equal", {place, number(-1)}), op("less_equal", {place, number(edge)})});
    counts = op("logical_and", {counts, op("less", {sample, samples})});
    ir::Value* inside = op("minimum", {op("maximum", {place, number(0)}), number(edge - 1)});
    ir::Value* distance = op("abs", {op("sub", {inside, range({1, 1, 1, size}, 3)})});
    ir::Value* weight = op("maximum", {op("sub", {number(1), distance}), number(0)});
    weight = op("div", {op("where", {counts, weight, number(0)}), samples});
    ir::Value* sum = call_.op("reduce_sum", {weight}, {{"dims", Shape{2}}, {"keep_dims", false}});
    return call_.cast(call_.op("detach", {sum}), dtype_);
  }

 private:
  ir::Value* op(const char* kind, std::initializer_list<ir::Value*> operands) {
    return call_.op(kind, operands);
  }
  ir::Value* number(double value) { return call_.builder().scalar(DType::kF32, value); }
  ir::Value* column(int64_t number) {
    return reshaped(call_, sliced(call_, rois_, 1, number, 1), {count_, 1, 1, 1});
  }
  ir::Value* range(const Shape& shape, int64_t dim) {
    return call_.op("iota", {},
                    {{"shape", shape}, {"dim", dim}, {"dtype", DType::kF32}, {"start", 0.0}, {"step", 1.0}});
  }

  NodeImportCall& call_;
  ir::Value* rois_;
  DType dtype_;
  int64_t count_;
};

void import_roi_align(NodeImportCall& call) {
  ir::Value *x = call.operand(0), *rois = call.operand(1), *batch = call.operand(2);
  const Shape &shape = x->type().shape, &boxes = rois->type().shape;
  if (shape.size() != 4 || boxes.size() != 2 || boxes[1] != 4 || batch->type().shape != Shape{boxes[0]})
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format(
            "shape mismatch: {} of x {}, rois {} and batch indices {}; these are [N, C, H, W], [R, 4] "
            "and [R].",
            call.described(), to_string(shape), to_string(boxes), to_string(batch->type().shape)));
  if (const std::string mode = call.text("mode", "avg"); mode != "avg")
    call.unsupported("mode '" + mode + "'");
  const int64_t height = call.integer("output_height", 1), width = call.integer("output_width", 1);
  const int64_t samples = call.integer("sampling_ratio", 0);
  const double scale = call.real("spatial_scale", 1.0);
  Regions regions(call, rois, x->type().dtype);
  ir::Value* rows = regions.weights(1, 3, shape[2], height, samples, scale);
  ir::Value* columns = regions.weights(0, 2, shape[3], width, samples, scale);
  const int64_t count = boxes[0], c = shape[1];
  ir::Value* images = call.op("index_select", {x, call.cast(batch, DType::kI32)}, {{"dim", int64_t{0}}});
  const auto for_channels = [&](ir::Value* weights) {
    const Shape one = weights->type().shape;
    ir::Value* each =
        expanded(call, reshaped(call, weights, {count, 1, one[1], one[2]}), {count, c, one[1], one[2]});
    return reshaped(call, each, {count * c, one[1], one[2]});
  };
  images = reshaped(call, images, {count * c, shape[2], shape[3]});
  ir::Value* y = call.op("matmul", {for_channels(rows), images});
  y = call.op("matmul", {y, transposed(call, for_channels(columns), {0, 2, 1})});
  call.set_result(0, reshaped(call, y, {count, c, height, width}));
}

struct RoiAlignImporter {
  RoiAlignImporter() { register_onnx_importer("RoiAlign", {10, 11}, import_roi_align); }
};
const RoiAlignImporter roi_align_importer;

const PopartOperators roi_align_popart = {{
    {"RoiAlign", "10", "X:F rois:F batch_indices:INDEX", "Y:F", "yes",
     "mode=avg output_height output_width sampling_ratio spatial_scale"},
}};

}  // namespace
}  // namespace ipu::ops
