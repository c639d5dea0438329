// Counts the work of a running kernel and asks its stop signal from time to time: often enough for a signal
// to be heard within milliseconds, too seldom to cost anything.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kernel_table.h"

namespace ipu::kernels {

class StopMeter {
 public:
  // Elements of cheap work between two questions: some 10 us in vector registers, milliseconds at their
  // worst.
  static constexpr int64_t kPiece = 64 * 1024;

  explicit StopMeter(const KernelCall& call) : stop_(call.stop) {}
  // `work` more elements are about to be done. True: the kernel is to return, and so is every later answer.
  bool stops(int64_t work) {
    left_ -= work;
    return left_ < 0 && ask();
  }
  // The same for multiply-adds in tiles, some 32 of which take the time of an element.
  bool stops_products(int64_t count) { return stops(count / 32); }

 private:
  bool ask() {
    if (stop_ != nullptr && stop_->raised()) return true;
    left_ = kPiece;
    return false;
  }
  StopSignal* stop_;
  int64_t left_ = kPiece;
};

// Calls piece(first, n) for the elements [0, count) in pieces; false when it was stopped in between. `cost`
// is the work of an element: one of more than a piece comes alone, and meters itself. Counts something for no
// elements too: loops of nothing come to an end.
template <class Piece>
bool in_pieces(StopMeter& meter, int64_t count, int64_t cost, Piece piece) {
  const int64_t most = std::max<int64_t>(1, StopMeter::kPiece / cost);
  int64_t at = 0;
  do {
    const int64_t n = std::min(most, count - at);
    if (meter.stops(n * std::min(cost, StopMeter::kPiece) + 1)) return false;
    if (n > 0) piece(at, n);
    at += n;
  } while (at < count);
  return true;
}

}  // namespace ipu::kernels
