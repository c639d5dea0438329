// nearest and farthest_points: which of some points are near, and which are spread best
// (kernels/point_cloud/points.h has the algorithms). Points are rows of a matrix.
#include "kernels/point_cloud/points.h"

#include <fmt/core.h>

#include <numeric>

#include "ops/definition/sample_types.h"
#include "ops/definition/work.h"
#include "ops/random/random_support.h"

namespace ipu::ops {
namespace {

auto coordinates(const ReferenceTensor& points) {
  return [&points](int64_t p, int64_t i) {
    return points.values[static_cast<size_t>(p * points.type.shape[1] + i)];
  };
}

std::vector<ir::Type> nearest_type(const InferContext& c) {
  require_rank(c, 0, 2, "x");
  require_rank(c, 1, 2, "y");
  require_same_dtype(c, 0, 1);
  const Shape &x = c.operand(0).shape, &y = c.operand(1).shape;
  if (x[1] != y[1]) shape_error(fmt::format("points of {} and of {} dimensions", x[1], y[1]));
  if (c.has(2) != c.has(3)) shape_error("one of x and y has batches and the other has none");
  if (c.has(2) && (c.operand(2).shape != Shape{x[0]} || c.operand(3).shape != Shape{y[0]}))
    shape_error(fmt::format("batches of shapes {} and {} for {} and {} points", to_string(c.operand(2).shape),
                            to_string(c.operand(3).shape), x[0], y[0]));
  return {{DType::kI32, {x[0]}}};
}

void nearest_reference(ReferenceCall& call) {
  const ReferenceTensor &x = call.operand(0), &y = call.operand(1);
  for (int64_t a = 0; a < x.type.shape[0]; ++a) {
    const auto may = [&](int64_t b) {
      return !call.has(2) ||
             call.operand(2).values[static_cast<size_t>(a)] == call.operand(3).values[static_cast<size_t>(b)];
    };
    call.result().values[static_cast<size_t>(a)] = static_cast<double>(
        kernels::nearest_point(coordinates(x), a, coordinates(y), y.type.shape[0], x.type.shape[1], may));
  }
}

const OpRegistration nearest =
    define_op("nearest", "point_cloud")
        .doc(
            "For each row of x [n, d] the number of the nearest row of y [m, d] with the same number in batch_y "
            "[m] as it has in batch_x [n]; -1 where there is none. Of equal distances the first.")
        .operand("x", kAnyFloat)
        .operand("y", kAnyFloat)
        .optional_operand("batch_x", bit(DType::kI32))
        .optional_operand("batch_y", bit(DType::kI32))
        .result("index")
        .traits(kExpensive)
        .infer(nearest_type)
        .gradient_zero()
        .reference(nearest_reference)
        // Distances of all pairs, of which the smallest of each row.
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          const ir::Type &x = op.operand(0)->type(), &y = op.operand(1)->type();
          const ir::Type pairs{x.dtype, {x.shape[0], y.shape[0]}}, terms{x.dtype, {x.elements(), y.shape[0]}};
          return {pass_over(terms, {"Sub", "Mul", "Add"}, 2), reduction_of(pairs, x.shape[0], 2)};
        })
        .from_aten(
            {"poptorch::nearest"},
            [](AtenImportCall& call) {
              ir::Value* x = call.cast(call.tensor("x"), DType::kF32);
              ir::Value* y = call.cast(call.tensor("y"), DType::kF32);
              const auto matrix = [&](ir::Value* points) {
                if (points->type().shape.size() != 1) return points;
                return reshaped(call, points, {points->type().shape[0], 1});
              };
              ir::Value* batches[2] = {call.optional_tensor("batch_x"), call.optional_tensor("batch_y")};
              for (ir::Value*& batch : batches)
                if (batch != nullptr) batch = call.cast(batch, DType::kI32);
              call.set_result(0, call.op("nearest", {matrix(x), matrix(y), batches[0], batches[1]}));
            })
        .samples({{{f32({5, 3}), f32({7, 3}), std::nullopt, std::nullopt}, {}},
                  {{f32({6, 2}), f32({4, 2}), i32({6}), i32({4})}, {}, -1, 1, {{2, {0, 2}}, {3, {0, 2}}}},
                  {{f16({3, 1}), f16({2, 1}), std::nullopt, std::nullopt}, {}}});

