#include "target/products/product_plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "target/products/product_price.h"
#include "target/products/product_search.h"

namespace ipu::target {
namespace {

constexpr int64_t kMostSteps = 64;

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

}  // namespace

ProductKind kind_of(const ProductSplit& s) {
  return {s.method, s.all_steps() > 1, s.inputs * s.kernel_rows > 1};
}

ProductSearch::ProductSearch(const ProductPrices& prices, std::optional<ProductKind> without)
    : p_(prices), without_(without) {
  find_cuts();
}

ProductPlan ProductSearch::run() {
  best_total_ = HUGE_VAL;
  if (p_.is_narrow()) {
    consider(p_.narrow_plan());
  } else {
    consider(p_.vector_plan());
    if (p_.is_depthwise()) consider(p_.depthwise_plan());
    split_.method = ProductMethod::kMatrixUnit;
    for (int64_t parts : cuts(p_.shape.kernel_rows, p_.tiles, false, p_.options.exhaustive)) {
      split_.kernel_rows = parts;
      find_fields(divide_up(p_.shape.kernel_rows, parts));
      for (int64_t rows : p_.filter_rows())
        for (int64_t outputs : p_.group_outputs()) {
          split_.filter_rows = rows;
          split_.group_outputs = outputs;
          over_channels();
        }
    }
  }
  if (best_total_ == HUGE_VAL) best_ = p_.vector_plan();  // the only kind there is
  best_.looked_at = looked_at_;
  return best_;
}

// All cuts of the field, from the least work of a tile to the most.
void ProductSearch::find_cuts() {
  const bool all = p_.options.exhaustive;
  const ProductShape& s = p_.shape;
  for (int64_t batch : cuts(s.batch, p_.tiles, false, all))
    for (int64_t rows : cuts(s.rows, p_.tiles / batch, false, all))
      for (int64_t columns : cuts(s.columns, p_.tiles / (batch * rows), false, all))
        cuts_.push_back(p_.field(batch, rows, columns));
  const auto order = [](const FieldCut& cut) {
    return std::make_tuple(cut.work.later, cut.work.first, cut.parts(), cut.elements(), cut.row_parts,
                           cut.column_parts);
  };
  std::sort(cuts_.begin(), cuts_.end(),
            [&](const FieldCut& a, const FieldCut& b) { return order(a) < order(b); });
}

// Those that no other one beats in all that is priced, for a part of the kernel.
void ProductSearch::find_fields(int64_t kernel_rows) {
  struct Measures {
    int64_t parts, elements, first;
    double operand;
  };
  std::vector<Measures> kept;
  fields_.clear();
  for (const FieldCut& cut : cuts_) {
    const Measures mine{cut.parts(), cut.elements(), cut.work.first, p_.operand_elements(cut, kernel_rows)};
    const auto is_better = [&](const Measures& other) {
      return other.parts <= mine.parts && other.operand <= mine.operand && other.elements <= mine.elements &&
             other.first <= mine.first;
    };
    if (!p_.options.exhaustive && std::any_of(kept.rbegin(), kept.rend(), is_better)) continue;
    fields_.push_back(cut);
    kept.push_back(mine);
  }
  operands_.resize(kept.size());
  for (size_t i = 0; i < kept.size(); ++i) operands_[i] = kept[i].operand;
  of_parts_.assign(static_cast<size_t>(p_.tiles) + 1, {fields_.size(), HUGE_VAL, HUGE_VAL});
  for (size_t i = fields_.size(); i-- > 0;) {
    Fewer& entry = of_parts_[static_cast<size_t>(fields_[i].parts())];
    entry = {i, std::min(entry.operand, operands_[i]),
             std::min(entry.result, static_cast<double>(fields_[i].elements()))};
  }
  for (size_t parts = 1; parts < of_parts_.size(); ++parts) {
    Fewer &entry = of_parts_[parts], &before = of_parts_[parts - 1];
    entry = {std::min(entry.first, before.first), std::min(entry.operand, before.operand),
             std::min(entry.result, before.result)};
  }
}

void ProductSearch::over_channels() {
  const bool all = p_.options.exhaustive;
  const ProductShape& s = p_.shape;
  const int64_t tiles = p_.tiles / split_.kernel_rows;
  const int64_t output_blocks = divide_up(s.outputs, split_.group_outputs);
  const std::vector<int64_t> groups = cuts(s.groups, tiles, false, all);
  const std::vector<int64_t> inputs = cuts(divide_up(s.inputs, p_.group_inputs(split_)), tiles, false, all);
  const std::vector<int64_t> outputs = cuts(output_blocks, tiles, p_.tiles_per_bus == 2, all);
  for (int64_t g : groups)
    for (int64_t i : inputs) {
      if (g * i > tiles) break;
      for (int64_t o : outputs) {
        if (g * i * o > tiles) break;
        split_.groups = g;
        split_.inputs = i;
        split_.outputs = o;
        if (!over_fields(divide_up(output_blocks, o))) break;
      }
    }
}

// False: not even the operand fits, nor will it with the output channels in more parts.
bool ProductSearch::over_fields(int64_t output_blocks) {
  const int64_t most = p_.tiles / (split_.groups * split_.kernel_rows * split_.inputs * split_.outputs);
  const int64_t most_steps = std::min(p_.input_blocks(split_), kMostSteps);
  const Fewer& fewer = of_parts_[static_cast<size_t>(most)];
  const bool is_bounded = !p_.options.exhaustive;
  for (split_.steps = 1; split_.steps <= std::min(output_blocks, kMostSteps); split_.steps *= 2) {
    split_.input_steps = 1;
    const TilePart whole = p_.unit_part(split_);
    const auto fits = [&](const TilePart& part, double operands, double results) {
      return without_ || p_.temporary_bytes(p_.of_input_step(part, split_), operands, results) <= p_.memory;
    };
    if (is_bounded) {
      // As many steps over the input channels as any field needs.
      while (!fits(whole, fewer.operand, fewer.result) && 2 * split_.input_steps <= most_steps)
        split_.input_steps *= 2;
      if (!fits(whole, fewer.operand, fewer.result)) {
        TilePart operand = whole;
        operand.weight_bytes = 0;
        if (!fits(operand, fewer.operand, 0)) return false;
        continue;
      }
    }
    if (is_bounded && p_.least_exchange(split_, whole, fewer.operand, fewer.result) >= best_total_) continue;
    const int64_t fewest_steps = split_.input_steps;
    const StepCosts least = p_.step_costs(split_, whole);
    for (size_t i = fewer.first; i < fields_.size(); ++i) {
      const FieldCut& field = fields_[i];
      if (field.parts() > most) continue;
      ++looked_at_;
      if (least.inner_loops(field) >= best_total_ && is_bounded) {
        if (split_.steps == 1 && fewest_steps == 1 && i == fewer.first) return true;  // steps only add to it
        break;  // and so do fields of more work
      }
      if (p_.least_cycles(least, operands_[i], field) >= best_total_ && is_bounded) continue;
      split_.batch = field.batch_parts;
      split_.rows = field.row_parts;
      split_.columns = field.column_parts;
      for (split_.input_steps = fewest_steps; split_.input_steps <= most_steps; split_.input_steps *= 2) {
        if (!fits(whole, operands_[i], static_cast<double>(field.elements()))) continue;
        consider(p_.matrix_unit(split_, p_.part(split_, field), field));
        if (is_bounded) break;  // more steps take longer
      }
    }
  }
  return true;
}

void ProductSearch::consider(const ProductPlan& plan) {
  if (without_ && kind_of(plan.split) == *without_) return;
  const double total = plan.cycles.total();
  if (best_total_ != HUGE_VAL && !is_cheaper(plan, total, best_, best_total_)) return;
  best_ = plan;
  best_total_ = total;
}

ProductOptions on_machine(const Machine& machine, ProductOptions options) {
  if (options.type == ProductType::kFp8 && machine["fp8_units"] == 0) options.type = ProductType::kFp16Fp16;
  return options;
}

ProductPlan plan_product(const Machine& machine, const ProductShape& shape, const ProductOptions& options) {
  if (options.sparse_block > 0) {
    // The library takes the split of the dense product.
    ProductOptions dense = options;
    dense.sparse_block = 0;
    dense.density = 1;
    return price_product(machine, shape, options, plan_product(machine, shape, dense).split);
  }
  return ProductSearch(ProductPrices(machine, shape, options), {}).run();
}

ProductPlan second_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options,
                        const ProductPlan& best) {
  return ProductSearch(ProductPrices(machine, shape, options), kind_of(best.split)).run();
}

