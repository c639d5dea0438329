// PrintTensor: the identity that shows its value. Attributes: printSelf, printGradient, title, summariseThreshold,
// edgeItems, maxLineWidth, digits, floatFormat, separator, openBracket, closeBracket.
#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

void print(LowerCall& c) {
  const Attributes& from = c.attributes();
  if (!flag(from, "printSelf", true)) return c.set_output(0, c.build("nop", {c.input(0)}));
  Attributes attributes{{"title", from.text("title", "")}, {"print_gradient", false}};
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"summariseThreshold", "summarise_threshold"},
      {"edgeItems", "edge_items"},
      {"maxLineWidth", "max_line_width"},
      {"digits", "digits"},
      {"floatFormat", "float_format"},
      {"separator", "separator"},
      {"openBracket", "open_bracket"},
      {"closeBracket", "close_bracket"}};
  for (const auto& [published, ours] : kNames)
    if (const Attribute* value = from.find(published)) attributes.set(ours, *value);
  const DType dtype = c.type(0).dtype;
  if (dtype != DType::kF8_143 && dtype != DType::kF8_152)
    return c.set_output(0, c.build("print_tensor", {c.input(0)}, attributes));
  // 8-bit floats are shown as values, not as codes.
  c.build("print_tensor", {c.build("from_float8", {c.input(0), nullptr}, {{"dtype", DType::kF32}})},
          attributes);
  c.set_output(0, c.build("nop", {c.input(0)}));
}

// The same op on the gradient, which shows it where that is asked for.
const KindRegistration print_tensor_kind =
    define_kind("PrintTensor")
        .graphcore()
        .side_effect()
        .gradient_is("PrintTensor",
                     [](const Op& forward) {
                       Attributes attributes = forward.attributes;
                       const bool prints = flag(attributes, "printGradient", false);
                       attributes.set("title", attributes.text("title", "") + "_gradient");
                       attributes.set("printSelf", prints);
                       return attributes;
                     })
        .lower(print);

const CreatorRegistration print_tensor_creators = {{
    {"PrintTensorOp", "opid printSelf:bool printGradient:bool title:text fmt>*:format settings"},
}};
const FunctionRegistration print_tensor_functions = {{
    {"PrintTensor",
     "print_tensor(t, title:text=None, print_self:bool>printSelf=True, "
     "print_gradient:bool>printGradient=False, summarise_threshold:whole>summariseThreshold=1000, "
     "edge_items:whole>edgeItems=3, max_line_width:whole>maxLineWidth=75, digits:whole=8, "
     "float_format:name='auto', separator:character=' ', open_bracket:character>openBracket='[', "
     "close_bracket:character>closeBracket=']') -> print_{t.name}; title=f'print_{t.name}' if title is None else title, "
     "floatFormat=FLOAT_FORMATS[float_format] if digits != 0 else 'none'",
     R"(A copy of `t` that is written to stderr each time the op runs, on each replica.

Args:
    t: any shape and dtype.
    title: what is written before; None: "print_<name of t>". That of the gradient is "<title>_gradient".
    print_self: write `t`.
    print_gradient: write the gradient, where the returned tensor is used and has one.
    summarise_threshold: tensors of more elements show `edge_items` at each end; 0: never.
    edge_items: elements at each end.
    max_line_width: lines are broken there; 0: nowhere.
    digits: after the point; 0: columns are not aligned and float_format is "none".
    float_format: "auto", "fixed", "scientific" or "none".
    separator, open_bracket, close_bracket: one character each.

Returns:
    As `t`. Where nobody uses it, no gradient is printed.

Raises:
    KeyError: another float_format.
    ValueError: not one character.)",
     "x = ops.print_tensor(x, \"activations\")"},
}};

}  // namespace
}  // namespace ipu::popxl
