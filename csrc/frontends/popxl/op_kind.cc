#include "frontends/popxl/op_kind.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "support/error.h"

namespace ipu::popxl {
namespace {

// By type. Never destroyed: programs may be used while the process ends.
std::map<std::string, std::unique_ptr<OpKind>, std::less<>>& table() {
  static auto* kinds = new std::map<std::string, std::unique_ptr<OpKind>, std::less<>>;
  return *kinds;
}

void add(OpKind kind) {
  auto& slot = table()[kind.type];
  if (slot != nullptr) {
    // Several forward ops share a gradient op (UnaryZeroGrad); two rows of one type do not.
    IPU_CHECK(kind.is_gradient && slot->is_gradient, "two rows for the op type " + kind.type);
    return;
  }
  slot = std::make_unique<OpKind>(std::move(kind));
}

std::string gradient_class(const OpKind& kind, const GradientRow& row) {
  const std::string& own = kind.class_name;
  if (!row.class_name.empty()) return row.class_name;
  if (!row.type.starts_with(kind.type) || !own.ends_with("Op")) return row.type + "Op";
  return own.substr(0, own.size() - 2) + row.type.substr(kind.type.size()) + "Op";
}

// The op type that computes what `kind` does and writes it to an input. The other inputs broadcast to that one, never the other way
// round.
OpKind overwriting(const OpKind& kind, const InPlace& twin) {
  OpKind made;
  made.type = twin.type;
  made.class_name = twin.type + "Op";
  made.domain = "ai.graphcore";
  made.modifies = {twin.input};
  made.elementwise = kind.elementwise;
  made.operands = kind.operands;
  made.late_types = kind.late_types;
  made.lower = [rule = kind.lower, input = twin.input](LowerCall& c) {
    rule(c);
    ir::Value* y = c.outputs().at(0);
    if (y->type() != c.type(input))
      c.refuse(fmt::format("the result is {}, and input {}, which takes it, is {}", ir::to_string(y->type()),
                           input, ir::to_string(c.type(input))));
    c.overwrite(input, y);
  };
  return made;
}

}  // namespace

const OpKind* find_kind(std::string_view type) {
  const auto found = table().find(type);
  return found == table().end() ? nullptr : found->second.get();
}

const OpKind& kind_of(std::string_view type) {
  const OpKind* kind = find_kind(type);
  IPU_CHECK(kind != nullptr, "no row for the op type " + std::string(type));
  return *kind;
}

std::vector<const OpKind*> all_kinds() {
  std::vector<const OpKind*> kinds;
  for (const auto& [type, kind] : table()) kinds.push_back(kind.get());
  return kinds;
}

const TensorInfo& InferCall::input(int i) const {
  const Tensor* tensor = op_.input(i);
  if (tensor == nullptr)
    throw Error(ErrorCode::kTypeMismatch,
                "missing input: " + op_.kind().type + " has no input " + std::to_string(i));
  return tensor->info;
}

KindBuilder::KindBuilder(std::string type) {
  kind_.class_name = type + "Op";
  kind_.type = std::move(type);
}
KindBuilder& KindBuilder::class_name(std::string name) {
  kind_.class_name = std::move(name);
  return *this;
}
KindBuilder& KindBuilder::id(std::string domain, int version) {
  kind_.domain = std::move(domain);
  kind_.version = version;
  return *this;
}
KindBuilder& KindBuilder::modifies(std::vector<int> inputs) {
  kind_.modifies = std::move(inputs);
  return *this;
}
KindBuilder& KindBuilder::views(std::vector<int> inputs) {
  kind_.views = std::move(inputs);
  return *this;
}
KindBuilder& KindBuilder::elementwise(Elementwise values, int operands) {
  kind_.elementwise = values;
  kind_.operands = operands;
  return *this;
}
KindBuilder& KindBuilder::function(std::string op, int operands, Attributes attributes) {
  elementwise(Elementwise::kNumbers, operands);
  return lower([op = std::move(op), operands, attributes = std::move(attributes)](LowerCall& c) {
    std::vector<ir::Value*> inputs;
    for (int i = 0; i < operands; ++i) inputs.push_back(c.input(i));
    c.set_output(0, c.build(op, inputs, attributes));
  });
}
KindBuilder& KindBuilder::predicate(std::string op, int operands) {
  return function(std::move(op), operands).elementwise(Elementwise::kBooleans, operands);
}
KindBuilder& KindBuilder::in_place(std::string suffix, int input) {
  kind_.in_place.push_back({input, kind_.type + suffix});
  return *this;
}
KindBuilder& KindBuilder::optimizer() {
  kind_.is_optimizer = true;
  return *this;
}
KindBuilder& KindBuilder::side_effect() {
  kind_.has_side_effect = true;
  return *this;
}
KindBuilder& KindBuilder::gradient(std::vector<Consumed> consumed) {
  return gradient_row({{0}, kind_.type + "Grad", std::move(consumed)});
}
KindBuilder& KindBuilder::gradients(std::vector<Argument> arguments) {
  for (Argument& argument : arguments)
    gradient_row({{argument.input}, kind_.type + argument.suffix, std::move(argument.consumed)});
  return *this;
}
KindBuilder& KindBuilder::gradient_row(GradientRow row) {
  kind_.differentiable = Differentiable::kYes;
  kind_.gradients.push_back(std::move(row));
  return *this;
}
KindBuilder& KindBuilder::zero_gradient() {
  kind_.differentiable = Differentiable::kZero;
  kind_.gradients = {{{0}, "UnaryZeroGrad", {}}};
  return *this;
}
KindBuilder& KindBuilder::refuses_gradient() {
  kind_.differentiable = Differentiable::kRefused;
  return *this;
}
KindBuilder& KindBuilder::gradient_is(std::string type, std::function<Attributes(const Op&)> attributes) {
  return gradient_row({{0}, std::move(type), {}, nullptr, std::move(attributes)});
}
KindBuilder& KindBuilder::refuses_gradient_where(std::function<std::string(const Op&)> why) {
  kind_.why_no_gradient = std::move(why);
  return *this;
}
KindBuilder& KindBuilder::stops_gradient_where(std::function<bool(const Op&)> stops) {
  kind_.stops_gradient = std::move(stops);
  return *this;
}
KindBuilder& KindBuilder::index_output(int output) {
  kind_.index_output = output;
  return *this;
}
KindBuilder& KindBuilder::late_types(LateTypes types) {
  kind_.late_types = types;
  return *this;
}
KindBuilder& KindBuilder::infer(std::function<void(InferCall&)> rule) {
  kind_.infer = std::move(rule);
  return *this;
}
KindBuilder& KindBuilder::lower(std::function<void(LowerCall&)> rule) {
  kind_.lower = std::move(rule);
  return *this;
}
KindBuilder& KindBuilder::lower_gradient(std::function<void(LowerCall&)> rule) {
  kind_.lower_gradient = std::move(rule);
  return *this;
}

KindRegistration::KindRegistration(const KindBuilder& builder) {
  const OpKind& kind = builder.kind_;
  for (const GradientRow& row : kind.gradients) {
    if (row.attributes) continue;  // an op with a row of its own
    OpKind gradient;
    gradient.type = row.type;
    gradient.class_name = gradient_class(kind, row);
    gradient.domain = "ai.graphcore";
    gradient.is_gradient = true;
    add(std::move(gradient));
  }
  for (const InPlace& twin : kind.in_place) add(overwriting(kind, twin));
  add(kind);
}

}  // namespace ipu::popxl
