#include "target/products/product_price.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace ipu::target {
namespace {

// The rows of a plain product, however many dimensions they had.
ProductShape flat(const ProductShape& s) {
  ProductShape shape = s;
  if (!s.is_plain()) return shape;
  shape.rows = s.elements();
  shape.batch = shape.columns = 1;
  return shape;
}

int64_t least(const ProductShape& s) {
  return std::min({s.groups, s.rows, s.inputs, s.outputs, s.batch, s.columns, s.kernel_rows, s.kernel_columns,
                   s.stride_rows, s.stride_columns, s.dilation_rows, s.dilation_columns, s.spread_rows,
                   s.spread_columns});
}

// Elements of an operand that `size` elements of the result read in one direction.
int64_t extent(int64_t size, int64_t stride, int64_t kernel, int64_t dilation, int64_t spread) {
  return ((size - 1) * stride + (kernel - 1) * dilation) / spread + 1;
}

}  // namespace

double ProductShape::macs() const {
  const int64_t positions = divide_up(rows, spread_rows) * divide_up(columns, spread_columns);
  return static_cast<double>(groups * batch * positions) * static_cast<double>(inputs * outputs) *
         static_cast<double>(kernel_elements());
}

const char* word(ProductMethod method) {
  switch (method) {
    case ProductMethod::kMatrixUnit:
      return "matrix unit";
    case ProductMethod::kVector:
      return "vector products";
    case ProductMethod::kNarrow:
      return "narrow groups";
    default:
      return "depthwise";
  }
}

ProductPrices::ProductPrices(const Machine& machine, const ProductShape& product, const ProductOptions& o)
    : options(o),
      shape(flat(product)),
      core(product_core(machine, o.type, o.wide_weight_loads)),
      tiles(std::max<int64_t>(1, static_cast<int64_t>(o.tile_share * machine["tiles"]))),
      tiles_per_bus(machine.whole("tiles_per_exchange_bus")),
      memory(o.memory_proportion * machine["bytes_per_tile"]),
      exchange_bytes_(machine["exchange_bytes_per_cycle"]),
      phase_(machine["phase_cycles"]),
      call_(machine["call_cycles"]),
      temporary_(machine["temporary_factor"]),
      library_(machine["library_factor"]),
      vector_(machine["vector_product_factor"]),
      grouped_(machine["grouped_factor"]),
      sparse_(machine["sparse_factor"]),
      dynamic_sparse_(machine["dynamic_sparse_factor"]),
      narrow_channels_(machine.whole("narrow_group_channels")),
      depthwise_channels_(machine.whole("depthwise_channels")) {
  if (least(product) < 1)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("a product of no elements cannot be planned: {} groups of [{}, {}] x [{}, {}]",
                            shape.groups, shape.rows, shape.inputs, shape.inputs, shape.outputs));
  if (core.units == 0)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("products of this type cannot be planned: machine '{}' has no matrix unit for it",
                            machine.name));
}

FieldCut ProductPrices::field(int64_t batch_parts, int64_t row_parts, int64_t column_parts) const {
  FieldCut cut;
  cut.batch_parts = batch_parts;
  cut.row_parts = row_parts;
  cut.column_parts = column_parts;
  cut.batch = divide_up(shape.batch, batch_parts);
  cut.rows = divide_up(shape.rows, row_parts);
  cut.columns = divide_up(shape.columns, column_parts);
  if (shape.is_plain())
    cut.work = plain_work(core, cut.rows);
  else
    cut.work = field_work(core, cut.batch * divide_up(cut.rows, shape.spread_rows),
                          divide_up(cut.columns, shape.spread_columns));
  return cut;
}

double ProductPrices::operand_elements(const FieldCut& cut, int64_t kernel_rows) const {
  const int64_t rows =
      extent(cut.rows, shape.stride_rows, kernel_rows, shape.dilation_rows, shape.spread_rows);
  const int64_t columns = extent(cut.columns, shape.stride_columns, shape.kernel_columns,
                                 shape.dilation_columns, shape.spread_columns);
  return static_cast<double>(cut.batch * rows * columns);
}