std::vector<ir::Type> farthest_points_type(const InferContext& c) {
  require_rank(c, 0, 2, "src");
  if (c.has(1)) require_seed(c, 1);
  const std::vector<int64_t>&ptr = c.attributes.integers("ptr"), &counts = c.attributes.integers("counts");
  if (ptr.size() != counts.size() + 1)
    attribute_error(fmt::format("{} bounds for {} batches", ptr.size(), counts.size()));
  for (size_t b = 0; b < counts.size(); ++b) {
    const int64_t size = ptr[b + 1] - ptr[b];
    if (ptr[b] < 0 || size < 0 || ptr[b + 1] > c.operand(0).shape[0])
      attribute_error(
          fmt::format("batch {} is [{}, {}) of {} points", b, ptr[b], ptr[b + 1], c.operand(0).shape[0]));
    if (counts[b] < 0 || counts[b] > size)
      attribute_error(fmt::format("{} samples of batch {}, which has {} points", counts[b], b, size));
  }
  return {{DType::kI32, {std::accumulate(counts.begin(), counts.end(), int64_t{0})}}};
}

void farthest_points_reference(ReferenceCall& call) {
  const ReferenceTensor& src = call.operand(0);
  const std::vector<int64_t>&ptr = call.attributes.integers("ptr"),
        &counts = call.attributes.integers("counts");
  auto result = call.result().values.begin();
  for (size_t b = 0; b < counts.size(); ++b) {
    if (counts[b] == 0) continue;
    std::vector<double> distance(static_cast<size_t>(ptr[b + 1] - ptr[b]));
    const int64_t start =
        call.has(1) ? kernels::random_start(stream_of(call, 1), static_cast<int64_t>(b), ptr[b], ptr[b + 1])
                    : ptr[b];
    kernels::farthest_points(coordinates(src), ptr[b], ptr[b + 1], src.type.shape[1], start, counts[b],
                             distance.data(), [&](int64_t sample) {
                               *result++ = static_cast<double>(sample);
                               return true;
                             });
  }
}

const OpRegistration farthest_points =
    define_op("farthest_points", "point_cloud")
        .doc(
            "Numbers of counts[b] of the rows [ptr[b], ptr[b + 1]) of src [n, d], batch after batch: the first row "
            "(with a seed: a random one), then each time the row that is farthest from those taken.")
        .operand("src", kAnyFloat)
        .optional_operand("seed", bit(DType::kU32))
        .attribute("ptr")
        .attribute("counts")
        .attribute("stream_id", int64_t{0})
        .result("index")
        .traits(kExpensive)
        .infer(farthest_points_type)
        .gradient_zero()
        .reference(farthest_points_reference)
        // For each row that is taken the distances of all others, and the farthest.
        .work([](const ir::Op& op) {
          const std::vector<int64_t>&ptr = op.attributes.integers("ptr"),
                &counts = op.attributes.integers("counts");
          const ir::Type& src = op.operand(0)->type();
          std::vector<target::Work> work;
          for (size_t b = 0; b < counts.size(); ++b) {
            const int64_t rows = ptr[b + 1] - ptr[b];
            const ir::Type terms{src.dtype, {rows, src.shape[1]}}, distances{src.dtype, {rows}};
            work.push_back({pass_over(terms, {"Sub", "Mul", "Add"}).form, counts[b]});
            work.push_back({pass_over(distances, {"Min"}, 2).form, counts[b]});
            work.push_back({reduction_of(distances, 1, 2).form, counts[b]});
          }
          return work;
        })
        .from_aten(
            {"poptorch::fps"},
            [](AtenImportCall& call) {
              ir::Value* src = call.cast(call.tensor("src"), DType::kF32);
              if (src->type().shape.size() == 1) src = reshaped(call, src, {src->type().shape[0], 1});
              Attributes attributes{{"ptr", call.integers("ptr")}, {"counts", call.integers("counts")}};
              if (!call.boolean("random_start"))
                return call.set_result(0, call.op("farthest_points", {src, nullptr}, attributes));
              attributes.set("stream_id", call.next_stream());
              call.set_result(0, call.op("farthest_points", {src, call.seed()}, attributes));
            })
        .samples({{{f32({9, 3}), std::nullopt},
                   {{"ptr", std::vector<int64_t>{0, 4, 4, 9}}, {"counts", std::vector<int64_t>{2, 0, 3}}}},
                  {{f32({6, 2}), ir::Type{DType::kU32, {2}}},
                   {{"ptr", std::vector<int64_t>{0, 6}}, {"counts", std::vector<int64_t>{6}}},
                   -1,
                   1,
                   {{1, {0, 1e9}}}}});

}  // namespace
}  // namespace ipu::ops
