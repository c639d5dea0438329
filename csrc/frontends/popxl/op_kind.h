// What an op type of PopXL and PopART is: one row, in kinds/, that says everything. Type inference, the IR of a
// program, the gradient graph, popart._internal.ir and its classes all read these rows and nothing else.
//
//   const KindRegistration tanh = define_kind("Tanh").id("ai.onnx", 6)
//       .gradient({{0, out(0)}})
//       .lower([](LowerCall& c) { c.set_output(0, c.build("tanh", {c.input(0)})); });
//
// Nothing is said twice: the types of outputs are those of the IR that `lower` builds on inputs of the same types
// (infer.h); the gradient op is lowered to what the core's autodiff makes of `lower` (lower_gradient.cc), on the
// values that the row says it consumes. A row with `infer` builds no IR for its types; one with `lower_gradient`
// has a gradient of its own.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/popxl/lower_call.h"
#include "frontends/popxl/program.h"

namespace ipu::popxl {

// Types of the outputs that are connected, by index.
class InferCall {
 public:
  explicit InferCall(const Op& op) : op_(op) {}
  const Op& op() const { return op_; }
  const Attributes& attributes() const { return op_.attributes; }
  bool has(int i) const { return op_.input(i) != nullptr; }
  const TensorInfo& input(int i) const;  // Error(kTypeMismatch) when absent
  void set_output(int i, TensorInfo info) { outputs_[i] = std::move(info); }
  std::map<int, TensorInfo> take() { return std::move(outputs_); }

