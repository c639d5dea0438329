#include "target/products/inner_loops.h"

#include <algorithm>
#include <numeric>

namespace ipu::target {
namespace {

bool is_common(const ProductCore& core) {
  return core.operand_bytes == 2 && (core.units >= 16 || core.partial_bytes == 4);
}

// One block of weights into the matrix unit.
int64_t load_cycles(const ProductCore& core, int64_t group_outputs) {
  return divide_up(std::min(core.units, group_outputs) * core.inputs * core.operand_bytes,
                   core.weight_load_bytes);
}

// Worker cycles for `rows` rows of one block; the first block of the input channels also clears the partial sums, those after it
// find registers as the one before left them.
int64_t worker_cycles(const ProductCore& core, int64_t rows, bool is_first) {
  const int64_t z = is_first ? 1 : 0;
  const bool is_half = core.operand_bytes < 4;
  if (core.type == ProductType::kFp8) {
    if (rows == 0) return 21;
    if (rows == 1) return 35 - 5 * z;
    if (rows == 2) return 40 - 5 * z;
    return 44 - 5 * z + core.row_cycles * (rows - 3);
  }
  if (is_common(core)) {
    const int64_t kept = is_first ? 0 : 7;
    if (rows == 0) return 22 - z;
    if (rows == 1) return 33 - z - kept;
    if (rows == 2) return 42 - z - kept;
    return 38 - z - kept + core.row_cycles * (rows - 3);
  }
  const int64_t cleared = core.partial_bytes == 2 ? 2 : is_half ? 4 : 8;  // cycles per row
  if (rows == 0) return 24;
  const int64_t clear = z * (2 + rows * cleared);
  if (rows == 1) return (is_half ? 39 : 47) + clear;
  if (rows == 2) return (is_half ? 40 : 46) + clear;
  return (is_half ? 41 : 46) + clear + core.row_cycles * (rows - 3);
}

}  // namespace

ProductCore product_core(const Machine& machine, ProductType type, bool wide_weight_loads) {
  ProductCore core;
  core.type = type;
  core.workers = machine.whole("workers");
  const char* name = type == ProductType::kFp16Fp16   ? "fp16_16"
                     : type == ProductType::kFp16Fp32 ? "fp16_32"
                     : type == ProductType::kFp32     ? "fp32"
                                                      : "fp8";
  core.units = machine.whole(std::string(name) + "_units");
  core.inputs = machine.whole(std::string(name) + "_inputs");
  const int64_t macs = machine.whole(std::string(name) + "_macs");
  core.macs = macs;
  core.row_cycles = macs == 0 ? 0 : divide_up(core.units * core.inputs, macs);
  core.operand_bytes = type == ProductType::kFp32 ? 4 : type == ProductType::kFp8 ? 1 : 2;
  core.partial_bytes = type == ProductType::kFp32 || type == ProductType::kFp16Fp32 ? 4 : 2;
  core.weight_load_bytes = machine.whole(wide_weight_loads ? "weight_load_bytes_128" : "weight_load_bytes");
  core.vector_bytes = machine.whole("vector_bytes");
  core.operand_lanes = std::max<int64_t>(core.vector_bytes / std::max<int64_t>(core.operand_bytes, 2), 1);
  core.partial_lanes = std::max<int64_t>(2 * core.vector_bytes / core.partial_bytes, 1);
  return core;
}

BlockWork plain_work(const ProductCore& core, int64_t rows) {
  // As long as the busiest worker, which the supervisor waits for.
  const auto all = [&](bool is_first) {
    const int64_t most = worker_cycles(core, divide_up(rows, core.workers), is_first);
    const int64_t least = worker_cycles(core, rows / core.workers, is_first);
    return std::max(core.workers * most, core.workers * least + 14);
  };
  return {all(true), all(false)};
}

int64_t plain_cycles(const ProductCore& core, const Blocks& blocks, const BlockWork& work) {
  // Registers stay as they are between the blocks of the input channels.
  const int64_t kept = is_common(core) && blocks.inputs > 1 ? 7 : 0;
  const int64_t state = blocks.inputs > 1 ? 4 : 0;
  const int64_t loads = load_cycles(core, blocks.group_outputs);
  const int64_t passes = divide_up(blocks.group_outputs, core.units);
  const int64_t group =
      12 + kept +
      (blocks.inputs - 1) * (16 - kept + blocks.outputs * (19 + passes * (6 + loads + work.later))) + 11 +
      blocks.outputs * (19 - kept + passes * (7 + loads + work.first));
  return 50 + core.workers * state + blocks.groups * group;
}

BlockWork field_work(const ProductCore& core, int64_t rows, int64_t width) {
  // Every row in as many pieces as let all workers have the same number of them; a worker takes whole rows and parts of rows.
  const int64_t cut = core.workers / std::gcd(core.workers, rows);
  const int64_t pieces = rows * cut / core.workers;
  const int64_t entry = (core.operand_bytes < 4 ? 28 : 39) - 3 * core.row_cycles;
  const auto elements_before = [&](int64_t piece) { return piece / cut * width + piece % cut * width / cut; };
  int64_t most = 0;
  for (int64_t begin = 0; begin < rows * cut; begin += pieces) {
    const int64_t end = begin + pieces, entries = (end - 1) / cut - begin / cut + 1;
    most =
        std::max(most, entries * entry + core.row_cycles * (elements_before(end) - elements_before(begin)));
  }
  const int64_t worker = 17 + (core.partial_bytes == 2 ? 1 : 0) + most;
  return {core.workers * worker, core.workers * worker};
}

int64_t field_cycles(const ProductCore& core, const Blocks& blocks, const BlockWork& work,
                     int64_t kernel_rows, int64_t kernel_columns, int64_t filter_rows, int64_t elements) {
  const int64_t loads = load_cycles(core, blocks.group_outputs);
  const int64_t passes = divide_up(blocks.group_outputs, core.units);
  const int64_t start = filter_rows == 1 ? 15 : filter_rows == 2 ? 46 : 60;
  const int64_t position = 12 + passes * (loads + start + 3 + work.later);
  const int64_t kernel = divide_up(kernel_rows, filter_rows) * (14 + kernel_columns * position);
  const int64_t group = 23 * blocks.outputs - 5 + 16 + blocks.inputs * (14 + blocks.outputs * (14 + kernel));
  const int64_t lanes = std::max<int64_t>(core.vector_bytes / core.partial_bytes, 1);
  const int64_t clear =
      blocks.outputs * core.workers * (5 + divide_up(elements * blocks.group_outputs, core.workers * lanes));
  return 217 + blocks.groups * (group + clear);
}

int64_t reduction_cycles(const ProductCore& core, int64_t elements, int64_t depth, bool fast) {
  const int64_t loops = divide_up(divide_up(elements, core.partial_lanes), core.workers);
  return 33 + core.workers * (20 + ((fast ? 1 : 2) * (depth - 1) + 8) * loops);
}

int64_t add_in_place_cycles(const ProductCore& core, int64_t elements) {
  const int64_t lanes = std::max<int64_t>(core.vector_bytes / core.partial_bytes, 1);
  return 11 + core.workers * (58 + 3 * divide_up(divide_up(elements, core.workers), lanes));
}

int64_t cast_cycles(const ProductCore& core, int64_t elements) {
  return core.workers * (26 + divide_up(elements, 2 * core.workers));
}

double copy_cycles(double bytes, int64_t atom) {
  const double cycles_per_byte = atom % 8 == 0 ? 0.44 : atom % 4 == 0 ? 3.125 : 5.15;
  return 587 + bytes * cycles_per_byte;
}

int64_t vector_position_cycles(const ProductCore& core, int64_t inputs, int64_t outputs) {
  return 7 + outputs * (10 + divide_up(inputs, core.operand_lanes));
}

int64_t narrow_position_cycles(const ProductCore& core, int64_t inputs, int64_t outputs) {
  return 7 + outputs * (6 + divide_up(inputs, core.operand_lanes));
}

int64_t depthwise_element_cycles(int64_t kernel_rows, int64_t kernel_columns) {
  return 2 * kernel_rows * (25 + 3 * (kernel_columns - 1));
}

}  // namespace ipu::target
