#include "target/products/product_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "support/error.h"

namespace ipu::target {
namespace {

constexpr int64_t kMostSteps = 64;

// The numbers of a machine that prices need, looked up once.
struct Prices {
  const ProductOptions& options;
  ProductShape shape;
  ProductCore core;
  int64_t tiles, tiles_per_bus;
  double exchange_bytes, phase, call, temporary, library, vector, memory;

  Prices(const Machine& machine, const ProductShape& product, const ProductOptions& o)
      : options(o),
        shape(product),
        core(product_core(machine, o.type, o.wide_weight_loads)),
        tiles(machine.whole("tiles")),
        tiles_per_bus(machine.whole("tiles_per_exchange_bus")),
        exchange_bytes(machine["exchange_bytes_per_cycle"]),
        phase(machine["phase_cycles"]),
        call(machine["call_cycles"]),
        temporary(machine["temporary_factor"]),
        library(machine["library_factor"]),
        vector(machine["vector_product_factor"]),
        memory(o.memory_proportion * machine["bytes_per_tile"]) {
    if (std::min({shape.groups, shape.rows, shape.inputs, shape.outputs}) < 1)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("a product of no elements cannot be planned: {} groups of [{}, {}] x [{}, {}]",
                              shape.groups, shape.rows, shape.inputs, shape.inputs, shape.outputs));
    if (core.units == 0)
      throw Error(
          ErrorCode::kTypeMismatch,
          fmt::format("products of this type cannot be planned: machine '{}' has no matrix unit for it",
                      machine.name));
  }
};

// What lies on the fullest tile in one step.
struct Part {
  int64_t groups, rows, input_blocks, output_blocks;
  double operand_bytes, weight_bytes, result_elements;

