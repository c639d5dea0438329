// Construction and registry of op definitions. What follows from an expression tree (reference value, VM
// code, type, cost) is filled in when a definition is registered, so a family file states only what is its
// own.
#include "ops/definition/op_def.h"

#include <fmt/core.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "ir/structure.h"
#include "ops/custom/custom_op.h"
#include "ops/definition/build.h"
#include "ops/definition/composer.h"
#include "ops/definition/decomposition.h"
#include "ops/definition/expression_parts.h"
#include "ops/definition/importers.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

// Function-local: definitions register from static objects of many files, in any order.
std::map<std::string, std::unique_ptr<OpDef>, std::less<>>& registry() {
  static std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops;
  return ops;
}
// Those of users' libraries, apart: what we document and test is the registry above.
std::map<std::string, std::unique_ptr<OpDef>, std::less<>>& custom_registry() {
  static std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops;
  return ops;
}

std::shared_mutex& custom_mutex() {
  static auto& mutex = *new std::shared_mutex;
  return mutex;
}

std::vector<Expr> inputs_of(std::span<const DType> dtypes) {
  std::vector<Expr> inputs;
  for (size_t i = 0; i < dtypes.size(); ++i) inputs.push_back(Expr::input(static_cast<int>(i), dtypes[i]));
  return inputs;
}

std::vector<Expr> trees_of(const OpDef& def, const ir::Op& op, std::vector<DType>& dtypes) {
  for (int i = 0; i < op.operand_count(); ++i) dtypes.push_back(op.operand(i)->type().dtype);
  return def.expression(inputs_of(dtypes), with_defaults(def, op.attributes), op.result()->type().dtype);
}

// The shape all operands broadcast to. The layout is that of the operands that have this shape.
ir::Type broadcast_type(const InferContext& c, DType dtype) {
  ir::Type result{dtype, c.operand(0).shape};
  for (size_t i = 1; i < c.operands.size(); ++i)
    result.shape = broadcast_shapes(result.shape, c.operands[i]->shape);
  for (const ir::Type* operand : c.operands)
    if (operand->shape == result.shape) {
      result.layout = operand->layout;
      break;
    }
  return result;
}

// All operands that are not conditions have one dtype; conversions are ops of their own.
void check_equal_dtypes(const InferContext& c, const std::vector<OperandDef>* defs) {
  const ir::Type* first = nullptr;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    if (defs != nullptr && (*defs)[std::min(i, defs->size() - 1)].dtypes == kBoolean) continue;
    if (first == nullptr) first = c.operands[i];
    if (c.operands[i]->dtype != first->dtype)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("dtype mismatch: operands are {} and {}; "
                              "insert a cast, nothing is converted silently.",
                              to_string(first->dtype), to_string(c.operands[i]->dtype)));
  }
}

InferRule elementwise_rule(const OpDef* def) {
  return [def](const InferContext& c) {
    check_equal_dtypes(c, &def->operands);
    std::vector<DType> dtypes;
    for (const ir::Type* operand : c.operands) dtypes.push_back(operand->dtype);
    std::vector<ir::Type> types;
    for (const Expr& tree : def->expression(inputs_of(dtypes), c.attributes, dtypes[0]))
      types.push_back(broadcast_type(c, tree.dtype()));
    return types;
  };
}

void elementwise_reference(const OpDef& def, ReferenceCall& call) {
  const size_t operand_count = call.operands.size(), result_count = call.results.size();
  std::vector<DType> dtypes;
  for (const ReferenceTensor* operand : call.operands) dtypes.push_back(operand->type.dtype);
  Evaluator evaluate(def.expression(inputs_of(dtypes), call.attributes, call.result().type.dtype));

  const Shape& shape = call.result().type.shape;
  std::vector<Strides> strides;
  for (const ReferenceTensor* operand : call.operands)
    strides.push_back(broadcast_strides(operand->type.shape, shape));
  std::vector<int64_t> index(shape.size(), 0), offset(operand_count, 0);
  std::vector<double> in(operand_count), out(result_count);
  for (int64_t element = 0, count = call.result().size(); element < count; ++element) {
    for (size_t i = 0; i < operand_count; ++i) in[i] = call.operands[i]->values[offset[i]];
    evaluate(in, out);
    for (size_t i = 0; i < result_count; ++i) call.results[i]->values[element] = out[i];
    for (size_t d = shape.size(); d-- > 0;) {
      for (size_t i = 0; i < operand_count; ++i) offset[i] += strides[i][d];
      if (++index[d] < shape[d]) break;
      for (size_t i = 0; i < operand_count; ++i) offset[i] -= strides[i][d] * shape[d];
      index[d] = 0;
    }
  }
}

