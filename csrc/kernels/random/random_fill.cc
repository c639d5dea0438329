// Highway bodies of random_fill.h. A vector holds the same word of as many counters as it has lanes; the four
// words of a counter are interleaved when they are stored. Two vectors of counters at a time hide the latency
// of the multiplications.
#include "kernels/random/random_fill.h"

#include <algorithm>
#include <cstring>

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/random/random_fill.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::CappedTag<uint32_t, 16>;
using Word = hn::VFromD<Words>;
using Floats = hn::RebindToFloat<Words>;
using Float = hn::VFromD<Floats>;
constexpr size_t kLanes = hn::MaxLanes(Words());
constexpr size_t kGroups = 2;
constexpr int64_t kCounters = kGroups * kLanes;  // of one step
constexpr int64_t kStep = 4 * kCounters;         // elements

struct Counters {
  Word word[4][kGroups];
};

// 32 x 32 → 64 bits, both halves for every lane.
HWY_INLINE void multiply(Word a, Word m, Word& high, Word& low) {
  const Words d;
#if HWY_TARGET == HWY_SCALAR
  const uint64_t product = uint64_t{hn::GetLane(a)} * hn::GetLane(m);
  high = hn::Set(d, static_cast<uint32_t>(product >> 32));
  low = hn::Set(d, static_cast<uint32_t>(product));
#else
  const hn::Repartition<uint64_t, Words> wide;
  const auto even = hn::MulEven(a, m);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), m);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
#endif
}

// Words of the counters from `counter` on.
HWY_INLINE Counters philox(const RandomStream& stream, uint64_t counter) {
  const Words d;
  Counters c;
  for (size_t g = 0; g < kGroups; ++g) {
    const Word base = hn::Set(d, static_cast<uint32_t>(counter + g * kLanes));
    const Word low = hn::Add(base, hn::Iota(d, 0));
    const Word high = hn::Set(d, static_cast<uint32_t>((counter + g * kLanes) >> 32));
    const auto carried = hn::Lt(low, base);  // the low half went over
    c.word[0][g] = low;
    c.word[1][g] = hn::IfThenElse(carried, hn::Add(high, hn::Set(d, 1)), high);
    c.word[2][g] = hn::Set(d, static_cast<uint32_t>(stream.id));
    c.word[3][g] = hn::Set(d, static_cast<uint32_t>(static_cast<uint64_t>(stream.id) >> 32));
  }
  const Word multiply_a = hn::Set(d, 0xD2511F53u), multiply_b = hn::Set(d, 0xCD9E8D57u);
  uint32_t key[2] = {stream.seed[0], stream.seed[1]};
  for (int round = 0; round < 10; ++round) {
    const Word key_a = hn::Set(d, key[0]), key_b = hn::Set(d, key[1]);
    for (size_t g = 0; g < kGroups; ++g) {
      Word high_a, low_a, high_b, low_b;
      multiply(c.word[0][g], multiply_a, high_a, low_a);
      multiply(c.word[2][g], multiply_b, high_b, low_b);
      c.word[0][g] = hn::Xor(hn::Xor(high_b, c.word[1][g]), key_a);
      c.word[1][g] = low_b;
      c.word[2][g] = hn::Xor(hn::Xor(high_a, c.word[3][g]), key_b);
      c.word[3][g] = low_a;
    }
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

// Calls make(counters, to) for whole steps; the last one goes through a buffer.
template <class T, class Make>
HWY_INLINE void each_step(const RandomStream& stream, int64_t first, int64_t count, T* out, Make make) {
  for (int64_t i = 0; i < count; i += kStep) {
    const Counters c = philox(stream, static_cast<uint64_t>(first + i) / 4);
    if (count - i >= kStep) {
      make(c, out + i);
    } else {
      HWY_ALIGN T buffer[kStep];
      make(c, buffer);
      std::memcpy(out + i, buffer, static_cast<size_t>(count - i) * sizeof(T));
    }
  }
}

void fill_bits(const RandomStream& stream, int64_t first, int64_t count, uint32_t* out) {
  each_step(stream, first, count, out, [](const Counters& c, uint32_t* to) HWY_ATTR {
    for (size_t g = 0; g < kGroups; ++g)
      hn::StoreInterleaved4(c.word[0][g], c.word[1][g], c.word[2][g], c.word[3][g], Words(),
                            to + g * 4 * kLanes);
  });
}

// The upper bits as a number below 2^24.
HWY_INLINE Float as_float(Word bits) {
  const hn::RebindToSigned<Words> di;
  return hn::ConvertTo(Floats(), hn::BitCast(di, hn::ShiftRight<8>(bits)));
}

void fill_uniform(const RandomStream& stream, int64_t first, int64_t count, float low, float high, int bits,
                  float* out) {
  const Floats d;
  // Clearing the low bits leaves a multiple of 2^-bits.
  const Word kept = hn::Set(Words(), ~uint32_t{0} << (32 - bits));
  const Float span = hn::Set(d, (high - low) * 0x1p-24f), from = hn::Set(d, low);
  each_step(stream, first, count, out, [&](const Counters& c, float* to) HWY_ATTR {
    for (size_t g = 0; g < kGroups; ++g) {
      Float u[4];
      for (int w = 0; w < 4; ++w) u[w] = hn::MulAdd(as_float(hn::And(c.word[w][g], kept)), span, from);
      hn::StoreInterleaved4(u[0], u[1], u[2], u[3], d, to + g * 4 * kLanes);
    }
  });
}

void fill_normal(const RandomStream& stream, int64_t first, int64_t count, float mean, float std,
                 float* out) {
  const Floats d;
  const Float unit = hn::Set(d, 0x1p-24f), turn = hn::Set(d, 0x1.921fb6p-22f);  // 2 pi / 2^24
  const Float shift = hn::Set(d, mean), scale = hn::Set(d, std);
  each_step(stream, first, count, out, [&](const Counters& c, float* to) HWY_ATTR {
    for (size_t g = 0; g < kGroups; ++g) {
      Float z[4];
      for (int pair = 0; pair < 4; pair += 2) {
        // In (0, 1]: the logarithm is finite.
        const Float u = hn::Mul(hn::Add(as_float(c.word[pair][g]), hn::Set(d, 1.0f)), unit);
        const Float radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0f), log_positive(d, u)));
        const Float angle = hn::Mul(as_float(c.word[pair + 1][g]), turn);
        z[pair] = hn::MulAdd(hn::Mul(radius, sin_shifted(d, angle, 1)), scale, shift);
        z[pair + 1] = hn::MulAdd(hn::Mul(radius, sin_shifted(d, angle, 0)), scale, shift);
      }
      hn::StoreInterleaved4(z[0], z[1], z[2], z[3], d, to + g * 4 * kLanes);
    }
  });
}

