// A field of the ops of one graph, by their ids.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace ipu::passes {

template <typename T>
class OpTable {
 public:
  explicit OpTable(T none) : none_(std::move(none)) {}
  // `none` where nothing was written.
  const T& at(const ir::Op& op) const {
    const auto id = static_cast<size_t>(op.id());
    return id < fields_.size() ? fields_[id] : none_;
  }
  T& operator[](const ir::Op& op) {
    const auto id = static_cast<size_t>(op.id());
    if (id >= fields_.size()) fields_.resize(std::max(id + 1, 2 * fields_.size()), none_);
    return fields_[id];
  }

 private:
  T none_;
  std::vector<T> fields_;
};

}  // namespace ipu::passes