TilePart ProductPrices::part(const ProductSplit& s, const FieldCut& cut) const {
  TilePart part;
  part.blocks.groups = divide_up(shape.groups, s.groups);
  part.blocks.inputs = input_blocks(s);
  part.blocks.outputs = divide_up(divide_up(divide_up(shape.outputs, s.group_outputs), s.outputs), s.steps);
  part.blocks.group_outputs = s.group_outputs;
  part.kernel_rows = divide_up(shape.kernel_rows, s.kernel_rows);
  const double inputs = static_cast<double>(part.blocks.groups * part.blocks.inputs * group_inputs(s));
  const double outputs = static_cast<double>(part.blocks.outputs * s.group_outputs);
  const double operand_bytes = static_cast<double>(core.operand_bytes);
  const int64_t kernel = divide_up(part.kernel_rows, s.filter_rows) * s.filter_rows * shape.kernel_columns;
  part.operand_bytes = operand_elements(cut, part.kernel_rows) * inputs * operand_bytes;
  part.weight_bytes = inputs * outputs * static_cast<double>(kernel) * operand_bytes * options.density;
  part.result_elements = static_cast<double>(part.blocks.groups * cut.elements()) * outputs;
  return s.input_steps == 1 ? part : of_input_step(part, s);
}

TilePart ProductPrices::of_input_step(TilePart part, const ProductSplit& s) const {
  const auto blocks = static_cast<double>(part.blocks.inputs);
  part.blocks.inputs = divide_up(part.blocks.inputs, s.input_steps);
  const double share = static_cast<double>(part.blocks.inputs) / blocks;
  part.operand_bytes *= share;
  part.weight_bytes *= share;
  if (s.input_steps > 1)
    part.sum_bytes = part.result_elements * static_cast<double>(core.partial_bytes) /
                     static_cast<double>(s.inputs * s.kernel_rows);
  return part;
}

double ProductPrices::temporary_bytes(const TilePart& part) const {
  return temporary_ * (part.operand_bytes + part.weight_bytes +
                       part.result_elements * static_cast<double>(core.partial_bytes)) +
         part.sum_bytes;
}

StepCosts ProductPrices::step_costs(const ProductSplit& s, const TilePart& whole) const {
  StepCosts costs;
  const TilePart unit = of_input_step(whole, s);
  const auto loops = [&](int64_t first, int64_t later) {
    FieldCut nothing;
    nothing.batch = 0;
    nothing.work = {first, later};
    return inner_loops(s, unit, nothing);
  };
  costs.fixed = loops(0, 0);
  costs.by_first = loops(1, 0) - costs.fixed;
  costs.by_later = loops(0, 1) - costs.fixed;
  const double of_bytes = static_cast<double>(s.all_steps()) / exchange_bytes_;
  costs.by_operand = of_bytes * unit.operand_bytes * operand_share(s);
  costs.of_all_weights = of_bytes * unit.weight_bytes;
  if (s.inputs * s.kernel_rows > 1)
    costs.by_result = of_bytes * unit.result_elements * static_cast<double>(core.partial_bytes);
  return costs;
}

double ProductPrices::least_exchange(const ProductSplit& s, const TilePart& whole, double operands,
                                     double elements) const {
  double bytes = static_cast<double>(s.steps) * whole.operand_bytes * operands * operand_share(s);
  if (s.inputs * s.kernel_rows > 1)
    bytes += static_cast<double>(s.all_steps() * core.partial_bytes) * whole.result_elements * elements;
  return bytes / exchange_bytes_;
}

double ProductPrices::temporary_bytes(const TilePart& unit, double operands, double elements) const {
  TilePart part = unit;
  part.operand_bytes *= operands;
  part.result_elements *= elements;
  part.sum_bytes *= elements;
  return temporary_bytes(part);
}

TilePart ProductPrices::unit_part(const ProductSplit& s) const {
  const FieldCut one;
  TilePart unit = part(s, one);
  unit.operand_bytes /= operand_elements(one, unit.kernel_rows);
  return unit;
}

double ProductPrices::least_cycles(const StepCosts& c, double operands, const FieldCut& field) const {
  return c.inner_loops(field) + c.by_operand * operands +
         c.of_all_weights * (1 - 1.0 / static_cast<double>(field.parts())) +
         c.by_result * static_cast<double>(field.elements());
}

// Of the operand's bytes, those that come from other tiles, half of them if both tiles of a bus receive them at once.
double ProductPrices::operand_share(const ProductSplit& s) const {
  const double share = s.outputs % tiles_per_bus == 0 ? static_cast<double>(tiles_per_bus) : 1;
  return (1 - 1.0 / static_cast<double>(s.outputs)) / share;
}

