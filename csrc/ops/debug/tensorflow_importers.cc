// Importers of TensorFlow's printing and checking of values. (Assert stands with its op.)
#include <fmt/core.h>

#include <limits>
#include <numeric>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

void print(NodeImportCall& call, ir::Value* x, const std::string& title, int64_t summarize) {
  Attributes attributes{{"title", title},
                        {"separator", std::string(" ")},
                        {"open_bracket", std::string("[")},
                        {"close_bracket", std::string("]")}};
  attributes.set("print_gradient", false);
  if (summarize >= 0) {
    attributes.set("summarise_threshold", int64_t{0});
    attributes.set("edge_items", summarize);
  } else {
    attributes.set("summarise_threshold", x->type().elements());
  }
  call.op("print_tensor", {x}, std::move(attributes));
}

// The pieces of a template between tensors are the titles of those behind them.
void import_print(NodeImportCall& call) {
  for (const char* name : {"U", "end", "output_stream", "placeholder"}) call.ignore(name);
  if (call.integer("first_n", -1) >= 0)
    call.unsupported("first_n: the program counts no runs; leave it out, or print on the host");
  const int64_t summarize = call.integer("summarize", 3);
  const std::vector<std::string> titles = call.texts("titles");
  const bool hands_on = call.result_count() > 0;  // operand 0, which is not printed
  const int first = hands_on ? 1 : 0;
  if (std::ssize(titles) != call.operand_count() - first)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("attribute mismatch: {} has {} titles for {} tensors.", call.described(),
                            titles.size(), call.operand_count() - first));
  for (size_t i = 0; i < titles.size(); ++i)
    print(call, call.operand(first + static_cast<int>(i)), titles[i], summarize);
  if (hands_on) call.set_result(0, call.operand(0));
}

void import_check(NodeImportCall& call) {
  const Term x = term(call, 0);
  const Term finite = absolute(x) < std::numeric_limits<double>::infinity();
  Shape all(x.value()->type().shape.size());
  std::iota(all.begin(), all.end(), 0);
  ir::Value* condition =
      all.empty() ? finite.value() : finite.op("reduce_all", {{"dims", all}, {"keep_dims", false}}).value();
  Attributes attributes;
  attributes.set("message", call.text("message") + " : Tensor had Inf or NaN values");
  call.op("assertion", {condition}, std::move(attributes));
  call.set_result(0, x.value());
}

struct DebugTensorflowImporters {
  DebugTensorflowImporters() {
    register_tensorflow_importer("Print", import_print);
    register_tensorflow_importer("PrintV2", import_print);
    register_tensorflow_importer("CheckNumerics", import_check);
    register_tensorflow_importer("CheckNumericsV2", import_check);
  }
};
const DebugTensorflowImporters debug_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
