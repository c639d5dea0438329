// Importers of ONNX's random tensors and of its dropout: a program that trains drops, one that does not gives x. From version 12 on the node
// itself says whether it may drop.
#include <fmt/core.h>

#include <tuple>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/random/random_support.h"

namespace ipu::ops {
namespace {

void import_dropout(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  double ratio = 0.5;
  bool drops = call.is_training();
  if (call.version() < 12) {
    ratio = call.real("ratio", ratio);
    if (call.version() < 7) drops = call.integer("is_test", 0) == 0 && drops;
  } else {
    call.ignore("seed");  // the program's seed is given to it as it runs
    if (call.has_operand(1)) ratio = call.operand_real(1, "ratio");
    drops = call.has_operand(2) && call.operand_real(2, "training_mode") != 0.0 && drops;
  }
  if (!(ratio >= 0.0 && ratio < 1.0))
    call.unsupported(fmt::format("a ratio of {:g}; it is in [0, 1)", ratio));
  if (!drops || ratio == 0.0) {
    call.set_result(0, call.op("nop", {x}));
    if (call.has_result(1)) call.set_result(1, call.builder().splat({DType::kBool, x->type().shape}, 1.0));
    return;
  }
  const Attributes attributes{{"p", ratio}, {"stream_id", call.next_stream()}};
  if (!call.has_result(1)) return call.set_result(0, call.op("dropout", {x, call.seed()}, attributes));
  // What it makes of ones says which are kept.
  ir::Value* factor = call.op("dropout", {call.builder().splat(x->type(), 1.0), call.seed()}, attributes);
  call.set_result(0, call.op("mul", {x, factor}));
  call.set_result(1, call.op("not_equal", {factor, call.builder().scalar(x->type().dtype, 0.0)}));
}

void import_random(NodeImportCall& call, const char* kind, bool is_like) {
  if (call.has("seed"))
    call.unsupported("attribute 'seed'; numbers follow from the seed of the program (setRandomSeed)");
  const DType own = is_like ? call.operand(0)->type().dtype : DType::kF32;
  const DType dtype = call.has("dtype") ? onnx_dtype(call, call.integer("dtype")) : own;
  if (!is_floating_point(dtype)) call.unsupported(fmt::format("random numbers of {}", to_string(dtype)));
  Shape shape = is_like ? call.operand(0)->type().shape : call.integers("shape");
  Attributes attributes{{"shape", std::move(shape)}, {"dtype", dtype}, {"stream_id", call.next_stream()}};
  const bool is_normal = std::string_view(kind) == "random_normal";
  attributes.set(is_normal ? "mean" : "low", call.real(is_normal ? "mean" : "low", 0.0));
  attributes.set(is_normal ? "std" : "high", call.real(is_normal ? "scale" : "high", 1.0));
  call.set_result(0, call.op(kind, {call.seed()}, std::move(attributes)));
}

struct RandomOnnxImporters {
  RandomOnnxImporters() {
    register_onnx_importer("Dropout", {6}, import_dropout);
    for (const auto& [type, kind, is_like] : {std::tuple{"RandomNormal", "random_normal", false},
                                              {"RandomNormalLike", "random_normal", true},
                                              {"RandomUniform", "random_uniform", false},
                                              {"RandomUniformLike", "random_uniform", true}})
      register_onnx_importer(type, {6, 11}, [kind = kind, is_like = is_like](NodeImportCall& c) {
        import_random(c, kind, is_like);
      });
  }
};
const RandomOnnxImporters random_onnx_importers;

const PopartOperators random_popart = {{
    {"Dropout", "6 7 10", "data:F", "output:F mask:BOOL", "yes", "is_test ratio"},
    {"RandomNormal", "1", "", "output:F", "none", "shape dtype mean scale"},
    {"RandomUniform", "1", "", "output:F", "none", "shape dtype high low"},
    {"RandomNormalLike", "1", "input:NB", "output:F", "none", "dtype mean scale"},
    {"RandomUniformLike", "1", "input:NB", "output:F", "none", "dtype high low"},
}};

}  // namespace
}  // namespace ipu::ops
