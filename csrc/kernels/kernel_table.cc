#include "kernels/kernel_table.h"

#include <fmt/core.h>

#include <map>
#include <string>

#include "support/error.h"

namespace ipu::kernels {
namespace {
std::map<std::string, KernelDef, std::less<>>& table() {
  static std::map<std::string, KernelDef, std::less<>> kernels;
  return kernels;
}
}  // namespace

void register_kernel(const KernelDef& def) {
  bool added = table().emplace(std::string(def.id), def).second;
  IPU_CHECK(added, fmt::format("kernel '{}' is registered twice", def.id));
}

const KernelDef* find_kernel(std::string_view id) {
  auto at = table().find(id);
  return at == table().end() ? nullptr : &at->second;
}

void KernelFault::index_out_of_range(std::string_view operand, int64_t position, int64_t index,
                                     int64_t extent, int64_t low) {
  std::lock_guard lock(mutex_);
  if (raised_.load(std::memory_order_relaxed) && position_ <= position) return;
  operand_ = operand;
  position_ = position;
  index_ = index;
  extent_ = extent;
  low_ = low;
  raised_.store(true, std::memory_order_release);
}

std::string KernelFault::operand() const {
  std::lock_guard lock(mutex_);
  return operand_;
}

std::string KernelFault::message() const {
  std::lock_guard lock(mutex_);
  return fmt::format("index out of range: index {} (element {} of '{}') is not in [{}, {}).", index_,
                     position_, operand_, low_, extent_);
}

void KernelFault::clear() {
  std::lock_guard lock(mutex_);
  raised_.store(false, std::memory_order_release);
}

std::vector<std::string_view> kernel_ids() {
  std::vector<std::string_view> ids;
  for (const auto& [id, def] : table()) ids.push_back(id);
  return ids;
}

}  // namespace ipu::kernels