ProductPlan price_product(const Machine& machine, const ProductShape& shape, const ProductOptions& options,
                          const ProductSplit& split) {
  const ProductPrices prices(machine, shape, options);
  switch (split.method) {
    case ProductMethod::kVector:
      return prices.vector_plan();
    case ProductMethod::kNarrow:
      return prices.narrow_plan();
    case ProductMethod::kDepthwise:
      return prices.depthwise_plan();
    default:
      break;
  }
  const FieldCut field = prices.field(split.batch, split.rows, split.columns);
  return prices.matrix_unit(split, prices.part(split, field), field);
}

// Nodes stay where they are and are only ever added, without a lock, which a fork could leave taken.
const ProductPlan& known_plan(const Machine& machine, const ProductShape& shape,
                              const ProductOptions& options) {
  struct Node {
    const Machine* machine;
    ProductShape shape;
    ProductOptions options;
    ProductPlan plan;
    Node* next;
  };
  constexpr size_t kBuckets = 1024;
  static std::array<std::atomic<Node*>, kBuckets> buckets{};
  uint64_t hash = 0;
  for (int64_t size :
       {shape.groups, shape.rows, shape.inputs, shape.outputs, shape.batch, shape.columns, shape.kernel_rows,
        shape.kernel_columns, shape.stride_rows, static_cast<int64_t>(options.type),
        static_cast<int64_t>(1000 * options.memory_proportion)})
    hash = (hash ^ static_cast<uint64_t>(size)) * 0x9E3779B97F4A7C15u;
  std::atomic<Node*>& bucket = buckets[(hash >> 40) % kBuckets];
  for (Node* node = bucket.load(); node != nullptr; node = node->next)
    if (node->machine == &machine && node->shape == shape && node->options == options) return node->plan;
  Node* node = new Node{&machine, shape, options, plan_product(machine, shape, options), bucket.load()};
  while (!bucket.compare_exchange_weak(node->next, node)) {
  }
  return node->plan;
}

}  // namespace ipu::target