void dropout(const RandomStream& stream, int64_t first, int64_t count, double p, const float* x, float* out) {
  const Floats d;
  const Word last = hn::Set(Words(), last_kept(p));
  const Float scale = hn::Set(d, keep_scale(p));
  HWY_ALIGN float factor[kStep];
  for (int64_t i = 0; i < count; i += kStep) {
    const Counters c = philox(stream, static_cast<uint64_t>(first + i) / 4);
    for (size_t g = 0; g < kGroups; ++g) {
      Float f[4];
      for (int w = 0; w < 4; ++w)
        f[w] = hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(last, c.word[w][g])), scale);
      hn::StoreInterleaved4(f[0], f[1], f[2], f[3], d, factor + g * 4 * kLanes);
    }
    int64_t k = 0;
    for (; k + static_cast<int64_t>(kLanes) <= std::min(kStep, count - i); k += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(d, x + i + k), hn::Load(d, factor + k)), d, out + i + k);
    for (; k < std::min(kStep, count - i); ++k) out[i + k] = x[i + k] * factor[k];
  }
}

const RandomFill& target_random_fill() {
  static const RandomFill functions{fill_bits, fill_uniform, fill_normal, dropout};
  return functions;
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(target_random_fill);
const RandomFill& random_fill() {
  active_isa();
  return HWY_DYNAMIC_DISPATCH(target_random_fill)();
}

RandomStream random_stream(const void* seed, int64_t id) {
  RandomStream stream;
  std::memcpy(stream.seed.data(), seed, sizeof stream.seed);
  stream.id = id;
  return stream;
}

void extend_permutation(const RandomStream& stream, int64_t begin, int64_t end, int32_t* out) {
  constexpr int64_t kBits = 1024;
  uint32_t bits[kBits];
  // Forwards ("inside-out"): element i goes to a place j <= i, what was there moves to i.
  for (int64_t first = begin; first < end; first += kBits) {
    const int64_t last = std::min(first + kBits, end);
    random_fill().bits(stream, first, last - first, bits);
    for (int64_t i = first; i < last; ++i) {
      const auto j = static_cast<int64_t>(uint64_t{bits[i - first]} * static_cast<uint64_t>(i + 1) >> 32);
      out[i] = out[j];
      out[j] = static_cast<int32_t>(i);
    }
  }
}
}  // namespace ipu::kernels
#endif
