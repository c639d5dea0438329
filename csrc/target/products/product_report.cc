#include <fmt/format.h>

#include "target/products/product_search.h"

namespace ipu::target {
namespace {

std::string line(const char* what, const ProductPrices& prices, const ProductPlan& plan) {
  const ProductSplit& s = plan.split;
  std::string cut = fmt::format("groups in {}, rows in {}, inputs in {}, outputs in {}", s.groups, s.rows,
                                s.inputs, s.outputs);
  for (auto [name, parts] :
       {std::pair{"batch", s.batch}, {"columns", s.columns}, {"kernel rows", s.kernel_rows}})
    if (parts > 1) cut += fmt::format(", {} in {}", name, parts);
  return fmt::format(
      "{}: {}, {}, {} step(s), blocks of {}: {} of {} tiles, {:.0f} cycles, {:.0f} of {:.0f} temporary "
      "bytes\n",
      what, word(s.method), cut, s.steps, s.group_outputs, s.tiles(), prices.tiles, plan.cycles.total(),
      plan.temporary_bytes, prices.memory);
}

}  // namespace

std::string describe_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options) {
  const ProductPrices prices(machine, shape, options);
  const ProductPlan best = ProductSearch(prices, {}).run();
  const ProductPlan second = ProductSearch(prices, kind_of(best.split)).run();
  std::string text = line("chosen", prices, best);
  for (const auto& [name, cycles] : best.cycles.parts())
    if (cycles > 0) text += fmt::format("  {:<20} {:>12.0f}\n", name, cycles);
  text += line("second of another kind", prices, second);
  if (second.temporary_bytes > prices.memory) return text + "  it does not fit\n";
  const auto ours = best.cycles.parts(), theirs = second.cycles.parts();
  size_t worst = 0;
  for (size_t i = 1; i < ours.size(); ++i)
    if (theirs[i].second - ours[i].second > theirs[worst].second - ours[worst].second) worst = i;
  return text + fmt::format("  it lost most in {}: {:.0f} cycles against {:.0f}\n", theirs[worst].first,
                            theirs[worst].second, ours[worst].second);
}

}  // namespace ipu::target
