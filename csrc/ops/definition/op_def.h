// The definition record of an op: all the project knows about it, in one place. One op (or one family) per
// file under ops/<family>/; static registration; the registry, docs/ops.md and the conformance test read
// nothing else.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/effects.h"
#include "ir/module.h"
#include "ops/definition/batch_rules.h"
#include "ops/definition/importers.h"
#include "ops/expression/expr.h"
#include "ops/reference_tensor.h"
#include "support/attributes.h"

namespace ipu::target {
struct Work;  // target/work/work.h
}

namespace ipu::ops {

class GradientBuilder;  // ops/definition/gradient_builder.h
class Composer;         // ops/definition/composer.h

enum Trait : uint32_t {
  kElementwise = 1u << 0,           // has an expression; operands broadcast to the result's shape
  kMayReuseFirstOperand = 1u << 1,  // result may overwrite operand 0's memory (same bytes, same layout)
  kCommutative = 1u << 3,           // of the first two operands
  kSideEffects = 1u << 4,           // never folded, merged, dropped
  kRandom = 1u << 5,                // takes a seed operand; never merged unless seed and stream_id are equal
  kLoss = 1u << 6,                  // computes a loss, from which training may start
  kAnyLayout = 1u << 7,             // works in any layout if all operands agree (elementwise ops have it)
  kCompound = 1u << 8,              // has a `decompose` rule and keeps its name through autodiff
  kReadsShapeOnly = 1u << 9,        // needs no operand values (zeros_like)
  kConvolution = 1u << 10,
  kPooling = 1u << 11,  // takes channels last, and then its results are so too
  kMatmul = 1u << 12,
  kExpensive = 1u << 13,          // never recomputed or duplicated for free
  kNoDeviceCode = 1u << 14,       // stands for what no device can run: compiling it is an error
  kKeepsChannelsLast = 1u << 15,  // of operands that are all channels last it makes results that are so too
  kCompletesLoad = 1u << 16,      // brings what a load gave together, or to the tiles that compute
};

// Which dtypes an operand accepts.
using DTypeSet = uint32_t;
constexpr DTypeSet bit(DType dtype) { return 1u << static_cast<int>(dtype); }
inline constexpr DTypeSet kAnyFloat = bit(DType::kF32) | bit(DType::kF16) | bit(DType::kF64);
inline constexpr DTypeSet kAnyInteger = bit(DType::kI32) | bit(DType::kU32) | bit(DType::kI16) |
                                        bit(DType::kU16) | bit(DType::kI8) | bit(DType::kU8);
inline constexpr DTypeSet kBoolean = bit(DType::kBool);
inline constexpr DTypeSet kNumber = kAnyFloat | kAnyInteger;
inline constexpr DTypeSet kAnything =
    kNumber | kBoolean | bit(DType::kF8_143) | bit(DType::kF8_152) | bit(DType::kI64);

struct OperandDef {
  std::string name;
  DTypeSet dtypes = kAnything;
  bool optional = false;  // may be absent (nullptr operand)
  bool variadic = false;  // takes all remaining operands; last one only
};
struct AttributeDef {
  std::string name;
  std::optional<Attribute> fallback;  // nullopt: required. Equal values are not printed.
};

// What a type rule sees. Rules throw ipu::Error(kTypeMismatch) naming operands, shapes and what is wrong.
struct InferContext {
  std::string_view kind;
  std::vector<const ir::Type*> operands;  // nullptr: absent
  const Attributes& attributes;