double ProductPrices::inner_loops(const ProductSplit& s, const TilePart& part, const FieldCut& cut) const {
  const double steps = static_cast<double>(s.all_steps());
  if (options.sparse_block > 0) {
    const int64_t rate = std::min(core.macs, core.operand_lanes * options.sparse_block);
    const double macs = part.result_elements * static_cast<double>(part.blocks.inputs * group_inputs(s) *
                                                                   part.kernel_rows * shape.kernel_columns);
    return library_ * steps * options.density * macs / static_cast<double>(rate);
  }
  const int64_t cycles = shape.is_plain() ? plain_cycles(core, part.blocks, cut.work)
                                          : field_cycles(core, part.blocks, cut.work, part.kernel_rows,
                                                         shape.kernel_columns, s.filter_rows, cut.elements());
  return library_ * steps * static_cast<double>(cycles);
}

// Partial sums come together in one stage, from 16 of them in two, from 125 in three, all of about the same depth.
void ProductPrices::add_reduction(int64_t depth, double elements, double steps, ProductCycles* cycles) const {
  if (depth == 1) return;
  const int stages = depth < 16 ? 1 : depth < 125 ? 2 : 3;
  double rest = static_cast<double>(depth);
  for (int stage = stages; stage > 0; --stage) {
    const double stage_depth = std::ceil(std::pow(rest, 1.0 / stage) - 1e-9);
    const double sent = elements * static_cast<double>(core.partial_bytes);
    elements = std::ceil(elements / stage_depth);
    rest /= stage_depth;
    cycles->exchange_partials += steps * sent / exchange_bytes_;
    cycles->reduction +=
        steps * static_cast<double>(reduction_cycles(core, static_cast<int64_t>(elements),
                                                     static_cast<int64_t>(stage_depth), options.fast_reduce));
    cycles->phases += steps * phase_;
  }
}

ProductPlan ProductPrices::matrix_unit(const ProductSplit& s, const TilePart& part,
                                       const FieldCut& cut) const {
  ProductCycles cycles;
  const double steps = static_cast<double>(s.all_steps());
  const int64_t depth = s.inputs * s.kernel_rows;
  cycles.inner_loops = inner_loops(s, part, cut);
  const double own_weight = 1.0 / static_cast<double>(s.fields());
  cycles.exchange_operands = steps *
                             (part.operand_bytes * operand_share(s) + part.weight_bytes * (1 - own_weight)) /
                             exchange_bytes_;
  cycles.phases = steps * phase_;
  add_reduction(depth, part.result_elements, steps, &cycles);
  const int64_t elements = divide_up(static_cast<int64_t>(part.result_elements), depth);
  if (s.input_steps > 1) cycles.reduction += steps * static_cast<double>(add_in_place_cycles(core, elements));
  if (core.partial_bytes != core.operand_bytes && options.type != ProductType::kFp8) {
    cycles.cast = static_cast<double>(s.steps * cast_cycles(core, elements));
  }
  const double result_bytes = part.result_elements * static_cast<double>(core.partial_bytes);
  // A step takes what it has of the operands, and stores what it has of the result.
  if (s.all_steps() > 1) {
    double moved = steps * part.weight_bytes;
    if (s.input_steps > 1) moved += steps * part.operand_bytes;
    if (s.steps > 1) moved += static_cast<double>(s.steps) * result_bytes;
    cycles.slices = steps * 100 + moved / static_cast<double>(core.vector_bytes);
  }
  const double operand_bytes = part.operand_bytes * static_cast<double>(s.input_steps);
  // Channels come in whole blocks: those of small groups are taken apart, and a block that is not full is padded.
  if (shape.inputs % (shape.groups > 1 ? core.inputs : group_inputs(s)) != 0)
    cycles.slices += copy_cycles(operand_bytes, shape.inputs * core.operand_bytes);
  else if (shape.is_expanded)
    cycles.slices += copy_cycles(operand_bytes, core.vector_bytes);
  // Results of few channels of 4 bytes each leave their blocks one by one.
  if (options.type == ProductType::kFp32 && shape.outputs <= 4 && !shape.is_plain())
    cycles.slices += copy_cycles(result_bytes / static_cast<double>(depth), core.operand_bytes);
  cycles.call = call_;
  double factor = 1;
  if (shape.groups > 1 && shape.is_plain()) factor = grouped_;
  if (options.sparse_block > 0) factor = sparse_ * (options.is_dynamic ? dynamic_sparse_ : 1);
  if (factor != 1)
    for (double* part_cycles :
         {&cycles.inner_loops, &cycles.exchange_operands, &cycles.exchange_partials, &cycles.reduction,
          &cycles.cast, &cycles.slices, &cycles.phases, &cycles.call})
      *part_cycles *= factor;
  return {s, cycles, temporary_bytes(part), 1};
}

