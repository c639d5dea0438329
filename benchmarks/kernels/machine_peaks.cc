// Measures what the machine can do at most: fused multiply-adds on registers (f32) and a triad over arrays that no cache
// holds, on one and on two threads. Prints a name and a number a line: GFLOP/s and GB/s (two reads and a write counted).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine_peaks.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace peaks::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Returns the operations done; `out` keeps the chains alive.
double multiply_add(long rounds, float* out) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, out[0]), addend = hn::Set(d, out[1]);
  // Ten chains with starts of their own: latency is hidden, and no compiler may merge them.
  const auto start = [&](int i) { return hn::Set(d, out[2] + static_cast<float>(i)); };
  auto a = start(0), b = start(1), c = start(2), e = start(3), f = start(4), g = start(5), h = start(6);
  auto i = start(7), j = start(8), k = start(9);
  for (long r = 0; r < rounds; ++r) {
    a = hn::MulAdd(a, factor, addend), b = hn::MulAdd(b, factor, addend);
    c = hn::MulAdd(c, factor, addend), e = hn::MulAdd(e, factor, addend);
    f = hn::MulAdd(f, factor, addend), g = hn::MulAdd(g, factor, addend);
    h = hn::MulAdd(h, factor, addend), i = hn::MulAdd(i, factor, addend);
    j = hn::MulAdd(j, factor, addend), k = hn::MulAdd(k, factor, addend);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(h, i)));
  out[2] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, hn::Add(j, k))));
  return 2.0 * 10 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

// z = x + factor * y. Returns the bytes moved.
double triad(const float* x, const float* y, float* z, size_t count) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.5f);
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i + lanes <= count; i += lanes)
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, y + i), hn::LoadU(d, x + i)), d, z + i);
  return 12.0 * static_cast<double>(count);
}

}  // namespace peaks::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peaks {

HWY_EXPORT(multiply_add);
HWY_EXPORT(triad);

// The best of several rounds of work(thread), which returns what one thread did, in units a nanosecond.
template <class Work>
double best(int threads, Work work) {
  double found = 0;
  for (int round = 0; round < 8; ++round) {
    std::vector<double> done(static_cast<size_t>(threads));
    std::vector<std::thread> all;
    const auto begin = std::chrono::steady_clock::now();
    for (int t = 0; t < threads; ++t) all.emplace_back([&, t] { done[static_cast<size_t>(t)] = work(t); });
    for (std::thread& thread : all) thread.join();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    double sum = 0;
    for (double one : done) sum += one;
    found = std::max(found, sum / took.count());
  }
  return found;
}

void measure() {
  constexpr size_t kCount = size_t{1} << 25;  // floats: 128 MiB an array
  std::vector<float> x(kCount, 1.0f), y(kCount, 2.0f), z(kCount, 3.0f);
  for (int threads : {1, 2}) {
    std::printf("gflops_%d %.1f\n", threads, best(threads, [](int) {
                  float out[3] = {0.999f, 1e-3f, 0};
                  return HWY_DYNAMIC_DISPATCH(multiply_add)(20'000'000, out);
                }));
    const size_t part = kCount / static_cast<size_t>(threads);
    std::printf("gbytes_%d %.1f\n", threads, best(threads, [&](int t) {
                  const size_t first = static_cast<size_t>(t) * part;
                  return HWY_DYNAMIC_DISPATCH(triad)(x.data() + first, y.data() + first, z.data() + first,
                                                     part);
                }));
  }
}

}  // namespace peaks

int main() { peaks::measure(); }
#endif
