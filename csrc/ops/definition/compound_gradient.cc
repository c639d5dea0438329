// "<name>_gradient" of compounds: how the forward op asks for it, what it stands for, and its definition.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ops/definition/composer.h"
#include "ops/definition/decomposition.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

constexpr std::string_view kWants = "wants";

Attributes without_wants(Attributes attributes) {
  attributes.erase(kWants);
  return attributes;
}

}  // namespace

CompoundGradient::CompoundGradient(const ir::Op& op)
    : op_(op),
      forward_(get_op(definition(op)->gradient_of->kind)),
      saved_(definition(op)->gradient_of->saved) {}

std::vector<ir::Value*> CompoundGradient::forward_operands() const {
  std::vector<ir::Value*> operands;
  for (size_t i = 0; i < forward_.operands.size(); ++i) operands.push_back(operand(i));
  return operands;
}

ir::Value* CompoundGradient::operand(size_t i) const {
  return i < static_cast<size_t>(op_.operand_count()) ? op_.operand(static_cast<int>(i)) : nullptr;
}

Attributes CompoundGradient::forward_attributes() const { return without_wants(op_.attributes); }

bool CompoundGradient::is_of(const Parts& forward) const {
  for (size_t s = 0; s < saved_.size(); ++s)
    if (saved(s) != forward.results[static_cast<size_t>(saved_[s])]) return false;
  return true;
}

bool CompoundGradient::repeats_operand() const {
  std::unordered_set<const ir::Value*> seen;
  for (const ir::Value* operand : forward_operands())
    if (operand != nullptr && !seen.insert(operand).second) return true;
  return false;
}

std::vector<ir::Value*> decompose_gradient(ir::Op& op, const Parts* forward) {
  const CompoundGradient gradient(op);
  Composer composer(op);
  ir::Builder& builder = composer.builder();
  const std::vector<int64_t>& wants = composer.attributes().integers(kWants);
  const OpDef& def = gradient.forward_;
  if (def.gradient_parts)
    if (std::vector<ir::Value*> results = def.gradient_parts(composer); !results.empty()) return results;
  std::vector<bool> needs(def.operands.size(), false);
  for (const int64_t i : wants) needs[static_cast<size_t>(i)] = true;
  std::vector<ir::Value*> upstream;
  for (size_t i = 0; i < def.results.size(); ++i)
    upstream.push_back(gradient.saved(gradient.saved_.size() + i));

  Repeated made;
  std::unordered_map<ir::Value*, ir::Value*> known;  // results made again, as they were saved
  if (forward != nullptr) {
    made = {*forward, gradient.forward_operands()};
  } else {
    const std::vector<ir::Value*> operands = gradient.forward_operands();
    const Attributes attributes = gradient.forward_attributes();
    made = repeat(builder, def.name, operands, attributes, infer_types(def.name, operands, attributes));
    for (size_t s = 0; s < gradient.saved_.size(); ++s)
      if (ir::Value* saved = gradient.saved(s))
        known[made.parts.results[static_cast<size_t>(gradient.saved_[s])]] = saved;
  }
  const auto fetch = [&](ir::Value* value) {
    auto at = known.find(value);
    return at == known.end() ? value : at->second;
  };
  const std::vector<ir::Value*> gradients =
      gradients_of_parts(made.parts, upstream, made.wanted(needs), builder, fetch);
  std::vector<ir::Value*> results;
  for (const int64_t i : wants) {
    ir::Value* result = gradients[static_cast<size_t>(i)];
    results.push_back(result != nullptr ? result
                                        : builder.splat(op.operand(static_cast<int>(i))->type(), 0.0));
  }
  if (forward != nullptr) return results;
  // Replaces saved results of the repeated forward pass, then erases its ops that no gradient reads.
  for (size_t s = 0; s < gradient.saved_.size(); ++s)
    if (ir::Value* saved = gradient.saved(s))
      made.parts.results[static_cast<size_t>(gradient.saved_[s])]->replace_all_uses_with(saved);
  erase_unused(made.parts, results);
  return results;
}

std::function<void(GradientBuilder&)> emit_compound_gradient(const std::string& kind,
                                                             std::vector<int> saved) {
  return [kind, saved = std::move(saved)](GradientBuilder& g) {
    const OpDef& forward = get_op(kind);
    std::vector<ir::Value*> operands;
    std::vector<int64_t> wants;
    for (int i = 0; i < static_cast<int>(forward.operands.size()); ++i) {
      operands.push_back(g.has_operand(i) ? g.operand(i) : nullptr);
      if (operands.back() != nullptr && g.needs(i)) wants.push_back(i);
    }
    if (wants.empty()) return;
    for (const int i : saved) operands.push_back(g.result(i));
    for (int i = 0; i < static_cast<int>(forward.results.size()); ++i) operands.push_back(g.upstream(i));
    Attributes attributes = g.attributes();
    attributes.set(kWants, wants);
    const ir::Op* op = build_op(g.builder(), kind + "_gradient", operands, std::move(attributes));
    for (size_t i = 0; i < wants.size(); ++i)
      g.set(static_cast<int>(wants[i]), op->result(static_cast<int>(i)));
  };
}

