// What compounds stand for: their parts, the value and the work of these, and the gradients that follow from
// them. One mechanism for all compounds; a compound states its parts alone.
#pragma once

#include <vector>

#include "ops/definition/gradient_builder.h"
#include "ops/definition/work.h"

namespace ipu::ops {

// The ops that a decompose rule made, in order, and what stands for the results.
struct Parts {
  std::vector<ir::Op*> ops;
  std::vector<ir::Value*> results;
};
Parts build_parts(ir::Op& op);  // before `op`, whose results keep their readers
// Those parts that nobody reads and that make none of `keep`.
void erase_unused(const Parts& parts, const std::vector<ir::Value*>& keep);

// Parts of a compound of this kind on these operands (nullptr: absent) where the builder stands. An operand
// that occurs more than once is read through one `nop` each time, so that gradients tell the places apart.
struct Repeated {
  Parts parts;
  std::vector<ir::Value*> operands;  // as the parts read them
  // Those of operands[i] with needs[i]; nullptr elsewhere.
  std::vector<ir::Value*> wanted(const std::vector<bool>& needs) const;
};
Repeated repeat(ir::Builder& builder, std::string_view kind, const std::vector<ir::Value*>& operands,
                const Attributes& attributes, const std::vector<ir::Type>& results);

// Reverse sweep over the parts: gradients of `required` (entries may be nullptr) from those of the results.
// nullptr: nothing depends on it. Rules read forward values through `fetch`.
std::vector<ir::Value*> gradients_of_parts(const Parts& parts, const std::vector<ir::Value*>& upstream,
                                           const std::vector<ir::Value*>& required, ir::Builder& builder,
                                           const GradientBuilder::Fetch& fetch);

// The gradient of a compound (OpDef::gradient_of): its operands are those of the compound, saved results,
// gradients of the results.
class CompoundGradient {
 public:
  explicit CompoundGradient(const ir::Op& op);
  const std::string& forward_kind() const { return forward_.name; }
  std::vector<ir::Value*> forward_operands() const;
  Attributes forward_attributes() const;
  // Whether what these parts made is what the op was given.
  bool is_of(const Parts& forward) const;
  bool repeats_operand() const;  // among those whose gradient is wanted

 private:
  friend std::vector<ir::Value*> decompose_gradient(ir::Op& op, const Parts* forward);
  ir::Value* operand(size_t i) const;  // nullptr: absent
  ir::Value* saved(size_t s) const { return operand(forward_.operands.size() + s); }
  const ir::Op& op_;
  const OpDef& forward_;
  const std::vector<int>& saved_;
};
// Builds before `op` what it stands for. `forward`: the parts of the compound itself, when they are in the
// same graph; nullptr: what is needed of them is made again from the operands and the saved results.
std::vector<ir::Value*> decompose_gradient(ir::Op& op, const Parts* forward);

// For definitions.
void decomposed_reference(const OpDef& def, ReferenceCall& call);
OpWork work_of_parts(const ir::Op& op);
OpDef gradient_of_compound(const OpDef& forward, const std::vector<std::string>& saved);
std::function<void(GradientBuilder&)> emit_compound_gradient(const std::string& kind, std::vector<int> saved);

}  // namespace ipu::ops
