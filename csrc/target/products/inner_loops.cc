#include "target/products/inner_loops.h"

#include <algorithm>

namespace ipu::target {
namespace {

// Worker cycles for `rows` rows of one block; the first block of the input channels also clears the partial sums, those after it
// find registers as the one before left them.
int64_t worker_cycles(const ProductCore& core, int64_t rows, bool is_first) {
  const int64_t z = is_first ? 1 : 0;
  const bool is_half = core.operand_bytes < 4;
  const bool is_common = is_half && (core.units >= 16 || core.partial_bytes == 4);
  if (is_common) {
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

// All workers of a tile: as long as the busiest one, which the supervisor waits for.
int64_t tile_cycles(const ProductCore& core, int64_t rows, bool is_first) {
  const int64_t most = worker_cycles(core, divide_up(rows, core.workers), is_first);
  const int64_t least = worker_cycles(core, rows / core.workers, is_first);
  return std::max(core.workers * most, core.workers * least + 14);
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
  core.row_cycles = macs == 0 ? 0 : divide_up(core.units * core.inputs, macs);
  core.operand_bytes = type == ProductType::kFp32 ? 4 : type == ProductType::kFp8 ? 1 : 2;
  core.partial_bytes = type == ProductType::kFp32 || type == ProductType::kFp16Fp32 ? 4 : 2;
  core.weight_load_bytes = machine.whole(wide_weight_loads ? "weight_load_bytes_128" : "weight_load_bytes");
  core.vector_bytes = machine.whole("vector_bytes");
  core.operand_lanes = std::max<int64_t>(core.vector_bytes / std::max<int64_t>(core.operand_bytes, 2), 1);
  core.partial_lanes = std::max<int64_t>(2 * core.vector_bytes / core.partial_bytes, 1);
  return core;
}

int64_t matrix_unit_cycles(const ProductCore& core, int64_t groups, int64_t input_blocks,
                           int64_t output_blocks, int64_t group_outputs, int64_t rows) {
  const bool is_common = core.operand_bytes < 4 && (core.units >= 16 || core.partial_bytes == 4);
  // Registers stay as they are between the blocks of the input channels.
  const int64_t kept = is_common && input_blocks > 1 ? 7 : 0;
  const int64_t state = input_blocks > 1 ? 4 : 0;
  const int64_t loads = divide_up(std::min(core.units, group_outputs) * core.inputs * core.operand_bytes,
                                  core.weight_load_bytes);
  const int64_t passes = divide_up(group_outputs, core.units);
  const int64_t first = tile_cycles(core, rows, true), later = tile_cycles(core, rows, false);
  const int64_t group =
      12 + kept + (input_blocks - 1) * (16 - kept + output_blocks * (19 + passes * (6 + loads + later))) +
      11 + output_blocks * (19 - kept + passes * (7 + loads + first));
  return 50 + core.workers * state + groups * group;
}

int64_t reduction_cycles(const ProductCore& core, int64_t elements, int64_t depth) {
  const int64_t loops = divide_up(divide_up(elements, core.partial_lanes), core.workers);
  return 33 + core.workers * (20 + (2 * (depth - 1) + 8) * loops);
}

int64_t cast_cycles(const ProductCore& core, int64_t elements) {
  return core.workers * (26 + divide_up(elements, 2 * core.workers));
}

double copy_cycles(double bytes, int64_t atom) {
  const double cycles_per_byte = atom % 8 == 0 ? 0.44 : atom % 4 == 0 ? 3.125 : 5.15;
  return 587 + bytes * cycles_per_byte;
}

int64_t vector_product_cycles(const ProductCore& core, int64_t rows, int64_t inputs, int64_t outputs) {
  const int64_t row = 7 + outputs * (10 + divide_up(inputs, core.operand_lanes));
  return 60 + core.workers * divide_up(rows, core.workers) * row;
}

}  // namespace ipu::target