  const ir::Type& operand(int i) const { return *operands[i]; }
  bool has(int i) const { return i < static_cast<int>(operands.size()) && operands[i] != nullptr; }
};
using InferRule = std::function<std::vector<ir::Type>(const InferContext&)>;
using WorkRule = std::function<std::vector<target::Work>(const ir::Op&)>;

enum class GradientKind : uint8_t {
  kNone,     // not stated: reaching it while differentiating is an error that names the op
  kRule,     // the gradient rule
  kZero,     // known to be zero (comparisons, floor)
  kRefused,  // mathematically there, deliberately not offered: an error with the stated reason
  // a compound without a gradient of its own: autodiff builds its parts in the gradient graph and differentiates those
  kDecomposition,
};

// For an op that is the gradient of a compound (gradient_by_decomposition), names that compound and those of its
// results that the gradient op takes.
struct GradientOf {
  std::string kind;
  std::vector<int> saved;
};

// How the lowering runs it: a kernel id of the kernel table and the attributes that kernel reads. Several
// candidates are tried in order; the first whose prepare() accepts the specs wins.
struct KernelChoice {
  std::string id;
  Attributes attributes;
};

// Which layout an operand or a result of an op is best in, for the passes that choose layouts.
enum class LayoutWish : uint8_t {
  kPlain,         // takes no other
  kChannelsLast,  // an operand takes plain as well
  kPanels,        // of a weight; plain as well
  kAsItComes,     // an operand takes plain and channels last alike
};
// By operand and by result; those beyond the lists are plain.
struct LayoutWishes {
  std::vector<LayoutWish> operands, results;
  LayoutWish operand(size_t i) const { return i < operands.size() ? operands[i] : LayoutWish::kPlain; }
  LayoutWish result(size_t i) const { return i < results.size() ? results[i] : LayoutWish::kPlain; }
};

struct Sample {
  std::vector<std::optional<ir::Type>> operands;
  Attributes attributes;
  // Bounds for random operand values; integer operands used as indices need them.
  double low = -1.0, high = 1.0;
  std::map<int, std::pair<double, double>> range = {};  // per operand, overrides low and high
};

struct OpDef {
  std::string name, family, doc;
  std::vector<OperandDef> operands;
  std::vector<AttributeDef> attributes;
  std::vector<std::string> results;
  uint32_t traits = 0;
  InferRule infer;
  GradientKind gradient_kind = GradientKind::kNone;
  std::string gradient_refusal;
  std::function<void(GradientBuilder&)> gradient;
  // Elementwise ops: one tree per result from the operands' dtypes. `reference`, `kernels`, `work` then
  // follow.
  std::function<std::vector<Expr>(std::span<const Expr> inputs, const Attributes&, DType result)> expression;
  // The value in f64, exact integers; results arrive sized, in order. The interpreter rounds them to their
  // dtype.
  std::function<void(ReferenceCall&)> reference;
  // Ops that meet the same op of other replicas (attributes group_size, group_stride): the values of a whole
  // group at once. Also sets kSideEffects and a reference for a group of one.
  std::function<void(CollectiveCall&)> collective;
  std::function<std::vector<KernelChoice>(const ir::Op&)>
      kernels;  // default: {id = name, attributes of the op}
  std::function<LayoutWishes(const ir::Op&)>
      layouts;  // default: all plain. Ops of any layout (traits) have none
  // What it does on the tiles of an IPU, for the device model: read by work_of (work.h), which says what stands without a rule.
  WorkRule work;
  // Compounds: builds the equivalent ops before `op` and returns the replacements of its results, with the
  // settings and location of `op`. Run by the pass `decompose` on those that no kernel takes. A compound that
  // states no reference or work has those of its parts.
  std::function<std::vector<ir::Value*>(ir::Op& op)> decompose;
  bool reference_is_decomposition = false;
  std::optional<GradientOf> gradient_of;
  // Builds the ops that the gradient of a compound stands for, from the operands of the gradient op. Set where they are
  // fewer than those of the sweep over the compound's parts, which is used otherwise.
  std::function<std::vector<ir::Value*>(Composer& gradient)> gradient_parts;
  // How result 0 lies in the memory of its operands; nullopt: it is computed.
  std::optional<ir::ViewRule> view;
  // Kinds of the authored form alone: result 0 always lives in the memory of this operand, which it changes.
  std::optional<int> modifies;
  // Builds the ordinary ops (with `in_place` where the kind modifies) before `op` and returns the
  // replacements of its results; run by the pass `expand` and by the interpreter.
  std::function<std::vector<ir::Value*>(ir::Builder& builder, const ir::Op& op)> expand;
  // How the op works on parts of its batch; elementwise ops have a rule of their own. Without one it is not cut.
  BatchRule batch;
  std::vector<Importer> importers;  // of operators that become this op, alone or with others
  std::vector<Sample> samples;

