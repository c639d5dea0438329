#include "ops/definition/popart_operators.h"

#include <algorithm>
#include <iterator>

namespace ipu::ops {
namespace {

std::vector<PopartOperator>& described() {
  static std::vector<PopartOperator> operators;
  return operators;
}

}  // namespace

std::vector<PopartOperator> popart_operators() {
  std::vector<PopartOperator> sorted = described();
  std::ranges::sort(sorted, {}, &PopartOperator::types);
  return sorted;
}

PopartOperators::PopartOperators(std::vector<PopartOperator> rows) {
  std::ranges::move(rows, std::back_inserter(described()));
}

}  // namespace ipu::ops
