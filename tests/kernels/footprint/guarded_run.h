// Runs a kernel on memory of which exactly the bytes of its statement can be touched: forbidden pages stand
// behind the last byte of each operand, result and scratch, or before the first one.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/footprint.h"
#include "support/half.h"
#include "tests/kernels/footprint/guarded_memory.h"
#include "tests/kernels/kernel_step.h"

namespace ipu::kernels::guarded {

using kernel_tests::Guard;
using kernel_tests::GuardedMemory;
using kernel_tests::KernelStep;

inline Footprint footprint_of(const KernelStep& step) {
  const KernelDef* def = find_kernel(step.id);
  if (def == nullptr || def->footprint == nullptr) {
    ADD_FAILURE() << step.id << " has no statement";
    return {};
  }
  return def->footprint(step.request());
}

using Bytes = std::vector<std::byte>;

// Contents for the stated bytes of each operand: numbers around 0, indices in [0, most].
inline std::vector<Bytes> random_contents(const KernelStep& step, const Footprint& footprint,
                                          int32_t most = 3, uint32_t seed = 11) {
  constexpr size_t kPeriod = 4093;  // large operands repeat themselves
  std::mt19937 random(seed);
  std::vector<Bytes> contents;
  for (size_t i = 0; i < footprint.operands.size(); ++i) {
    Bytes& bytes =
        contents.emplace_back(static_cast<size_t>(footprint.operands[i].end - footprint.operands[i].begin));
    const DType dtype = step.operands[i].dtype;
    const auto size = static_cast<size_t>(size_in_bytes(dtype));
    for (size_t at = 0; at + size <= bytes.size(); at += size) {
      if (at >= kPeriod * size) {
        std::memcpy(&bytes[at], &bytes[at - kPeriod * size], size);
        continue;
      }
      const float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
      const auto index = static_cast<int32_t>(random() % static_cast<uint32_t>(most + 1));
      const uint16_t half = float_to_half(value);
      if (dtype == DType::kF32)
        std::memcpy(&bytes[at], &value, 4);
      else if (dtype == DType::kF16)
        std::memcpy(&bytes[at], &half, 2);
      else
        std::memcpy(&bytes[at], &index, std::min<size_t>(size, 4));
    }
  }
  return contents;
}

// The stated bytes of all results after all lanes have run. `room`: bytes that may be touched besides.
inline std::vector<Bytes> run(const PreparedKernel& kernel, const KernelStep& step,
                              const Footprint& footprint, const std::vector<Bytes>& contents, Guard guard,
                              StopSignal* stop = nullptr, int64_t room = 0) {
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<std::byte*> operands, results;
  auto place = [&](const Extent& extent) {
    memory.push_back(std::make_unique<GuardedMemory>(extent.end - extent.begin + 2 * room));
    const Extent with_room{extent.begin - room, extent.end + room};
    return memory.back()->place(with_room, guard);
  };
  for (size_t i = 0; i < footprint.operands.size(); ++i) {
    const Extent& extent = footprint.operands[i];
    std::byte* const at = place(extent);
    if (!contents[i].empty()) std::memcpy(at + extent.begin, contents[i].data(), contents[i].size());
    operands.push_back(step.request().is_absent(i) ? nullptr : at);
  }
  for (const Extent& extent : footprint.results) {
    results.push_back(place(extent));
    std::memset(results.back() + extent.begin, 0xa5, static_cast<size_t>(extent.end - extent.begin));
  }
  const int64_t scratch_bytes = (kernel.scratch_bytes() + 63) / 64 * 64;
  const GuardedMemory scratch_memory(scratch_bytes);
  std::byte* const scratch = scratch_memory.place(scratch_bytes, guard);
  KernelFault fault;
  for (int lane = 0; lane < kernel.lanes(); ++lane) {
    std::memset(scratch, 0x7f, static_cast<size_t>(scratch_bytes));
    kernel.run({operands.data(), results.data(), scratch, &fault, stop}, lane);
  }
  std::vector<Bytes> written;
  for (size_t i = 0; i < footprint.results.size(); ++i)
    written.emplace_back(results[i] + footprint.results[i].begin, results[i] + footprint.results[i].end);
  return written;
}

// The statement accepts the request, the kernel needs no byte more than it says, and computes the same there.
inline void expect_stays_inside(const KernelStep& step, const std::vector<Bytes>* given = nullptr) {
  SCOPED_TRACE(step.id);
  Footprint footprint;
  ASSERT_NO_THROW(footprint = footprint_of(step));
  const auto kernel = find_kernel(step.id)->prepare(step.request());
  ASSERT_NE(kernel, nullptr);
  ASSERT_EQ(footprint.operands.size(), step.operands.size());
  ASSERT_EQ(footprint.results.size(), step.results.size());
  const std::vector<Bytes> contents = given != nullptr ? *given : random_contents(step, footprint);
  const std::vector<Bytes> free = run(*kernel, step, footprint, contents, Guard::kBehind, nullptr, 4096);
  EXPECT_EQ(run(*kernel, step, footprint, contents, Guard::kBehind), free);
  EXPECT_EQ(run(*kernel, step, footprint, contents, Guard::kBefore), free);
}

}  // namespace ipu::kernels::guarded