std::vector<int64_t> ProductPrices::filter_rows() const {
  std::vector<int64_t> found{1};
  if (shape.kernel_elements() == 1 || options.type == ProductType::kFp8) return found;
  for (int64_t rows : {2, 4})
    if (const int64_t group = core.inputs / rows; shape.inputs <= group && group % core.operand_lanes == 0)
      found.push_back(rows);
  return found;
}

std::vector<int64_t> ProductPrices::group_outputs() const {
  std::vector<int64_t> found{core.units};
  for (int64_t outputs : {8, 16})
    if (outputs != core.units && (outputs == 8 || core.operand_bytes < 4)) found.push_back(outputs);
  return found;
}

bool ProductPrices::is_narrow() const { return shape.groups > 1 && shape.inputs < narrow_channels_; }

bool ProductPrices::is_depthwise() const {
  return shape.groups > 1 && shape.inputs == 1 && shape.outputs == 1 && core.operand_bytes == 2 &&
         depthwise_channels_ > 0;
}

// The groups and then the elements of the field over the tiles, or fewer groups of each tile, whichever leaves least to a tile.
ProductPlan ProductPrices::spread_plan(ProductMethod method, int64_t groups, double element_cycles) const {
  ProductPlan plan;
  plan.split.method = method;
  const int64_t elements =
      divide_up(shape.rows, shape.spread_rows) * shape.batch * divide_up(shape.columns, shape.spread_columns);
  double most = HUGE_VAL;
  for (int64_t parts = std::min(groups, tiles); parts >= 1;) {
    const int64_t part = divide_up(groups, parts);
    const int64_t fields = std::min(elements, tiles / parts);
    const int64_t rounds = divide_up(divide_up(elements, fields), core.workers);
    const double cycles = static_cast<double>(part * core.workers * rounds) * element_cycles;
    if (cycles < most) {
      most = cycles;
      plan.split.groups = parts;
      plan.split.rows = fields;
    }
    if (parts == 1) break;
    parts = std::min(parts - 1, divide_up(groups, part + 1));
  }
  plan.cycles.inner_loops = most;
  plan.cycles.phases = phase_;
  plan.cycles.call = call_;
  plan.temporary_bytes = temporary_ * static_cast<double>(2 * core.workers * core.vector_bytes);
  plan.looked_at = 1;
  return plan;
}

// Bytes of the operand of a tile, of groups of so many channels.
double ProductPrices::spread_bytes(const ProductSplit& s, int64_t groups, int64_t channels) const {
  const int64_t elements = divide_up(shape.elements(), s.rows);
  return static_cast<double>(shape.stride_rows * shape.stride_columns * elements *
                             divide_up(groups, s.groups) * channels * core.operand_bytes);
}

ProductPlan ProductPrices::vector_plan() const {
  const int64_t position = vector_position_cycles(core, shape.inputs, shape.outputs);
  ProductPlan plan = spread_plan(ProductMethod::kVector, shape.groups,
                                 vector_ * static_cast<double>(shape.kernel_elements() * position));
  plan.cycles.inner_loops += 60 * vector_ * static_cast<double>(divide_up(shape.groups, plan.split.groups));
  return plan;
}

ProductPlan ProductPrices::narrow_plan() const {
  const int64_t position = narrow_position_cycles(core, shape.inputs, shape.outputs);
  ProductPlan plan = spread_plan(ProductMethod::kNarrow, shape.groups,
                                 static_cast<double>(shape.kernel_elements() * position));
  // The operand comes with the channels of all groups side by side, and is taken apart.
  const double bytes = spread_bytes(plan.split, shape.groups, shape.inputs);
  plan.cycles.exchange_operands = bytes / exchange_bytes_;
  plan.cycles.slices = copy_cycles(bytes, shape.inputs * core.operand_bytes);
  return plan;
}

ProductPlan ProductPrices::depthwise_plan() const {
  const int64_t chunks = divide_up(shape.groups, depthwise_channels_);
  ProductPlan plan =
      spread_plan(ProductMethod::kDepthwise, chunks,
                  static_cast<double>(depthwise_element_cycles(shape.kernel_rows, shape.kernel_columns)));
  // The operand of a tile with what lies around it.
  const double halo = shape.kernel_elements() == 1 ? 1 : 1.4;
  const double bytes = halo * spread_bytes(plan.split, chunks, depthwise_channels_);
  plan.cycles.exchange_operands = bytes / exchange_bytes_;
  plan.temporary_bytes = temporary_ * 2 * bytes;
  return plan;
}

}  // namespace ipu::target
