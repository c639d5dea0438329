// Sign and rounding to whole numbers.
#include <cmath>

#include "ops/definition/family.h"
#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"

namespace ipu::ops {
namespace {

const OpRegistration neg =
    unary_op("neg", "arithmetic", "-x; integers wrap.", Func::kNeg, kNumber)
        .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) { return g.neg(dy); }))
        .from_aten({"neg"})
        .from_onnx("Neg", {6})
        .from_tensorflow({"Neg"})
        .samples(unary_samples())
        .samples({{{i32({9})}, {}, -9, 9, {}}});

const OpRegistration abs =
    unary_op("abs", "arithmetic", "The magnitude of x. Its gradient at 0 is 0.", Func::kAbs, kNumber)
        .gradient(unary_gradient(
            [](GradientBuilder& g, ir::Value* dy) { return g.mul(dy, g.op("sign", {g.operand(0)})); }))
        .from_aten({"abs"})
        .from_onnx("Abs", {6})
        .from_tensorflow({"Abs"})
        .samples(unary_samples())
        .samples({{{i32({9})}, {}, -9, 9, {}}});

const OpRegistration sign = unary_op("sign", "arithmetic", "-1, 0 or 1; 0 for NaN.", Func::kSign, kNumber)
                                .gradient_zero()
                                .from_aten({"sign", "sgn"})
                                .from_onnx("Sign", {9}, flat_importer("sign"))
                                .from_tensorflow({"Sign"})
                                .samples(unary_samples())
                                .samples({{{i32({9})}, {}, -9, 9, {}}});

const OpRegistration floor =
    unary_op("floor", "arithmetic", "The largest whole number not above x.", Func::kFloor, kNumber)
        .gradient_zero()
        .from_aten({"floor"})
        .from_onnx("Floor", {6}, flat_importer("floor"))
        .from_tensorflow({"Floor"})
        .samples(unary_samples());

const OpRegistration ceil =
    unary_op("ceil", "arithmetic", "The smallest whole number not below x.", Func::kCeil, kNumber)
        .gradient_zero()
        .from_aten({"ceil"})
        .from_onnx("Ceil", {6}, flat_importer("ceil"))
        .from_tensorflow({"Ceil"})
        .samples(unary_samples());

const OpRegistration round =
    unary_op("round", "arithmetic", "The nearest whole number, ties to even.", Func::kRound, kNumber)
        .gradient_zero()
        .from_aten({"round"})
        .from_aten({"round.decimals"},
                   [](AtenImportCall& c) {
                     const int64_t decimals = c.integer("decimals");
                     const DType dtype = c.result_type(0).dtype;
                     if (decimals == 0) return c.set_result(0, c.op("round", {c.tensor("self")}));
                     // A half holds no large power of ten.
                     const DType wide = dtype == DType::kF16 ? DType::kF32 : dtype;
                     ir::Value* ten = c.builder().scalar(wide, std::pow(10.0, std::abs(decimals)));
                     const char *there = decimals > 0 ? "mul" : "div", *back = decimals > 0 ? "div" : "mul";
                     ir::Value* x = c.op(there, {c.cast(c.tensor("self"), wide), ten});
                     c.set_result(0, c.cast(c.op(back, {c.op("round", {x}), ten}), dtype));
                   })
        .from_tensorflow({"Rint", "Round"})
        .samples(unary_samples());

const OpRegistration trunc = unary_op("trunc", "arithmetic", "x without its fraction.", Func::kTrunc, kNumber)
                                 .gradient_zero()
                                 .from_aten({"trunc"})
                                 .from_aten({"frac"},
                                            [](AtenImportCall& c) {
                                              ir::Value* x = c.tensor("self");
                                              c.set_result(0, c.op("sub", {x, c.op("trunc", {x})}));
                                            })
                                 .samples(unary_samples());

const PopartOperators sign_popart = {{
    {"Abs", "6", "X:A", "Y:A"},
    {"Ceil Floor", "1 6", "X:F", "Y:F", "zero"},
    {"Neg", "6", "X:INT8,INT16,INT32,INT64,FLOAT,FLOAT16", "Y:INT8,INT16,INT32,INT64,FLOAT,FLOAT16"},
    {"Sign", "9", "X:N", "Y:N", "zero"},
}};

}  // namespace
}  // namespace ipu::ops
