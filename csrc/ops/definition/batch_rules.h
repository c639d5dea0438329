// How ops work on parts of their batch: cutting the operands of an op along a dimension, running it on each part and
// joining the results gives what the whole op gives, number by number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "support/attributes.h"

namespace ipu::ops {

// An op that is to be cut: along which dimension each operand is, -1 where every part reads the whole of it.
struct BatchPart {
  const ir::Op& op;
  std::vector<int64_t> axes;
  int64_t parts;
  Attributes attributes;  // of the op on one part, defaults filled in: rules change those that state a size

  const Shape& shape(int operand) const { return op.operand(operand)->type().shape; }
  int64_t rank(int operand) const { return static_cast<int64_t>(shape(operand).size()); }
  bool is_cut(int operand) const { return axes[static_cast<size_t>(operand)] >= 0; }
  bool is_only_cut(int operand) const;  // all others are whole
  int64_t axis(int operand) const { return axes[static_cast<size_t>(operand)]; }
};

// Along which dimension parts of each result are joined, one for all results; nullopt: the op cannot be cut so.
using BatchRule = std::function<std::optional<int64_t>(BatchPart&)>;

// Elementwise ops with broadcasting.
std::optional<int64_t> elementwise_batch(BatchPart& part);
// Operand 0 along dimension 0, which the op works through sample by sample.
std::optional<int64_t> sample_batch(BatchPart& part);
// Operand 0 along a dimension before the one that the attribute names: rows of a norm.
BatchRule batch_before(std::string_view attribute);
// Operand 0 along any dimension but the one that the attribute names: lines of a softmax.
BatchRule batch_beside(std::string_view attribute);

}  // namespace ipu::ops