  Part(const Prices& p, const ProductSplit& s) {
    groups = divide_up(p.shape.groups, s.groups);
    rows = divide_up(p.shape.rows, s.rows);
    input_blocks = divide_up(divide_up(p.shape.inputs, p.core.inputs), s.inputs);
    output_blocks = divide_up(divide_up(divide_up(p.shape.outputs, s.group_outputs), s.outputs), s.steps);
    const double inputs = static_cast<double>(groups * input_blocks * p.core.inputs);
    const double outputs = static_cast<double>(output_blocks * s.group_outputs);
    operand_bytes = static_cast<double>(rows) * inputs * static_cast<double>(p.core.operand_bytes);
    weight_bytes = inputs * outputs * static_cast<double>(p.core.operand_bytes);
    result_elements = static_cast<double>(groups * rows) * outputs;
  }
  double temporary_bytes(const Prices& p) const {
    return p.temporary *
           (operand_bytes + weight_bytes + result_elements * static_cast<double>(p.core.partial_bytes));
  }
};

int64_t inner_loops(const Prices& p, const ProductSplit& s, const Part& part) {
  return s.steps * matrix_unit_cycles(p.core, part.groups, part.input_blocks, part.output_blocks,
                                      s.group_outputs, part.rows);
}

// Partial sums come together in one stage, from 16 of them in two, from 125 in three, all of about the same depth.
void add_reduction(const Prices& p, int64_t depth, double elements, double steps, ProductCycles* cycles) {
  if (depth == 1) return;
  const int stages = depth < 16 ? 1 : depth < 125 ? 2 : 3;
  double rest = static_cast<double>(depth);
  for (int stage = stages; stage > 0; --stage) {
    const double stage_depth = std::ceil(std::pow(rest, 1.0 / stage) - 1e-9);
    const double sent = elements * static_cast<double>(p.core.partial_bytes);
    elements = std::ceil(elements / stage_depth);
    rest /= stage_depth;
    cycles->exchange_partials += steps * sent / p.exchange_bytes;
    cycles->reduction += steps * static_cast<double>(reduction_cycles(p.core, static_cast<int64_t>(elements),
                                                                      static_cast<int64_t>(stage_depth)));
    cycles->phases += steps * p.phase;
  }
}

ProductCycles matrix_unit_price(const Prices& p, const ProductSplit& s, const Part& part) {
  ProductCycles cycles;
  const double steps = static_cast<double>(s.steps);
  cycles.inner_loops = p.library * static_cast<double>(inner_loops(p, s, part));
  // Tiles that share a bus receive the operand that both need at once.
  const double share = s.outputs % p.tiles_per_bus == 0 ? static_cast<double>(p.tiles_per_bus) : 1;
  const double own_operand = 1.0 / static_cast<double>(s.outputs);
  const double own_weight = 1.0 / static_cast<double>(s.rows);
  cycles.exchange_operands = steps * (part.operand_bytes * (1 - own_operand) / (p.exchange_bytes * share) +
                                      part.weight_bytes * (1 - own_weight) / p.exchange_bytes);
  cycles.phases = steps * p.phase;
  add_reduction(p, s.inputs, part.result_elements, steps, &cycles);
  if (p.core.partial_bytes != p.core.operand_bytes && p.options.type != ProductType::kFp8) {
    const int64_t elements = divide_up(static_cast<int64_t>(part.result_elements), s.inputs);
    cycles.cast = steps * static_cast<double>(cast_cycles(p.core, elements));
  }
  if (s.steps > 1) {
    const double result_bytes = part.result_elements * static_cast<double>(p.core.partial_bytes);
    cycles.slices =
        steps * (100 + (part.weight_bytes + result_bytes) / static_cast<double>(p.core.vector_bytes));
  }
  if (p.shape.inputs % p.core.inputs != 0)
    cycles.slices += copy_cycles(part.operand_bytes, p.shape.inputs * p.core.operand_bytes);
  cycles.call = p.call;
  return cycles;
}

// One output at a time; groups and rows over the tiles.
ProductPlan vector_plan(const Prices& p) {
  ProductPlan plan;
  plan.split.groups = std::min(p.shape.groups, p.tiles);
  plan.split.rows = std::min(p.shape.rows, p.tiles / plan.split.groups);
  const int64_t groups = divide_up(p.shape.groups, plan.split.groups);
  const int64_t rows = divide_up(p.shape.rows, plan.split.rows);
  plan.cycles.inner_loops =
      p.library * p.vector *
      static_cast<double>(groups * vector_product_cycles(p.core, rows, p.shape.inputs, p.shape.outputs));
  plan.cycles.phases = p.phase;
  plan.cycles.call = p.call;
  plan.temporary_bytes = p.temporary * static_cast<double>(2 * p.core.workers * p.core.vector_bytes);
  plan.looked_at = 1;
  return plan;
}

ProductPlan priced(const Prices& p, const ProductSplit& split) {
  if (split.method == ProductMethod::kVector) return vector_plan(p);
  const Part part(p, split);
  return {split, matrix_unit_price(p, split, part), part.temporary_bytes(p), 1};
}

// Cuts of `size` into parts of different sizes: the fewest parts of each size, and the fewest of which both tiles of a bus have one.
std::vector<int64_t> cuts(int64_t size, int64_t most, bool even_too, bool all) {
  std::vector<int64_t> found;
  for (int64_t parts = 1; parts <= std::min(size, most);) {
    found.push_back(parts);
    const int64_t part = divide_up(size, parts);
    if (even_too && !all && parts % 2 != 0 && parts + 1 <= std::min(size, most) &&
        divide_up(size, parts + 1) == part)
      found.push_back(parts + 1);
    if (part == 1 && !all) break;
    parts = all ? parts + 1 : divide_up(size, part - 1);
  }
  return found;
}

bool is_cheaper(const ProductPlan& a, double total, const ProductPlan& b, double other) {
  return std::make_tuple(total, a.split.tiles(), a.temporary_bytes) <
         std::make_tuple(other, b.split.tiles(), b.temporary_bytes);
}

using Kind = std::tuple<ProductMethod, bool, bool>;
Kind kind_of(const ProductSplit& s) { return {s.method, s.steps > 1, s.inputs > 1}; }

class Search {
 public:
  Search(const Prices& prices, std::optional<Kind> without) : p_(prices), without_(without) {}

  ProductPlan run() {
    best_ = vector_plan(p_);
    best_total_ = without_ && kind_of(best_.split) == *without_ ? HUGE_VAL : best_.cycles.total();
    split_.method = ProductMethod::kMatrixUnit;
    std::vector<int64_t> group_outputs{p_.core.units};
    for (int64_t outputs : {8, 16})
      if (outputs != p_.core.units && (outputs == 8 || p_.core.operand_bytes < 4))
        group_outputs.push_back(outputs);
    for (int64_t outputs : group_outputs) {
      split_.group_outputs = outputs;
      over_groups();
    }
    best_.looked_at = looked_at_;
    return best_;
  }

