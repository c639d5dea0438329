#include "frontends/popxl/published.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace ipu::popxl {
namespace {

// Never destroyed, as the table of kinds.
std::vector<PopxlFunction>& functions() {
  static auto* list = new std::vector<PopxlFunction>;
  return *list;
}
std::vector<Creator>& creator_table() {
  static auto* table = new std::vector<Creator>;
  return *table;
}

}  // namespace

std::vector<PopxlFunction> popxl_functions() {
  std::vector<PopxlFunction> sorted = functions();
  std::ranges::sort(sorted, {}, [](const PopxlFunction& f) { return std::tie(f.type, f.signature); });
  return sorted;
}

FunctionRegistration::FunctionRegistration(std::vector<PopxlFunction> added) {
  std::ranges::move(added, std::back_inserter(functions()));
}

const std::vector<Creator>& creators() { return creator_table(); }

CreatorRegistration::CreatorRegistration(std::vector<Creator> rows) {
  std::ranges::move(rows, std::back_inserter(creator_table()));
}

}  // namespace ipu::popxl
