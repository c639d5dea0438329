#include <fmt/format.h>

#include "target/products/product_choice.h"
#include "target/products/product_search.h"

namespace ipu::target {
namespace {

std::string line(const char* what, const ProductPrices& prices, const ProductPlan& plan) {
  const ProductSplit& s = plan.split;
  return fmt::format(
      "{}: {}, {}, {} step(s), blocks of {}: {} of {} tiles, {:.0f} cycles, {:.0f} of {:.0f} temporary "
      "bytes\n",
      what, word(s.method), describe_split(s), s.steps, s.group_outputs, s.tiles(), prices.tiles,
      plan.cycles.total(), plan.temporary_bytes, prices.memory);
}

ProductChoice choose(const ProductPrices& prices) {
  ProductChoice choice{ProductSearch(prices, {}).run(), {}};
  choice.second = ProductSearch(prices, kind_of(choice.best.split)).run();
  choice.second_fits = choice.second.temporary_bytes <= prices.memory;
  const auto ours = choice.best.cycles.parts(), theirs = choice.second.cycles.parts();
  const auto more = [&](size_t i) { return theirs[i].second - ours[i].second; };
  for (size_t i = 1; i < ours.size(); ++i)
    if (more(i) > more(choice.lost_in)) choice.lost_in = i;
  return choice;
}

}  // namespace

std::string describe_split(const ProductSplit& s) {
  std::string cut = fmt::format("groups in {}, rows in {}, inputs in {}, outputs in {}", s.groups, s.rows,
                                s.inputs, s.outputs);
  for (auto [name, parts] :
       {std::pair{"batch", s.batch}, {"columns", s.columns}, {"kernel rows", s.kernel_rows}})
    if (parts > 1) cut += fmt::format(", {} in {}", name, parts);
  if (s.input_steps > 1) cut += fmt::format(", {} steps over inputs", s.input_steps);
  return cut;
}

ProductChoice choose_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options) {
  return choose(ProductPrices(machine, shape, options));
}

std::string describe_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options) {
  const ProductPrices prices(machine, shape, options);
  const ProductChoice choice = choose(prices);
  std::string text = line("chosen", prices, choice.best);
  for (const auto& [name, cycles] : choice.best.cycles.parts())
    if (cycles > 0) text += fmt::format("  {:<20} {:>12.0f}\n", name, cycles);
  text += line("second of another kind", prices, choice.second);
  if (!choice.second_fits) return text + "  it does not fit\n";
  const auto ours = choice.best.cycles.parts(), theirs = choice.second.cycles.parts();
  return text + fmt::format("  it lost most in {}: {:.0f} cycles against {:.0f}\n",
                            theirs[choice.lost_in].first, theirs[choice.lost_in].second,
                            ours[choice.lost_in].second);
}

}  // namespace ipu::target
