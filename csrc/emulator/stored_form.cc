#include "emulator/stored_form.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "emulator/host_memory.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "program/stored_panels.h"
#include "support/error.h"

namespace ipu::emulator {
namespace {

constexpr const char* kKernel = "convert_layout";

// The request to the kernel that knows layouts.
struct Conversion {
  Conversion(const program::Variable& variable, const TensorSpec& from, const TensorSpec& to)
      : attributes{{"layout", std::string(to_string(to.layout))}}, request{{&from, 1}, {&to, 1}, attributes} {
    if (variable.spec.layout.is_blocked() && !program::panels_run_along_last(variable))
      attributes.set(variable.plain().shape.size() == 2 ? "transpose" : "conv_weight", true);
  }
  Attributes attributes;
  kernels::KernelRequest request;
};

void convert(const program::Variable& variable, const TensorSpec& from, const std::byte* in,
             const TensorSpec& to, std::byte* out) {
  if (from.layout == to.layout) {
    if (from.stored_bytes() > 0) std::memcpy(out, in, static_cast<size_t>(from.stored_bytes()));
    return;
  }
  const kernels::KernelDef* def = kernels::find_kernel(kKernel);
  std::unique_ptr<kernels::PreparedKernel> kernel;
  if (def != nullptr) kernel = def->prepare(Conversion(variable, from, to).request);
  if (kernel == nullptr)
    throw Error(ErrorCode::kExecution,
                fmt::format("no kernel converts layouts: variable '{}' is stored as {}", variable.name,
                            to_string(variable.spec.layout)));
  HostMemory scratch(kernel->scratch_bytes(), "layout conversion");
  auto* operand = const_cast<std::byte*>(in);  // only read
  for (int lane = 0; lane < kernel->lanes(); ++lane) kernel->run({&operand, &out, scratch.data()}, lane);
}

// What the host has, as the kernel is to see it: a matrix where panels run along the last dimension.
TensorSpec given(const program::Variable& variable) {
  const bool is_matrix = variable.spec.layout.is_blocked() && program::panels_run_along_last(variable);
  return is_matrix ? TensorSpec::plain(variable.spec.dtype, variable.spec.shape) : variable.plain();
}

// Where a shard lies in the whole value; the last ones may end before their memory does.
struct Part {
  int64_t at, bytes;
};
Part part_of(const program::Variable& variable, int64_t shard) {
  const int64_t all = variable.plain().stored_bytes(), own = variable.spec.stored_bytes();
  const int64_t at = std::min(all, shard * own);
  return {at, std::min(own, all - at)};
}

void prove(const program::Variable& variable, const TensorSpec& from, const TensorSpec& to) {
  const kernels::Footprint footprint =
      kernels::find_kernel(kKernel)->footprint(Conversion(variable, from, to).request);
  const kernels::Extent read = footprint.operands.at(0), written = footprint.results.at(0);
  if (read.begin < 0 || read.end > from.stored_bytes() || written.begin < 0 ||
      written.end > to.stored_bytes())
    throw Error(ErrorCode::kInvalidProgram,
                fmt::format("invalid program: a copy of variable {} leaves its memory", variable.name));
}

}  // namespace

void plain_to_stored(const program::Variable& variable, int64_t shard, const std::byte* plain,
                     std::byte* stored) {
  if (variable.shards == 1) return convert(variable, given(variable), plain, variable.spec, stored);
  const Part part = part_of(variable, shard);
  if (part.bytes > 0) std::memcpy(stored, plain + part.at, static_cast<size_t>(part.bytes));
  const int64_t padding = variable.spec.stored_bytes() - part.bytes;
  if (padding > 0) std::memset(stored + part.bytes, 0, static_cast<size_t>(padding));
}

void stored_to_plain(const program::Variable& variable, int64_t shard, const std::byte* stored,
                     std::byte* plain) {
  if (variable.shards == 1) return convert(variable, variable.spec, stored, given(variable), plain);
  const Part part = part_of(variable, shard);
  if (part.bytes > 0) std::memcpy(plain + part.at, stored, static_cast<size_t>(part.bytes));
}

void prove_forms(const program::Variable& variable) {
  if (variable.spec.layout.is_plain()) return;  // check_program: the same bytes
  try {
    prove(variable, given(variable), variable.spec);
    prove(variable, variable.spec, given(variable));
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidProgram,
                fmt::format("invalid program: variable {}: {}", variable.name, error.message()));
  }
}

}  // namespace ipu::emulator
