#include "ops/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ops/definition/graphcore_nodes.h"
#include "ops/definition/op_def.h"

namespace ipu::ops {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string to_text(const Attribute& value) {
  struct Visitor {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{:g}", v); }
    std::string operator()(const std::string& v) const { return fmt::format("\"{}\"", v); }
    std::string operator()(DType v) const { return std::string(to_string(v)); }
    std::string operator()(const Symbol& v) const { return "@" + v.name; }
    std::string operator()(const ConstantPtr&) const { return "dense"; }
    std::string operator()(const std::vector<int64_t>& v) const { return to_string(v); }
    std::string operator()(const std::vector<double>& v) const {
      std::vector<std::string> parts;
      for (double x : v) parts.push_back(fmt::format("{:g}", x));
      return fmt::format("[{}]", joined(parts));
    }
    std::string operator()(const std::vector<std::string>& v) const { return fmt::format("[{}]", joined(v)); }
    std::string operator()(const std::vector<Symbol>& v) const {
      std::vector<std::string> parts;
      for (const Symbol& s : v) parts.push_back("@" + s.name);
      return fmt::format("[{}]", joined(parts));
    }
  };
  return std::visit(Visitor{}, value);
}

std::string dtypes(DTypeSet set) {
  if (set == kAnything) return "any";
  if (set == (kNumber | kBoolean)) return "number, bool";
  if (set == kNumber) return "number";
  if (set == kAnyFloat) return "float";
  if (set == kAnyInteger) return "integer";
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i)
    if ((set & (1u << i)) != 0) names.emplace_back(to_string(static_cast<DType>(i)));
  return joined(names);
}

std::string signature(const OpDef& def) {
  std::vector<std::string> operands, attributes;
  for (const OperandDef& o : def.operands) {
    const char* mark = o.variadic ? "..." : o.optional ? "?" : "";
    operands.push_back(fmt::format("{}{}: {}", o.name, mark, dtypes(o.dtypes)));
  }
  for (const AttributeDef& a : def.attributes)
    attributes.push_back(a.name + (a.fallback ? "=" + to_text(*a.fallback) : ""));
  return fmt::format("{}({}){} -> {}", def.name, joined(operands),
                     attributes.empty() ? "" : fmt::format(" {{{}}}", joined(attributes)),
                     def.results.empty() ? "()" : joined(def.results));
}

std::string gradient(const OpDef& def) {
  switch (def.gradient_kind) {
    case GradientKind::kNone:
      return "not stated";
    case GradientKind::kRule:
      return "yes";
    case GradientKind::kDecomposition:
      return "of what it decomposes into";
    case GradientKind::kZero:
      return "zero";
    case GradientKind::kRefused:
      return "refused: " + def.gradient_refusal;
  }
  return "";
}

std::string traits(const OpDef& def) {
  static constexpr std::pair<Trait, const char*> kNames[] = {
      {kElementwise, "elementwise"},
      {kMayReuseFirstOperand, "may reuse its first operand"},
      {kCommutative, "commutative"},
      {kSideEffects, "side effects"},
      {kRandom, "random"},
      {kLoss, "loss"},
      {kCompound, "compound"},
      {kReadsShapeOnly, "reads the shape only"},
      {kConvolution, "convolution"},
      {kPooling, "pooling"},
      {kMatmul, "matmul"},
      {kExpensive, "expensive"},
      {kKeepsChannelsLast, "keeps channels last"},
      {kCompletesLoad, "completes a load"}};
  std::vector<std::string> names;
  for (const auto& [trait, name] : kNames)
    if (def.has(trait)) names.emplace_back(name);
  if (def.view) names.emplace_back(def.view->write ? "view" : "view that cannot be written");
  if (def.modifies)
    names.push_back(fmt::format("modifies {}", def.operands[static_cast<size_t>(*def.modifies)].name));
  return joined(names);
}

using ImporterName = std::tuple<std::string, std::string, int>;
ImporterName name_of(const Importer& importer) {
  return {importer.domain, importer.type, importer.versions.since};
}