namespace {

// Types of the results of the forward op, as its own rule gives them.
std::vector<ir::Type> forward_types(const OpDef& forward, const InferContext& c) {
  InferContext inner{forward.name, {}, c.attributes};
  for (size_t i = 0; i < forward.operands.size(); ++i)
    inner.operands.push_back(i < c.operands.size() ? c.operands[i] : nullptr);
  return forward.infer(inner);
}

void require_type(const InferContext& c, int i, const std::string& name, const ir::Type& type) {
  if (!c.has(i) || (c.operand(i).shape == type.shape && c.operand(i).dtype == type.dtype)) return;
  shape_error(fmt::format("{} is {}, the result of the forward op {}", name, ir::to_string(c.operand(i)),
                          ir::to_string(type)));
}

std::vector<ir::Type> gradient_types(const InferContext& c) {
  const OpDef& def = get_op(c.kind);
  const OpDef& forward = get_op(def.gradient_of->kind);
  const std::vector<ir::Type> results = forward_types(forward, c);
  auto at = static_cast<int>(forward.operands.size());
  for (const int s : def.gradient_of->saved) {
    require_type(c, at, def.operands[static_cast<size_t>(at)].name, results[static_cast<size_t>(s)]);
    ++at;
  }
  for (const ir::Type& result : results) {
    require_type(c, at, def.operands[static_cast<size_t>(at)].name, result);
    ++at;
  }
  std::vector<ir::Type> types;
  for (const int64_t i : dimensions(c, kWants, forward.operands.size())) {
    if (!c.has(static_cast<int>(i)) || !is_floating_point(c.operand(static_cast<int>(i)).dtype))
      attribute_error(fmt::format("wants={} names operand {}, which is absent or has no gradient",
                                  to_string(c.attributes.integers(kWants)), i));
    types.push_back({c.operand(static_cast<int>(i)).dtype, c.operand(static_cast<int>(i)).shape});
  }
  return types;
}

// The samples of the forward op, with values of saved results that any op takes.
std::vector<Sample> gradient_samples(const OpDef& forward, const std::vector<int>& saved) {
  std::vector<Sample> samples;
  for (const Sample& of : forward.samples) {
    Sample sample = of;
    std::vector<const ir::Type*> operands;
    std::vector<int64_t> wants;
    sample.operands.resize(forward.operands.size());
    for (size_t i = 0; i < sample.operands.size(); ++i) {
      operands.push_back(sample.operands[i] ? &*sample.operands[i] : nullptr);
      if (sample.operands[i] && is_floating_point(sample.operands[i]->dtype))
        wants.push_back(static_cast<int64_t>(i));
    }
    const Attributes attributes = with_defaults(forward, sample.attributes);
    const std::vector<ir::Type> results = forward.infer({forward.name, operands, attributes});
    for (const int s : saved) {
      sample.range[static_cast<int>(sample.operands.size())] = {0.5, 1.5};
      sample.operands.emplace_back(results[static_cast<size_t>(s)]);
    }
    for (const ir::Type& result : results) {
      sample.range[static_cast<int>(sample.operands.size())] = {-1.0, 1.0};
      sample.operands.emplace_back(is_floating_point(result.dtype) ? std::optional<ir::Type>(result)
                                                                   : std::nullopt);
    }
    sample.attributes.set(kWants, wants);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

OpDef gradient_of_compound(const OpDef& forward, const std::vector<std::string>& saved) {
  GradientOf of{forward.name, {}};
  OpDefBuilder builder(forward.name + "_gradient", forward.family);
  builder.doc(
      fmt::format("Gradients of {} for the operands numbered in wants, from its operands{} and the "
                  "gradients of its results.",
                  forward.name, saved.empty() ? "" : ", what it saved"));
  for (const OperandDef& operand : forward.operands) {
    IPU_CHECK(!operand.variadic, "gradient_by_decomposition of '" + forward.name + "', which is variadic");
    operand.optional ? builder.optional_operand(operand.name, operand.dtypes)
                     : builder.operand(operand.name, operand.dtypes);
  }
  for (const std::string& name : saved) {
    auto at = std::find(forward.results.begin(), forward.results.end(), name);
    IPU_CHECK(at != forward.results.end(), "'" + forward.name + "' has no result '" + name + "' to save");
    of.saved.push_back(static_cast<int>(at - forward.results.begin()));
    builder.optional_operand(name, kAnyFloat | kBoolean);
  }
  for (const std::string& result : forward.results) builder.optional_operand("d_" + result, kAnyFloat);
  for (const AttributeDef& attribute : forward.attributes) {
    attribute.fallback ? builder.attribute(attribute.name, *attribute.fallback)
                       : builder.attribute(attribute.name);
  }
  builder.attribute(std::string(kWants))
      .result("gradients...")
      .traits(forward.traits & (kRandom | kExpensive))
      .infer(gradient_types)
      .decompose([](ir::Op& op) { return decompose_gradient(op, nullptr); })
      .kernels([](const ir::Op&) { return std::vector<KernelChoice>{}; })
      .samples(gradient_samples(forward, of.saved));
  OpDef def = builder.take();
  def.gradient_of = std::move(of);
  return def;
}

}  // namespace ipu::ops