 private:
  const Op& op_;
  std::map<int, TensorInfo> outputs_;
};

enum class Differentiable : uint8_t {
  kNo,       // no gradient arises, silently
  kZero,     // the gradient is zero: one UnaryZeroGrad op
  kYes,      // by the rows of `gradients`
  kRefused,  // an error where a gradient has to pass
};

// Operands of other types than `lower` takes, which a program may make an op with: they are refused when the op is compiled.
enum class LateTypes : uint8_t {
  kNo,
  kFloats,     // integers at input 0: results have that type where those of an f16 are f16
  kLikeFirst,  // another type than that of input 0: results are those of its type
};

// A forward value that a gradient op consumes besides the gradients of the outputs.
struct Consumed {
  bool is_output;
  int index;
};
inline Consumed in(int i) { return {false, i}; }
inline Consumed out(int i) { return {true, i}; }
// in(kThatArgument): the argument whose gradient the op gives, of a variadic op.
inline constexpr int kThatArgument = -1;

// One gradient op: of one forward input as a rule; of several where PopART has one op for them.
struct GradientRow {
  std::vector<int>
      arguments;  // forward inputs it gives the gradients of; of a variadic op {-1}: each has one op, {-2}: all share one
  std::string type;  // "MulArg0Grad"
  std::vector<Consumed> consumed;
  // Where attributes of the forward op decide: instead of `consumed`.
  std::function<std::vector<Consumed>(const Attributes&)> consumed_by = nullptr;
  // Where an ordinary op of `type` is the gradient, of input 0: its attributes. It is lowered as what it is.
  std::function<Attributes(const Op& forward)> attributes = nullptr;
  // Else after the class of the op: that of Sub is SubtractOp, so that of SubArg0Grad is SubtractArg0GradOp.
  std::string class_name = "";
};

// Ops that compute each element of output 0 from those of the inputs, which broadcast.
enum class Elementwise : uint8_t {
  kNo,
  kNumbers,   // of the type of input 0
  kBooleans,  // bool
};

// An op type that overwrites an input with what the op computes.
struct InPlace {
  int input;
  std::string type;
};

struct OpKind {
  std::string type;        // opType(): "Sub"
  std::string class_name;  // in popart._internal.ir.op: "SubtractOp"
  std::string domain = "ai.onnx";
  int version = 1;
  std::vector<int> modifies;  // inputs it overwrites; output 0 is then the memory of the first
  std::vector<int> views;     // inputs in whose memory output 0 lies without change; {-1}: all inputs
  std::vector<InPlace> in_place;
  Elementwise elementwise = Elementwise::kNo;
  int operands = 0;  // of an elementwise op; 0: any number
  bool is_optimizer = false;
  bool has_side_effect = false;
  bool is_gradient = false;
  Differentiable differentiable = Differentiable::kNo;
  std::vector<GradientRow> gradients;
  std::function<std::string(const Op&)> why_no_gradient;  // of an op that refuses; "": it has one
  std::function<bool(const Op&)> stops_gradient;          // no gradient arises where this holds
  int index_output = -1;                                  // holds indices, which no gradient reaches
  LateTypes late_types = LateTypes::kNo;
  std::function<void(InferCall&)> infer;  // nullptr: from `lower`
  std::function<void(LowerCall&)> lower;  // nullptr: to_module.cc knows it (calls, streams, remote buffers)
  std::function<void(LowerCall&)> lower_gradient;  // of the gradient ops; nullptr: by the core's autodiff
};

const OpKind* find_kind(std::string_view type);  // nullptr: unknown
const OpKind& kind_of(std::string_view type);    // IPU_CHECK: known
std::vector<const OpKind*> all_kinds();          // by type

class KindRegistration;
class KindBuilder {
 public:
  explicit KindBuilder(std::string type);
  KindBuilder& class_name(std::string name);  // else <type>Op
  KindBuilder& id(std::string domain, int version);
  KindBuilder& graphcore(int version = 1) { return id("ai.graphcore", version); }
  KindBuilder& modifies(std::vector<int> inputs);
  KindBuilder& views(std::vector<int> inputs);
  // Elementwise in `operands` inputs, computed by `op` of the IR; `predicate` gives booleans.
  KindBuilder& function(std::string op, int operands, Attributes attributes = {});
  KindBuilder& predicate(std::string op, int operands);
  KindBuilder& elementwise(Elementwise values, int operands = 0);  // `lower` is said apart
  // Defines the op type <type><suffix> that overwrites `input`. Its result must have the type of the input.
  KindBuilder& in_place(std::string suffix = "Inplace", int input = 0);
  KindBuilder& optimizer();
  KindBuilder& side_effect();
  // One differentiable input, gradient op <type>Grad.
  KindBuilder& gradient(std::vector<Consumed> consumed = {});
  // One op <type><suffix> for each: {{0, "Arg0Grad", {in(1)}}, ...}.
  struct Argument {
    int input;
    std::string suffix;
    std::vector<Consumed> consumed;
  };
  KindBuilder& gradients(std::vector<Argument> arguments);
  KindBuilder& gradient_row(GradientRow row);  // any other form
  KindBuilder& zero_gradient();
  // An op of type `type`, which has a row of its own, with these attributes, on the gradient of output 0.
  KindBuilder& gradient_is(std::string type, std::function<Attributes(const Op&)> attributes);
  KindBuilder& refuses_gradient();
  KindBuilder& refuses_gradient_where(std::function<std::string(const Op&)> why);
  KindBuilder& stops_gradient_where(std::function<bool(const Op&)> stops);
  KindBuilder& index_output(int output);
  KindBuilder& late_types(LateTypes types);
  KindBuilder& infer(std::function<void(InferCall&)> rule);
  KindBuilder& lower(std::function<void(LowerCall&)> rule);
  KindBuilder& lower_gradient(std::function<void(LowerCall&)> rule);

 private:
  friend class KindRegistration;
  OpKind kind_;
};
inline KindBuilder define_kind(std::string type) { return KindBuilder(std::move(type)); }

// Registers a row while the library is loaded, and those of its gradient ops and of its ops in place.
class KindRegistration {
 public:
  KindRegistration(const KindBuilder& builder);  // NOLINT: by design
};

}  // namespace ipu::popxl