void fill_in_elementwise(OpDef* def) {
  def->traits |= kElementwise | kAnyLayout;
  if (!def->batch && !def->has(kRandom)) def->batch = elementwise_batch;
  if (!def->infer) def->infer = elementwise_rule(def);
  if (!def->reference) def->reference = [def](ReferenceCall& call) { elementwise_reference(*def, call); };
  if (!def->kernels)
    def->kernels = [def](const ir::Op& op) {
      std::vector<DType> dtypes;
      const std::vector<Expr> trees = trees_of(*def, op, dtypes);
      const kernels::PointwiseProgram program = compile(trees, dtypes);
      if (program.code.size() > kernels::kMostInstructions) return std::vector<KernelChoice>{};
      return std::vector<KernelChoice>{{"pointwise", program.to_attributes()}};
    };
}

void fill_in_defaults(OpDef* def) {
  if (def->expression) fill_in_elementwise(def);
  if (def->expand)
    def->kernels = [](const ir::Op&) { return std::vector<KernelChoice>{}; };  // gone before lowering
  if (!def->kernels)
    def->kernels = [def](const ir::Op& op) {
      return std::vector<KernelChoice>{{def->name, with_defaults(*def, op.attributes)}};
    };
  if (def->decompose && def->gradient_kind == GradientKind::kNone)
    def->gradient_kind = GradientKind::kDecomposition;
  if (def->decompose && !def->reference) {
    def->reference_is_decomposition = true;
    def->reference = [def](ReferenceCall& call) { decomposed_reference(*def, call); };
  }
}

}  // namespace

