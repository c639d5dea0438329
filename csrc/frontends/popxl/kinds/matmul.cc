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

}  // namespace
}  // namespace ipu::popxl
