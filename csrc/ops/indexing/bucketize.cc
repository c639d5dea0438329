// bucketize: the place of a value among boundaries.
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

ir::Type of(DType dtype, Shape shape) { return {dtype, std::move(shape)}; }

void bucketize_reference(ReferenceCall& call) {
  const bool right = call.attributes.boolean("right");
  const std::vector<double>& boundaries = call.operand(1).values;
  for (int64_t i = 0; i < call.operand(0).size(); ++i) {
    const double x = call.operand(0).values[i];
    size_t first = 0, end = boundaries.size();
    while (first < end) {
      const size_t middle = first + (end - first) / 2;
      if (right ? boundaries[middle] > x : boundaries[middle] >= x)
        end = middle;
      else
        first = middle + 1;
    }
    call.result().values[i] = static_cast<double>(first);
  }
}

void import_bucketize(AtenImportCall& call) {
  const DType dtype = call.promoted({"self", "boundaries"});
  call.set_result(
      0, call.op("bucketize",
                 {call.cast(call.tensor("self"), dtype), call.cast(call.tensor("boundaries"), dtype)},
                 {{"right", call.has("right") && call.boolean("right")}}));
}

const OpRegistration bucketize =
    define_op("bucketize", "indexing")
        .doc(
            "The place of each element of x among boundaries [n], found by halving [0, n): the first "
            "boundary "
            "that is not smaller, or with `right` the first that is larger; n when there is none. Boundaries "
            "that are not sorted give what the halving meets, as in torch.")
        .operand("x", kNumber)
        .operand("boundaries", kNumber)
        .attribute("right", false)
        .result("y")
        .infer([](const InferContext& c) {
          require_same_dtype(c, 0, 1);
          require_rank(c, 1, 1, "the boundaries");
          return std::vector<ir::Type>{{DType::kI32, c.operand(0).shape}};
        })
        .gradient_zero()
        .reference(bucketize_reference)
        .work([](const ir::Op& op) {
          std::vector<std::string_view> functions;
          for (int64_t left = op.operand(1)->type().elements(); left > 0; left /= 2)
            functions.insert(functions.end(), {"Lt", "select"});
          return std::vector{pass_of(op, std::move(functions))};
        })
        .from_aten({"bucketize.Tensor"}, import_bucketize)
        .samples({{{of(DType::kF32, {2, 3}), of(DType::kF32, {4})}, {}},
                  {{of(DType::kI32, {5}), of(DType::kI32, {7})}, {{"right", true}}, -4, 4}});

}  // namespace
}  // namespace ipu::ops