OpDefBuilder::OpDefBuilder(std::string name, std::string family) {
  def_.name = std::move(name);
  def_.family = std::move(family);
}
OpDefBuilder& OpDefBuilder::doc(std::string text) {
  def_.doc = std::move(text);
  return *this;
}
OpDefBuilder& OpDefBuilder::operand(std::string name, DTypeSet dtypes) {
  def_.operands.push_back({std::move(name), dtypes, false, false});
  return *this;
}
OpDefBuilder& OpDefBuilder::optional_operand(std::string name, DTypeSet dtypes) {
  def_.operands.push_back({std::move(name), dtypes, true, false});
  return *this;
}
OpDefBuilder& OpDefBuilder::variadic(std::string name, DTypeSet dtypes) {
  def_.operands.push_back({std::move(name), dtypes, false, true});
  return *this;
}
OpDefBuilder& OpDefBuilder::attribute(std::string name) {
  def_.attributes.push_back({std::move(name), std::nullopt});
  return *this;
}
OpDefBuilder& OpDefBuilder::attribute(std::string name, Attribute fallback) {
  def_.attributes.push_back({std::move(name), std::move(fallback)});
  return *this;
}
OpDefBuilder& OpDefBuilder::result(std::string name) {
  def_.results.push_back(std::move(name));
  return *this;
}
OpDefBuilder& OpDefBuilder::traits(uint32_t bits) {
  def_.traits |= bits;
  return *this;
}
OpDefBuilder& OpDefBuilder::infer(InferRule rule) {
  def_.infer = std::move(rule);
  return *this;
}
OpDefBuilder& OpDefBuilder::gradient(std::function<void(GradientBuilder&)> rule) {
  def_.gradient_kind = GradientKind::kRule;
  def_.gradient = std::move(rule);
  return *this;
}
OpDefBuilder& OpDefBuilder::gradient_zero() {
  def_.gradient_kind = GradientKind::kZero;
  return *this;
}
OpDefBuilder& OpDefBuilder::gradient_refused(std::string reason) {
  def_.gradient_kind = GradientKind::kRefused;
  def_.gradient_refusal = std::move(reason);
  return *this;
}
OpDefBuilder& OpDefBuilder::elementwise(std::function<Expr(std::span<const Expr>, const Attributes&)> tree) {
  def_.traits |= kElementwise | kAnyLayout | kMayReuseFirstOperand;
  def_.expression = [tree = std::move(tree)](std::span<const Expr> inputs, const Attributes& attributes,
                                             DType) { return std::vector<Expr>{tree(inputs, attributes)}; };
  return *this;
}
OpDefBuilder& OpDefBuilder::reference(std::function<void(ReferenceCall&)> function) {
  def_.reference = std::move(function);
  return *this;
}
OpDefBuilder& OpDefBuilder::collective(std::function<void(CollectiveCall&)> function) {
  def_.traits |= kSideEffects;
  def_.reference = [function](ReferenceCall& call) {
    CollectiveCall alone{call.attributes, {call.operands}, {call.results}};
    function(alone);
  };
  def_.collective = std::move(function);
  return *this;
}
namespace {
std::function<std::vector<KernelChoice>(const ir::Op&)> one_kernel(std::string id) {
  return [id = std::move(id)](const ir::Op& op) {
    return std::vector<KernelChoice>{{id, with_defaults(*definition(op), op.attributes)}};
  };
}
}  // namespace
OpDefBuilder& OpDefBuilder::kernel(std::string id) { return kernels(one_kernel(std::move(id))); }
OpDefBuilder& OpDefBuilder::kernels(std::function<std::vector<KernelChoice>(const ir::Op&)> choose) {
  def_.kernels = std::move(choose);
  return *this;
}
OpDefBuilder& OpDefBuilder::layouts(std::function<LayoutWishes(const ir::Op&)> rule) {
  def_.layouts = std::move(rule);
  return *this;
}
OpDefBuilder& OpDefBuilder::layouts(LayoutWishes wishes) {
  return layouts([wishes = std::move(wishes)](const ir::Op&) { return wishes; });
}
OpDefBuilder& OpDefBuilder::batch(BatchRule rule) {
  def_.batch = std::move(rule);
  return *this;
}
OpDefBuilder& OpDefBuilder::work(WorkRule rule) {
  def_.work = std::move(rule);
  return *this;
}
OpDefBuilder& OpDefBuilder::decompose(std::function<std::vector<ir::Value*>(ir::Op&)> rule) {
  def_.traits |= kCompound;
  def_.decompose = std::move(rule);
  return *this;
}
OpDefBuilder& OpDefBuilder::compound(std::function<std::vector<ir::Value*>(Composer&)> rule) {
  kernels([](const ir::Op&) { return std::vector<KernelChoice>{}; });
  return decompose([rule = std::move(rule)](ir::Op& op) {
    Composer composer(op);
    return rule(composer);
  });
}
OpDefBuilder& OpDefBuilder::gradient_by_decomposition(std::vector<std::string> saved) {
  saved_ = std::move(saved);
  return *this;
}
OpDefBuilder& OpDefBuilder::gradient_kernel(std::string id) {
  gradient_kernels_ = one_kernel(std::move(id));
  return *this;
}
OpDefBuilder& OpDefBuilder::gradient_work(WorkRule rule) {
  gradient_work_ = std::move(rule);
  return *this;
}
OpDefBuilder& OpDefBuilder::gradient_by_decomposition(
    std::vector<std::string> saved, std::function<std::vector<ir::Value*>(Composer&)> parts) {
  def_.gradient_parts = std::move(parts);
  return gradient_by_decomposition(std::move(saved));
}
OpDefBuilder& OpDefBuilder::gradient_by_expression() {
  def_.gradient_kind = GradientKind::kDecomposition;
  def_.decompose = parts_of_expression;
  return *this;
}
OpDefBuilder& OpDefBuilder::view(ir::ViewRule rule) {
  def_.view = std::move(rule);
  return *this;
}
OpDefBuilder& OpDefBuilder::modifies(int operand) {
  def_.modifies = operand;
  return *this;
}
OpDefBuilder& OpDefBuilder::expand(std::function<std::vector<ir::Value*>(ir::Builder&, const ir::Op&)> rule) {
  def_.expand = std::move(rule);
  return *this;
}
OpDefBuilder& OpDefBuilder::from_aten(std::vector<std::string> overloads,
                                      std::map<std::string, std::string> rename) {
  return from_aten(std::move(overloads), aten_importer_of(def_.name, std::move(rename)));
}
OpDefBuilder& OpDefBuilder::from_aten(std::vector<std::string> overloads, AtenImporter importer) {
  for (std::string& overload : overloads)
    def_.importers.push_back({kAten, std::move(overload), {0, 0}, importer});
  return *this;
}
OpDefBuilder& OpDefBuilder::from_onnx(std::string type, VersionRange versions,
                                      std::map<std::string, std::string> rename) {
  return from_onnx(std::move(type), versions, node_importer_of(def_.name, std::move(rename)));
}
OpDefBuilder& OpDefBuilder::from_onnx(std::string type, VersionRange versions, NodeImporter importer) {
  def_.importers.push_back({kOnnx, std::move(type), versions, std::move(importer)});
  return *this;
}
OpDefBuilder& OpDefBuilder::from_graphcore(std::string type, std::map<std::string, std::string> rename) {
  from_graphcore(std::move(type), node_importer_of(def_.name, std::move(rename)));
  def_.importers.back().is_by_name = true;
  return *this;
}
OpDefBuilder& OpDefBuilder::from_tensorflow(std::vector<std::string> types) {
  for (std::string& type : types) from_tensorflow(std::move(type), node_importer_of(def_.name, {}));
  return *this;
}
OpDefBuilder& OpDefBuilder::from_tensorflow(std::string type, NodeImporter importer) {
  def_.importers.push_back(tensorflow_importer(std::move(type), std::move(importer)));
  return *this;
}
OpDefBuilder& OpDefBuilder::from_graphcore(std::string type, NodeImporter importer) {
  def_.importers.push_back({kGraphcore, std::move(type), {1, 1}, std::move(importer)});
  return *this;
}
OpDefBuilder& OpDefBuilder::samples(std::vector<Sample> list) {
  for (Sample& sample : list) def_.samples.push_back(std::move(sample));
  return *this;
}