  bool has(Trait trait) const { return (traits & trait) != 0; }
  // What the op does besides computing results: from `view`, `modifies`, the traits and its `in_place`.
  ir::Effects effects(const ir::Op& op) const;
  ir::StateEffect state() const {
    return has(kSideEffects) ? ir::StateEffect::kChanges : ir::StateEffect::kNone;
  }
};

// Fluent construction: define_op("tanh", "activation").doc("...").operand("x", kAnyFloat)...;  registers
// itself when the full expression ends in a static object:   static const OpRegistration tanh_op =
// define_op("tanh", "activation")...;
class OpDefBuilder {
 public:
  explicit OpDefBuilder(std::string name, std::string family);
  OpDefBuilder& doc(std::string text);
  OpDefBuilder& operand(std::string name, DTypeSet dtypes);
  OpDefBuilder& optional_operand(std::string name, DTypeSet dtypes);
  OpDefBuilder& variadic(std::string name, DTypeSet dtypes);
  OpDefBuilder& attribute(std::string name);  // required
  OpDefBuilder& attribute(std::string name, Attribute fallback);
  OpDefBuilder& result(std::string name);  // a name that ends in "..." stands for any number
  OpDefBuilder& traits(uint32_t bits);
  OpDefBuilder& infer(InferRule rule);
  OpDefBuilder& gradient(std::function<void(GradientBuilder&)> rule);
  OpDefBuilder& gradient_zero();
  OpDefBuilder& gradient_refused(std::string reason);
  OpDefBuilder& elementwise(
      std::function<Expr(std::span<const Expr>, const Attributes&)> tree);  // also sets traits
  OpDefBuilder& reference(std::function<void(ReferenceCall&)> function);
  OpDefBuilder& collective(std::function<void(CollectiveCall&)> function);
  OpDefBuilder& kernel(std::string id);  // the op's own attributes go to it
  OpDefBuilder& kernels(std::function<std::vector<KernelChoice>(const ir::Op&)> choose);
  OpDefBuilder& layouts(std::function<LayoutWishes(const ir::Op&)> rule);
  OpDefBuilder& layouts(LayoutWishes wishes);  // the same whatever the attributes
  OpDefBuilder& work(WorkRule rule);
  OpDefBuilder& decompose(std::function<std::vector<ir::Value*>(ir::Op&)> rule);
  // A compound without a kernel unless one is stated after it: what it stands for, and from this also
  // value and work unless stated.
  OpDefBuilder& compound(std::function<std::vector<ir::Value*>(Composer&)> rule);
  // The gradient is a compound too, "<name>_gradient", defined along: (operands..., saved results..., the
  // gradients of the results) -> the gradients of the operands numbered in `wants`. It stands for the
  // derivative of what this op stands for, and shares what that computes with it where both are in one graph.
  // Results named in `saved` are handed over: what is made from them is not made again where they are not.
  OpDefBuilder& gradient_by_decomposition(std::vector<std::string> saved = {});
  // The same with a rule for what the gradient stands for (OpDef::gradient_parts).
  OpDefBuilder& gradient_by_decomposition(std::vector<std::string> saved,
                                          std::function<std::vector<ir::Value*>(Composer&)> parts);
  OpDefBuilder& gradient_kernel(std::string id);  // of that gradient; its own attributes go to it
  OpDefBuilder& gradient_work(WorkRule rule);     // of that gradient
  // Derives the gradient of an elementwise op from its expression, node by node.
  OpDefBuilder& gradient_by_expression();
  OpDefBuilder& view(ir::ViewRule rule);
  OpDefBuilder& batch(BatchRule rule);
  OpDefBuilder& modifies(int operand);
  OpDefBuilder& expand(std::function<std::vector<ir::Value*>(ir::Builder&, const ir::Op&)> rule);
  // Overloads without the domain ("leaky_relu", "add.Tensor"). Plain case: operands and attributes are taken from the aten arguments of the same name; `rename` maps
  // "our name" → "aten name". A trailing underscore overload is imported as its functional twin by the
  // frontend.
  OpDefBuilder& from_aten(std::vector<std::string> overloads, std::map<std::string, std::string> rename = {});
  OpDefBuilder& from_aten(std::vector<std::string> overloads, AtenImporter importer);
  // An operator of ONNX in these versions of ai.onnx. Plain case: operands in order, attributes by name.
  OpDefBuilder& from_onnx(std::string type, VersionRange versions,
                          std::map<std::string, std::string> rename = {});
  OpDefBuilder& from_onnx(std::string type, VersionRange versions, NodeImporter importer);
  // Likewise an operator of ai.graphcore, PopART's own domain, of version 1, the only one.
  OpDefBuilder& from_graphcore(std::string type, std::map<std::string, std::string> rename = {});
  OpDefBuilder& from_graphcore(std::string type, NodeImporter importer);
  // Likewise op types of TensorFlow.
  OpDefBuilder& from_tensorflow(std::vector<std::string> types);
  OpDefBuilder& from_tensorflow(std::string type, NodeImporter importer);
  OpDefBuilder& samples(std::vector<Sample> list);

  OpDef take() { return std::move(def_); }
  // The definition of "<name>_gradient" when there is one; before take().
  std::optional<OpDef> gradient_definition() const;

 private:
  OpDef def_;
  std::optional<std::vector<std::string>> saved_;  // gradient_by_decomposition
  std::function<std::vector<KernelChoice>(const ir::Op&)> gradient_kernels_;
  WorkRule gradient_work_;
};
inline OpDefBuilder define_op(std::string name, std::string family) {
  return OpDefBuilder(std::move(name), std::move(family));
}

struct OpRegistration {
  OpRegistration(OpDefBuilder& builder);   // NOLINT: implicit on purpose, see OpDefBuilder
  OpRegistration(OpDefBuilder&& builder);  // NOLINT
};

const OpDef* find_op(std::string_view kind);  // nullptr: structural or opaque
const OpDef& get_op(std::string_view kind);   // IPU_CHECK
const OpDef* definition(const ir::Op& op);    // the same by op
bool has_trait(const ir::Op& op, Trait trait);
LayoutWishes layout_wishes(const ir::Op& op);  // all plain for structural and opaque ops
std::vector<const OpDef*> all_ops();           // sorted by name

// --- ready-made type rules
InferRule same_type_as(int operand);     // result 0 has operand's type
InferRule broadcast_rule();              // elementwise: equal dtypes, broadcast shapes
InferRule broadcast_rule(DType result);  // comparisons

}  // namespace ipu::ops
