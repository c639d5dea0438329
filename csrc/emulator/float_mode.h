// Subnormal numbers in runs. As on an IPU, whose f32 has none, the arithmetic of a run reads and writes zero
// for them: a processor takes up to 28 times as long for a product of one. Conversions from and to f16 are not
// touched: the subnormal numbers of f16 stay.
#pragma once

#include <cstdint>

namespace ipu::emulator {

// This thread flushes subnormals to zero while it lives.
class FlushesSubnormals {
 public:
  FlushesSubnormals();
  ~FlushesSubnormals();
  FlushesSubnormals(const FlushesSubnormals&) = delete;
  FlushesSubnormals& operator=(const FlushesSubnormals&) = delete;

 private:
  uint64_t before_;
};

// For functions of the program that a run calls: they have the mode that this thread had before.
class KeepsSubnormals {
 public:
  KeepsSubnormals();
  ~KeepsSubnormals();
  KeepsSubnormals(const KeepsSubnormals&) = delete;
  KeepsSubnormals& operator=(const KeepsSubnormals&) = delete;

 private:
  uint64_t during_run_;
};

}  // namespace ipu::emulator
