#include "kernels/kernel_table.h"

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
  IPU_CHECK(added, "kernel '" + std::string(def.id) + "' is registered twice");
}

const KernelDef* find_kernel(std::string_view id) {
  auto at = table().find(id);
  return at == table().end() ? nullptr : &at->second;
}

std::vector<std::string_view> kernel_ids() {
  std::vector<std::string_view> ids;
  for (const auto& [id, def] : table()) ids.push_back(id);
  return ids;
}

}  // namespace ipu::kernels
