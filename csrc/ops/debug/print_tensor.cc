// print_tensor: the identity that shows its value while the program runs.
#include <fmt/core.h>

#include "kernels/debug/tensor_text.h"
#include "ops/definition/node_import_call.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

const std::initializer_list<std::string_view> kFormats = {"auto", "fixed", "scientific", "none"};

// Returns the attributes of the op that prints the gradient. The title of that op's own gradient is the default one.
Attributes attributes_of_gradient(const Attributes& from) {
  Attributes attributes = from;
  const std::string title = from.text("gradient_title", "");
  attributes.set("title", title.empty() ? from.text("title", "") + "_gradient" : title);
  attributes.erase("gradient_title");
  return attributes;
}

void import_print_tensor(AtenImportCall& call) {
  Attributes attributes;
  for (const char* name : {"title", "float_format", "separator", "open_bracket", "close_bracket"})
    attributes.set(name, call.text(name));
  for (const char* name : {"summarise_threshold", "edge_items", "max_line_width", "digits"})
    attributes.set(name, call.integer(name));
  attributes.set("print_gradient", call.boolean("print_gradient"));
  call.set_result(0, call.op("print_tensor", {call.tensor("x")}, attributes));
}

// An effect: nothing reads what the op gives.
void import_print(NodeImportCall& call) {
  call.op("print_tensor", {call.operand(0)}, {{"title", call.text("title")}, {"print_gradient", false}});
}

const OpRegistration print_tensor =
    define_op("print_tensor", "debug")
        .doc(
            "x; writes `title: x` to stderr each time it runs. print_gradient: the gradient is printed, too, "
            "as `title_gradient` or as gradient_title. aligned: the elements are filled up to the widest one, and dimensions "
            "that are open stand under each other.")
        .operand("x", kAnything)
        .attribute("title", std::string())
        .attribute("print_gradient", true)
        .attribute("gradient_title", std::string())
        .attribute("aligned", false)
        .attribute("summarise_threshold", int64_t{1000})
        .attribute("edge_items", int64_t{3})
        .attribute("max_line_width", int64_t{80})
        .attribute("digits", int64_t{4})
        .attribute("float_format", std::string("auto"))
        .attribute("separator", std::string(","))
        .attribute("open_bracket", std::string("("))
        .attribute("close_bracket", std::string(")"))
        .result("y")
        .traits(kSideEffects | kMayReuseFirstOperand)
        .infer([](const InferContext& c) {
          one_of(c, "float_format", kFormats);
          for (const char* name : {"summarise_threshold", "edge_items", "max_line_width", "digits"})
            if (c.attributes.integer(name, 1) < 0)
              attribute_error(std::string(name) + " must not be negative");
          if (c.attributes.integer("digits", 4) > kernels::kMaxDigits)
            attribute_error(fmt::format("digits must be at most {}", kernels::kMaxDigits));
          return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(0).shape}};
        })
        .gradient([](GradientBuilder& g) {
          if (!g.attributes().boolean("print_gradient", true)) return g.set(0, g.upstream());
          g.set(0, g.op("print_tensor", {g.upstream()}, attributes_of_gradient(g.attributes())));
        })
        .reference([](ReferenceCall& call) { call.result(0).values = call.operand(0).values; })
        .work(one_pass({""}))  // into the stream; what the host does with it is its own
        .from_aten({"poptorch::print_tensor"}, import_print_tensor)
        .samples({{{ir::Type{DType::kF32, {2, 3}}}, {}},
                  {{ir::Type{DType::kI32, {4}}}, {{"title", std::string("counts")}, {"aligned", true}}}});

struct PrintImporters {
  PrintImporters() { register_tensorflow_importer("Print", import_print, kIpu); }
};
const PrintImporters print_importers;

}  // namespace
}  // namespace ipu::ops
