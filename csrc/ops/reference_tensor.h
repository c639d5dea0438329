// Tensors of the reference implementation: f64 elements whatever the dtype (i32, u32 and bool are exact in
// f64).
#pragma once

#include <vector>

#include "ir/type.h"
#include "support/attributes.h"

namespace ipu::ops {

struct ReferenceTensor {
  ir::Type type;               // layout is always plain here
  std::vector<double> values;  // row major

  static ReferenceTensor zeros(ir::Type type);
  static ReferenceTensor from_constant(const ConstantData& data);
  static ReferenceTensor from_bytes(ir::Type type, const void* bytes);
  ConstantPtr to_constant() const;
  int64_t size() const { return static_cast<int64_t>(values.size()); }
};

double round_to(DType dtype,
                double value);  // as a store of that dtype would; f64 is unchanged, integers wrap
void round_to(ReferenceTensor& tensor);

struct ReferenceCall {
  const Attributes& attributes;
  std::vector<const ReferenceTensor*> operands;  // nullptr: absent
  std::vector<ReferenceTensor*> results;         // sized, zero-filled
  int64_t replica = 0;                           // that runs it

  const ReferenceTensor& operand(int i) const { return *operands[i]; }
  bool has(int i) const { return i < static_cast<int>(operands.size()) && operands[i] != nullptr; }
  ReferenceTensor& result(int i = 0) const { return *results[i]; }
};

// The same op of all replicas of a group, for ops that meet there. Members in order of replicas.
struct CollectiveCall {
  const Attributes& attributes;
  std::vector<std::vector<const ReferenceTensor*>> operands;  // [member][operand]
  std::vector<std::vector<ReferenceTensor*>> results;         // [member][result], sized, zero-filled

  size_t members() const { return results.size(); }
};

}  // namespace ipu::ops
