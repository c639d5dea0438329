// Importer of ai.graphcore's PrintTensor.
#include <fmt/core.h>

#include "ir/tensor_names.h"
#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// Characters are the texts' only ones; the title is the name of what is printed unless the node has one.
void import_print_tensor(NodeImportCall& call) {
  Attributes attributes;
  const std::string name = call.operand_name(0), title = call.text("title", "");
  attributes.set("title", title.empty() ? name : title);
  attributes.set("print_gradient", flag_of(call, "print_gradient", true));
  attributes.set("gradient_title", title.empty() ? ir::kGradientPrefix + name : title + "_gradient");
  attributes.set("aligned", true);
  static constexpr std::tuple<const char*, const char*, int64_t> kNumbers[] = {
      {"summariseThreshold", "summarise_threshold", 1000},
      {"edgeItems", "edge_items", 3},
      {"maxLineWidth", "max_line_width", 75},
      {"digits", "digits", 8}};
  for (const auto& [published, ours, fallback] : kNumbers) {
    const int64_t value = call.integer(published, fallback);
    if (value < 0) node_attribute_error(call, fmt::format("has {} = {}; it is at least 0", published, value));
    attributes.set(ours, value);
  }
  static constexpr const char* kFormats[] = {"auto", "fixed", "scientific", "none"};
  const int64_t format = call.integer("floatFormat", 0);
  if (format < 0 || format > 3)
    node_attribute_error(call, fmt::format("has floatFormat {}; it is 0 to 3", format));
  attributes.set("float_format", std::string(kFormats[format]));
  static constexpr std::tuple<const char*, const char*, const char*> kCharacters[] = {
      {"separator", "separator", " "},
      {"openBracket", "open_bracket", "["},
      {"closeBracket", "close_bracket", "]"}};
  for (const auto& [published, ours, fallback] : kCharacters) {
    const std::string text = call.text(published, fallback);
    if (text.size() != 1)
      node_attribute_error(call, fmt::format("has {} = \"{}\"; it is one character", published, text));
    attributes.set(ours, text);
  }
  call.set_result(0, call.op("print_tensor", {call.operand(0)}, attributes));
}

struct DebugGraphcoreImporters {
  DebugGraphcoreImporters() {
    register_graphcore_importer(
        {"PrintTensor", "printtensor", "x:NB", "y=:NB", "yes",
         "print_gradient:flag=1, debugContext:debug='', title:string='', summariseThreshold:int=1000, "
         "edgeItems:int=3, maxLineWidth:int=75, digits:int=8, floatFormat:int([0-3])=0, "
         "separator:string(.)=' ', openBracket:string(.)='[', closeBracket:string(.)=']'",
         "The input, which is printed on stderr each time."},
        import_print_tensor);
  }
};
const DebugGraphcoreImporters debug_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
