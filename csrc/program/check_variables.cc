// A variable has a shape the host sees and a spec it is stored with. Copies between the two
// (emulator/engine.cc) take the sizes of both sides from here: if they differ, a copy leaves the memory of
// one of them.
#include "program/check_variables.h"

#include <fmt/core.h>

#include <limits>

#include "program/stored_panels.h"
#include "support/error.h"

namespace ipu::program {
namespace {

// Elements of `shape` from dimension `from` on; -1: negative, or too many bytes for an address.
int64_t elements(const Shape& shape, DType dtype, size_t from = 0) {
  int64_t count = 1;
  bool is_empty = false;
  for (size_t d = from; d < shape.size(); ++d) {
    if (shape[d] < 0) return -1;
    is_empty |= shape[d] == 0;
    if (shape[d] > 0 && __builtin_mul_overflow(count, shape[d], &count)) return -1;
  }
  if (count > std::numeric_limits<int64_t>::max() / size_in_bytes(dtype)) return -1;
  return is_empty ? 0 : count;
}

// What kernel "convert_layout" takes for each layout.
bool is_stored_form(const Variable& variable, const Shape& plain) {
  const TensorSpec& stored = variable.spec;
  if (stored.layout.is_plain())
    return stored.is_contiguous() && elements(plain, stored.dtype) == elements(stored.shape, stored.dtype);
  if (!stored.layout.is_supported(stored.shape)) return false;
  if (stored.layout.is_blocked()) {
    const int64_t columns = stored.shape[1];
    return plain.size() >= 2 && (columns == plain.front() || panels_run_along_last(variable)) &&
           stored.shape[0] == (columns == 0 ? 0 : elements(plain, stored.dtype) / columns);
  }
  return stored.shape == plain;
}

// A shard of the host's value, without layout, for each replica of a group.
bool is_shard(const Program& program, const Variable& variable, const Shape& plain) {
  const int64_t all = elements(plain, variable.spec.dtype), shards = variable.shards;
  const int64_t members = program.job_replicas() / variable.groups.count(program.job_replicas());
  return shards >= 1 && members % shards == 0 && variable.spec.is_contiguous() &&
         variable.spec.shape == Shape{all / shards + (all % shards != 0 ? 1 : 0)};
}

constexpr int64_t kMostRemoteBytes = int64_t{1} << 46;

void check_remote_buffers(const Program& program) {
  const int ipus = program.ipu_count();
  for (const RemoteBuffer& buffer : program.remote_buffers) {
    auto require = [&](bool condition, const std::string& what) {
      if (!condition)
        throw Error(ErrorCode::kInvalidProgram,
                    fmt::format("invalid program: remote buffer {}: {}", buffer.name, what));
    };
    require(buffer.ipu >= 0 && buffer.ipu < ipus, "is on no IPU of the program");
    require(buffer.spec.is_contiguous() && elements(buffer.spec.shape, buffer.spec.dtype) >= 0,
            "its entries are not contiguous, or of a size that is negative or overflows");
    require(buffer.entries >= 1, fmt::format("it has {} entries", buffer.entries));
    require(buffer.spec.stored_bytes() <= kMostRemoteBytes / buffer.entries,
            fmt::format("{} entries of {} bytes are more than there can be", buffer.entries,
                        buffer.spec.stored_bytes()));
  }
}

std::string text(const Shape& shape) { return ipu::to_string(std::span<const int64_t>(shape)); }

}  // namespace

void check_variables(const Program& program) {
  check_remote_buffers(program);
  for (const Variable& variable : program.variables) {
    auto require = [&](bool condition, const std::string& what) {
      if (!condition)
        throw Error(ErrorCode::kInvalidProgram,
                    fmt::format("invalid program: variable {}: {}", variable.name, what));
    };
    const TensorSpec& stored = variable.spec;
    const Shape& plain = variable.shape.empty() ? stored.shape : variable.shape;
    require(elements(plain, stored.dtype) >= 0 && elements(stored.shape, stored.dtype) >= 0,
            "its size is negative or overflows");
    const int64_t width = size_in_bytes(stored.dtype);
    require(stored.layout.is_plain() || width == 4 || width == 2,
            fmt::format("elements of {} bytes have no such layout", width));
    if (variable.remote_buffer >= 0) {
      require(variable.remote_buffer < static_cast<int>(program.remote_buffers.size()),
              "it lives in a remote buffer that is not there");
      const RemoteBuffer& buffer = program.remote_buffers[static_cast<size_t>(variable.remote_buffer)];
      require(variable.remote_entry >= 0 && variable.remote_entry < buffer.entries,
              fmt::format("it lives in entry {} of remote buffer {}, which has {}", variable.remote_entry,
                          buffer.name, buffer.entries));
      require(
          stored == buffer.spec && variable.ipu == buffer.ipu,
          fmt::format("it is no entry of remote buffer {}: of another type, or on another IPU", buffer.name));
    }
    require(variable.shards == 1 || is_shard(program, variable, plain),
            fmt::format("{} in {} shards is not what is stored, {}", text(plain), variable.shards,
                        text(stored.shape)));
    require(variable.shards != 1 || is_stored_form(variable, plain),
            fmt::format("the host's {} is not what is stored, {} in layout {}", text(plain),
                        text(stored.shape), ipu::to_string(stored.layout)));
    if (variable.constant < 0) continue;
    const ConstantPtr& initial = program.constants[static_cast<size_t>(variable.constant)];
    require(initial != nullptr, "its initial value is missing");
    require(initial->dtype == stored.dtype, "its initial value is of another type");
    const int64_t bytes = elements(plain, stored.dtype) * width;
    const auto given = static_cast<int64_t>(initial->bytes.size());
    const int64_t groups = variable.groups.count(program.job_replicas());
    require(given == bytes || (initial->shape.empty() && given == width) ||
                (given / groups == bytes && given % groups == 0),
            fmt::format("its initial value has {} bytes, not {}", given, bytes));
  }
}

}  // namespace ipu::program