// Operators by front end, as the page names them. Versions of ONNX that follow each other are one range.
struct Sources {
  std::vector<std::string> aten, onnx, graphcore, tensorflow;
};
Sources sources_of(const std::vector<Importer>& importers) {
  Sources sources;
  std::map<std::string, std::map<int, int>> ranges;
  std::set<std::string> overloads;
  for (const Importer& importer : importers) {
    if (importer.domain == kAten) overloads.insert(fmt::format("`{}`", importer.type));
    if (importer.domain == kGraphcore) sources.graphcore.push_back(fmt::format("`{}`", importer.type));
    if (importer.domain == kTensorflow) sources.tensorflow.push_back(fmt::format("`{}`", importer.type));
    if (importer.domain == kOnnx) ranges[importer.type][importer.versions.since] = importer.versions.until;
  }
  sources.aten.assign(overloads.begin(), overloads.end());
  for (const auto& [type, versions] : ranges) {
    std::vector<std::pair<int, int>> merged;
    for (const auto& [since, until] : versions) {
      if (!merged.empty() && merged.back().second + 1 == since)
        merged.back().second = until;
      else
        merged.emplace_back(since, until);
    }
    for (const auto& [since, until] : merged)
      sources.onnx.push_back(fmt::format("`{}` {} to {}", type, since, until));
  }
  return sources;
}

}  // namespace

std::string catalogue() {
  std::map<std::string, std::vector<const OpDef*>> families;
  for (const OpDef* def : all_ops()) families[def->family].push_back(def);
  std::set<ImporterName> owned;
  std::string text =
      "# Operations\n\n"
      "<!-- Generated from the definitions in csrc/ops by `ipu-ops --catalogue > docs/ops.md`; do not edit. "
      "-->\n\n"
      "Every operation of the IR except the structural ones (`docs/ir.md`), by family. \"number\" is any "
      "float or "
      "integer type; `?` marks an optional operand, `...` any number of operands; attributes show their "
      "defaults. "
      "\"Imported from\" lists the ATen overloads that become this operation alone or with others, \"imported from "
      "ONNX\" the operators of ai.onnx with the versions of that domain. Which samples of its operators that "
      "PyTorch itself tests with pass is said by [operator_samples.md](operator_samples.md).\n";
  for (const auto& [family, defs] : families) {
    text += fmt::format("\n## {}\n", family);
    for (const OpDef* def : defs) {
      text += fmt::format("\n### {}\n\n`{}`\n\n{}\n\n", def->name, signature(*def), def->doc);
      text += fmt::format("- gradient: {}\n", gradient(*def));
      if (const std::string names = traits(*def); !names.empty())
        text += fmt::format("- traits: {}\n", names);
      const Sources sources = sources_of(def->importers);
      if (!sources.aten.empty()) text += fmt::format("- imported from: {}\n", joined(sources.aten));
      if (!sources.onnx.empty()) text += fmt::format("- imported from ONNX: {}\n", joined(sources.onnx));
      if (!sources.graphcore.empty())
        text += fmt::format("- imported from ai.graphcore: {}\n", joined(sources.graphcore));
      if (!sources.tensorflow.empty())
        text += fmt::format("- imported from TensorFlow: {}\n", joined(sources.tensorflow));
      for (const Importer& importer : def->importers) owned.insert(name_of(importer));
    }
  }
  std::vector<Importer> others;
  for (const Importer* importer : all_importers())
    if (!owned.contains(name_of(*importer))) others.push_back(*importer);
  const Sources sources = sources_of(others);
  if (!sources.aten.empty())
    text += fmt::format("\n## Imported as several operations\n\n{}\n", joined(sources.aten));
  if (!sources.onnx.empty())
    text += fmt::format("\n## Imported from ONNX as several operations\n\n{}\n", joined(sources.onnx));
  if (!sources.graphcore.empty())
    text += fmt::format("\n## Imported from ai.graphcore as several operations\n\n{}\n",
                        joined(sources.graphcore));
  if (!sources.tensorflow.empty())
    text += fmt::format("\n## Imported from TensorFlow as several operations\n\n{}\n",
                        joined(sources.tensorflow));
  return text;
}

}  // namespace ipu::ops
