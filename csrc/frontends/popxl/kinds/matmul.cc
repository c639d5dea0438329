// Matrix products. Attributes: availableMemoryProportion, outputType and partialsType ("float", "half"), each absent
// where nothing is asked for. Of float8 operands there is input 2: the result is f16, times 2 to the power of it.
#include "frontends/popxl/kinds/float8.h"
#include "frontends/popxl/kinds/parts.h"
#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/published.h"
#include "ops/linear/matrix_product.h"

namespace ipu::popxl {
namespace {

void product(LowerCall& c) {
  if (c.attributes().has("availableMemoryProportion"))
    c.builder().settings.available_memory = c.attributes().real("availableMemoryProportion");
  if (c.attributes().text("partialsType", "float") == "half")
    c.builder().settings.outline.set("matmul_partials", std::string("half"));
  PartsCall parts(c);
  const auto multiplied = [&](ir::Value* a, ir::Value* b) {
    return ops::matrix_product(parts, c.kind().type, a, b);
  };
  auto [a, b] = factors_of(c);
  const DType dtype = device_type(c, "outputType").value_or(c.has(2) ? DType::kF16 : a->type().dtype);
  // A wider result is not rounded to the type of the operands in between.
  if (dtype == DType::kF32) {
    a = c.cast(a, dtype);
    b = c.cast(b, dtype);
  }
  c.set_output(0, c.cast(multiplied(a, b), dtype));
}

const KindRegistration matmul = define_kind("MatMul")
                                    .id("ai.onnx", 9)
                                    .gradients({{0, "LhsGrad", {in(1)}}, {1, "RhsGrad", {in(0)}}})
                                    .refuses_gradient_where(is_of_float8)
                                    .late_types(LateTypes::kLikeFirst)
                                    .lower(product);

const CreatorRegistration matmul_creators = {{
    {"MatMulOp",
     "opid settings availableMemoryProportion:real serialization>*:ignored outputType:number "
     "partialsType:partials"},
}};
const FunctionRegistration matmul_functions = {{
    {"MatMul",
     "matmul_pow2scaled(lhs, rhs, log2_scale:log2, "
     "available_memory_proportion:share>availableMemoryProportion=None) -> matmul_pow2scaled_out; outputType=float16._number, "
     "partialsType='half'",
     R"(lhs @ rhs * 2^log2_scale of float8 operands, as float16.

Args:
    lhs, rhs: as of `matmul`, float8_143 or float8_152, may differ.
    log2_scale: (), int32, in [-32, 32).
    available_memory_proportion: as of `matmul`.

Raises:
    TypeError: an operand is not float8, or `log2_scale` not int32.
    ValueError: `log2_scale` has axes, or the operands are on different IPUs or tile sets.
    popart.popart_exception: shapes do not fit.)",
     "y = ops.matmul_pow2scaled(a, b, popxl.constant(-2, popxl.int32))"},
}};

}  // namespace
}  // namespace ipu::popxl