 private:
  void over_groups() {
    const bool all = p_.options.exhaustive;
    const int64_t output_blocks = divide_up(p_.shape.outputs, split_.group_outputs);
    const std::vector<int64_t> groups = cuts(p_.shape.groups, p_.tiles, false, all);
    const std::vector<int64_t> inputs =
        cuts(divide_up(p_.shape.inputs, p_.core.inputs), p_.tiles, false, all);
    const std::vector<int64_t> outputs = cuts(output_blocks, p_.tiles, p_.tiles_per_bus == 2, all);
    const std::vector<int64_t> rows = cuts(p_.shape.rows, p_.tiles, false, all);
    for (int64_t g : groups)
      for (int64_t i : inputs) {
        if (g * i > p_.tiles) break;
        for (int64_t o : outputs) {
          if (g * i * o > p_.tiles) break;
          split_.groups = g;
          split_.inputs = i;
          split_.outputs = o;
          over_rows(rows, divide_up(output_blocks, o));
        }
      }
  }

  // From the most parts to the fewest: the part on a tile only grows, and with it its time and its bytes.
  void over_rows(const std::vector<int64_t>& rows, int64_t output_blocks) {
    const int64_t most = p_.tiles / (split_.groups * split_.inputs * split_.outputs);
    auto last = std::upper_bound(rows.begin(), rows.end(), most);
    for (split_.steps = 1; split_.steps <= std::min(output_blocks, kMostSteps); split_.steps *= 2)
      for (auto at = last; at != rows.begin();) {
        split_.rows = *--at;
        ++looked_at_;
        const Part part(p_, split_);
        const double bytes = part.temporary_bytes(p_);
        if (bytes > p_.memory && !without_) break;
        // More rows take a few cycles less while a worker has one or two (inner_loops.cc).
        const bool may_shrink = part.rows < 3 * p_.core.workers;
        const int64_t blocks = part.groups * part.input_blocks * part.output_blocks * split_.steps;
        const int64_t slack = may_shrink ? 6 * p_.core.workers * blocks : 0;
        const double least = p_.library * static_cast<double>(inner_loops(p_, split_, part) - slack);
        if (least >= best_total_ && !p_.options.exhaustive) {
          if (split_.steps == 1 && at == last - 1) return;  // steps only add to it
          break;
        }
        consider(part, bytes);
      }
  }

  void consider(const Part& part, double bytes) {
    if (without_ && kind_of(split_) == *without_) return;
    ProductPlan plan{split_, matrix_unit_price(p_, split_, part), bytes, 0};
    const double total = plan.cycles.total();
    if (!is_cheaper(plan, total, best_, best_total_)) return;
    best_ = plan;
    best_total_ = total;
  }

  const Prices& p_;
  std::optional<Kind> without_;
  ProductSplit split_;
  ProductPlan best_;
  double best_total_ = HUGE_VAL;
  int64_t looked_at_ = 1;
};

}  // namespace

ProductPlan plan_product(const Machine& machine, const ProductShape& shape, const ProductOptions& options) {
  return Search(Prices(machine, shape, options), {}).run();
}

ProductPlan second_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options,
                        const ProductPlan& best) {
  return Search(Prices(machine, shape, options), kind_of(best.split)).run();
}

ProductPlan price_product(const Machine& machine, const ProductShape& shape, const ProductOptions& options,
                          const ProductSplit& split) {
  return priced(Prices(machine, shape, options), split);
}

std::string describe_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options) {
  const Prices prices(machine, shape, options);
  const ProductPlan best = Search(prices, {}).run(), second = Search(prices, kind_of(best.split)).run();
  const auto line = [&](const char* what, const ProductPlan& plan) {
    const ProductSplit& s = plan.split;
    const char* method = s.method == ProductMethod::kVector ? "vector products" : "matrix unit";
    return fmt::format(
        "{}: {}, groups in {}, rows in {}, inputs in {}, outputs in {}, {} step(s), blocks of {}: {} of {} "
        "tiles, {:.0f} cycles, {:.0f} of {:.0f} temporary bytes\n",
        what, method, s.groups, s.rows, s.inputs, s.outputs, s.steps, s.group_outputs, s.tiles(),
        prices.tiles, plan.cycles.total(), plan.temporary_bytes, prices.memory);
  };
  std::string text = line("chosen", best);
  for (const auto& [name, cycles] : best.cycles.parts())
    if (cycles > 0) text += fmt::format("  {:<20} {:>12.0f}\n", name, cycles);
  text += line("second of another kind", second);
  if (second.temporary_bytes > prices.memory) return text + "  it does not fit\n";
  const auto ours = best.cycles.parts(), theirs = second.cycles.parts();
  size_t worst = 0;
  for (size_t i = 1; i < ours.size(); ++i)
    if (theirs[i].second - ours[i].second > theirs[worst].second - ours[worst].second) worst = i;
  return text + fmt::format("  it lost most in {}: {:.0f} cycles against {:.0f}\n", theirs[worst].first,
                            theirs[worst].second, ours[worst].second);
}

}  // namespace ipu::target