std::optional<OpDef> OpDefBuilder::gradient_definition() const {
  if (!saved_) return std::nullopt;
  OpDef gradient = gradient_of_compound(def_, *saved_);
  if (gradient_kernels_) gradient.kernels = gradient_kernels_;
  gradient.work = gradient_work_;
  return gradient;
}

namespace {

void register_definition(OpDef complete) {
  auto def = std::make_unique<OpDef>(std::move(complete));
  IPU_CHECK(!def->operands.empty() || !def->expression,
            fmt::format("elementwise op '{}' has no operands", def->name));
  fill_in_defaults(def.get());
  for (const Importer& importer : def->importers) register_importer(importer);
  const std::string name = def->name;
  const bool added = registry().emplace(name, std::move(def)).second;
  IPU_CHECK(added, fmt::format("op '{}' is defined twice", name));
}

}  // namespace

OpRegistration::OpRegistration(OpDefBuilder& builder) {
  if (std::optional<OpDef> gradient = builder.gradient_definition()) {
    OpDef def = builder.take();
    def.gradient_kind = GradientKind::kRule;
    def.gradient = emit_compound_gradient(def.name, gradient->gradient_of->saved);
    register_definition(std::move(def));
    register_definition(std::move(*gradient));
  } else {
    register_definition(builder.take());
  }
}
OpRegistration::OpRegistration(OpDefBuilder&& builder) : OpRegistration(builder) {}

bool register_custom_definition(OpDef def) {
  std::string name = def.name;
  if (find_op(name) != nullptr) return false;
  std::unique_lock lock(custom_mutex());
  return custom_registry().emplace(std::move(name), std::make_unique<OpDef>(std::move(def))).second;
}
std::vector<const OpDef*> custom_ops() {
  std::shared_lock lock(custom_mutex());
  std::vector<const OpDef*> ops;
  for (const auto& [name, def] : custom_registry()) ops.push_back(def.get());
  return ops;
}

const OpDef* find_op(std::string_view kind) {
  auto at = registry().find(kind);
  if (at != registry().end()) return at->second.get();
  std::shared_lock lock(custom_mutex());  // a library may be loaded while other threads compile
  auto custom = custom_registry().find(kind);
  return custom == custom_registry().end() ? nullptr : custom->second.get();
}
const OpDef& get_op(std::string_view kind) {
  const OpDef* def = find_op(kind);
  IPU_CHECK(def != nullptr, fmt::format("op '{}' is not defined", kind));
  return *def;
}
// Definitions stay for good: what was found once for a kind need not be looked up again.
const OpDef* definition(const ir::Op& op) {
  if (ir::is_structural(op)) return nullptr;
  std::atomic<const OpDef*>& known = op.found_definition();
  const OpDef* def = known.load(std::memory_order_acquire);
  if (def == nullptr && (def = find_op(op.kind())) != nullptr) known.store(def, std::memory_order_release);
  return def;
}
LayoutWishes layout_wishes(const ir::Op& op) {
  const OpDef* def = definition(op);
  return def != nullptr && def->layouts ? def->layouts(op) : LayoutWishes{};
}
bool has_trait(const ir::Op& op, Trait trait) {
  const OpDef* def = definition(op);
  return def != nullptr && def->has(trait);
}
std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> ops;
  for (const auto& [name, def] : registry()) ops.push_back(def.get());
  return ops;
}

InferRule same_type_as(int operand) {
  return [operand](const InferContext& c) { return std::vector<ir::Type>{c.operand(operand)}; };
}
InferRule broadcast_rule() {
  return [](const InferContext& c) {
    check_equal_dtypes(c, nullptr);
    return std::vector<ir::Type>{broadcast_type(c, c.operand(0).dtype)};
  };
}
InferRule broadcast_rule(DType result) {
  return [result](const InferContext& c) {
    check_equal_dtypes(c, nullptr);
    return std::vector<ir::Type>{broadcast_type(c, result)};
  };
}

}  // namespace ipu::ops
