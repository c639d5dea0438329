#include "lowering/link.h"

#include <algorithm>
#include <iterator>

namespace ipu::lowering {
namespace {

using program::IpuProgram;
using program::Opcode;

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <typename Visit>
void for_each_call(const IpuProgram& code, Visit visit) {
  for (const program::Instruction& step : code.instructions)
    if (step.opcode == Opcode::kCall) visit(static_cast<size_t>(step.object));
}

// Buffers and code of `part` behind those of `all`. Returns the number of its first buffer.
int append(IpuProgram& all, IpuProgram part, int64_t frame, int first_counter) {
  const int first = static_cast<int>(all.instructions.size());
  const int first_buffer = static_cast<int>(all.buffers.size());
  all.arena_bytes = std::max(all.arena_bytes, frame + part.arena_bytes);
  all.counters = std::max(all.counters, first_counter + part.counters);
  for (program::Buffer& buffer : part.buffers)
    if (buffer.storage == program::Storage::kArena) buffer.offset += frame;
  std::move(part.buffers.begin(), part.buffers.end(), std::back_inserter(all.buffers));
  for (program::Instruction& step : part.instructions) {
    if (step.target >= 0) step.target += first;
    if (step.counter >= 0) step.counter += first_counter;
    for (auto* list : {&step.operands, &step.results})
      for (program::Operand& operand : *list)
        if (operand.buffer >= 0) operand.buffer += first_buffer;
    all.instructions.push_back(std::move(step));
  }
  return first_buffer;
}

}  // namespace

IpuProgram link(std::vector<IpuProgram> entries, std::vector<SubroutineCode> subroutines) {
  if (entries.size() == 1 && subroutines.empty()) return std::move(entries.front());
  const size_t n = subroutines.size();
  std::vector<int64_t> frames(n, 0), peaks(n, 0);
  auto call_from = [&](const IpuProgram& code, int64_t frame) {
    for_each_call(code, [&](size_t called) {
      frames[called] = std::max(frames[called], frame + rounded(code.arena_bytes));
    });
  };
  auto peak_of = [&](const IpuProgram& code) {
    int64_t called_peak = 0;
    for_each_call(code, [&](size_t called) { called_peak = std::max(called_peak, peaks[called]); });
    return code.peak_bytes + called_peak;
  };
  for (const IpuProgram& entry : entries) call_from(entry, 0);
  for (size_t s = n; s-- > 0;) call_from(subroutines[s].code, frames[s]);  // callers come later in the list
  for (size_t s = 0; s < n; ++s) peaks[s] = peak_of(subroutines[s].code);

  IpuProgram all;
  for (IpuProgram& entry : entries) {
    const int64_t peak = peak_of(entry);
    std::vector<int> live = std::move(entry.live_at_peak);
    all.entries.push_back(static_cast<int>(all.instructions.size()));
    const int first_buffer = append(all, std::move(entry), 0, 0);
    if (peak <= all.peak_bytes) continue;
    all.peak_bytes = peak;
    for (int& buffer : live) buffer += first_buffer;
    all.live_at_peak = std::move(live);
  }
  if (entries.size() == 1) all.entries.clear();
  for (size_t s = 0; s < n; ++s) {
    program::Subroutine interface = std::move(subroutines[s].interface);
    interface.begin = static_cast<int>(all.instructions.size());
    const int first_buffer = append(all, std::move(subroutines[s].code), frames[s], all.counters);
    for (auto* list : {&interface.inputs, &interface.outputs})
      for (int& buffer : *list) buffer += first_buffer;
    all.subroutines.push_back(std::move(interface));
  }
  return all;
}

}  // namespace ipu::lowering
