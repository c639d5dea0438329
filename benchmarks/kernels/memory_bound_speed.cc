// Times the kernels whose limit is memory or the VM: µs per call, GB/s of operands and results, and the share
// of what a plain memcpy of as many bytes reaches. One thread, warm, all lanes in turn.
//   memory_bound_speed [substring of a case name]
// Build: link with libipu.so, include path csrc.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/pointwise/program.h"

namespace {

using namespace ipu;
using namespace ipu::kernels;
using enum OpCode;

// Processor time of this thread: other work on the machine counts less.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::byte* allocate(const TensorSpec& spec) {
  int64_t elements = 1;
  for (size_t d = 0; d < spec.shape.size(); ++d) elements += (spec.shape[d] - 1) * spec.strides[d];
  const auto bytes = static_cast<size_t>(elements * size_in_bytes(spec.dtype) + 127) / 64 * 64;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
  std::memset(memory, 0, bytes);
  if (spec.dtype == DType::kF32)
    for (int64_t i = 0; i < elements; ++i)
      reinterpret_cast<float*>(memory)[i] = static_cast<float>(i % 613) * 0.01f - 3.0f;
  if (spec.dtype == DType::kI32)
    for (int64_t i = 0; i < elements; ++i)
      reinterpret_cast<int32_t*>(memory)[i] = static_cast<int32_t>(i * 7919 % 1000);
  return memory;
}

template <class F>
double best_time(F once) {
  once();
  double best = 1e9;
  for (int repeat = 0; repeat < 11; ++repeat) {
    const int count = std::clamp(static_cast<int>(3e-3 / std::min(best, 1e-3)), 1, 20000);
    const double start = now();
    for (int i = 0; i < count; ++i) once();
    best = std::min(best, (now() - start) / count);
  }
  return best;
}

std::string filter;

void time_case(const char* name, const char* id, const std::vector<TensorSpec>& operands,
               const std::vector<TensorSpec>& results, const Attributes& attributes = {}) {
  if (std::string(name).find(filter) == std::string::npos) return;
  auto kernel = find_kernel(id)->prepare({operands, results, attributes});
  if (kernel == nullptr) {
    std::printf("%-34s refused\n", name);
    return;
  }
  std::vector<std::byte*> in, out;
  int64_t bytes = 0;
  for (const TensorSpec& spec : operands) in.push_back(allocate(spec)), bytes += spec.stored_bytes();
  for (const TensorSpec& spec : results) out.push_back(allocate(spec)), bytes += spec.stored_bytes();
  auto* scratch = static_cast<std::byte*>(
      std::aligned_alloc(64, static_cast<size_t>(kernel->scratch_bytes() + 127) / 64 * 64));
  const double seconds = best_time([&] {
    for (int lane = 0; lane < kernel->lanes(); ++lane) kernel->run({in.data(), out.data(), scratch}, lane);
  });
  const int64_t half = std::max<int64_t>(bytes / 2, 64);
  std::vector<char> from(static_cast<size_t>(half), 1), to(static_cast<size_t>(half));
  const double copy = best_time([&] {
    std::memcpy(to.data(), from.data(), static_cast<size_t>(half));
    asm volatile("" ::"r"(to.data()) : "memory");
  });
  std::printf("%-34s %10.2f us %8.1f GB/s  %3d lanes  %5.2f of memcpy\n", name, seconds * 1e6,
              static_cast<double>(bytes) / seconds * 1e-9, kernel->lanes(), copy / seconds);
  for (std::byte* p : in) std::free(p);
  for (std::byte* p : out) std::free(p);
  std::free(scratch);
}

TensorSpec f32(Shape shape) { return TensorSpec::plain(DType::kF32, std::move(shape)); }
TensorSpec f16(Shape shape) { return TensorSpec::plain(DType::kF16, std::move(shape)); }
TensorSpec i32(Shape shape) { return TensorSpec::plain(DType::kI32, std::move(shape)); }

// Loads of `operands`, then the steps.
PointwiseProgram program(int operands, std::vector<Instruction> steps) {
  PointwiseProgram p;
  for (int i = 0; i < operands; ++i) p.code.push_back({.code = kLoad, .immediate = i});
  for (const Instruction& s : steps) p.code.push_back(s);
  p.outputs = {static_cast<int32_t>(p.code.size()) - 1};
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  filter = argc > 1 ? argv[1] : "";
  const Attributes add = program(2, {{.code = kAddF, .a = 0, .b = 1}}).to_attributes();
  const Attributes relu = program(1, {{.code = kConstF}, {.code = kMaxF, .a = 0, .b = 1}}).to_attributes();
  const Attributes bias_relu =
      program(2, {{.code = kAddF, .a = 0, .b = 1}, {.code = kConstF}, {.code = kMaxF, .a = 2, .b = 3}})
          .to_attributes();
  const Attributes gelu = program(1, {{.code = kGeluF, .a = 0}}).to_attributes();
  // w - lr * (momentum * v + g)
  PointwiseProgram sgd = program(4, {{.code = kConstF, .value = 0.9},
                                     {.code = kMulF, .a = 1, .b = 4},
                                     {.code = kAddF, .a = 5, .b = 2},
                                     {.code = kMulF, .a = 6, .b = 3},
                                     {.code = kSubF, .a = 0, .b = 7}});
  sgd.outputs = {8, 6};
  std::vector<Instruction> steps;
  for (int i = 0; i < 24; ++i)
    steps.push_back({.code = i % 3 == 0   ? kAddF
                             : i % 3 == 1 ? kMulF
                                          : kMaxF,
                     .a = i == 0 ? 0 : i + 1,
                     .b = i % 2});
  const Attributes chain = program(2, steps).to_attributes();
  auto unary = [](OpCode code) { return program(1, {{.code = code, .a = 0}}).to_attributes(); };

  for (int64_t n : {10, 1000, 100000, 4000000}) {
    const std::string size = " " + std::to_string(n);
    time_case(("add" + size).c_str(), "pointwise", {f32({n}), f32({n})}, {f32({n})}, add);
    time_case(("relu" + size).c_str(), "pointwise", {f32({n})}, {f32({n})}, relu);
    time_case(("gelu" + size).c_str(), "pointwise", {f32({n})}, {f32({n})}, gelu);
    time_case(("sgd momentum" + size).c_str(), "pointwise", {f32({n}), f32({n}), f32({n}), f32({})},
              {f32({n}), f32({n})}, sgd.to_attributes());
    time_case(("chain of 24" + size).c_str(), "pointwise", {f32({n}), f32({n})}, {f32({n})}, chain);
    time_case(("add f16" + size).c_str(), "pointwise", {f16({n}), f16({n})}, {f16({n})}, add);
  }
  for (auto [name, code] : {std::pair{"exp 100000", kExpF},
                            {"log 100000", kLogF},
                            {"tanh 100000", kTanhF},
                            {"erf 100000", kErfF},
                            {"sigmoid 100000", kSigmoidF},
                            {"slope of gelu 100000", kGeluSlopeF},
                            {"sin 100000", kSinF},
                            {"sqrt 100000", kSqrtF},
                            {"tan 100000", kTanF}})
    time_case(name, "pointwise", {f32({100000})}, {f32({100000})}, unary(code));
  time_case("pow by a tensor 100000", "pointwise", {f32({100000}), f32({100000})}, {f32({100000})},
            program(2, {{.code = kPowF, .a = 0, .b = 1}}).to_attributes());
  time_case("bias+relu 32x3072", "pointwise", {f32({32, 3072}), f32({3072})}, {f32({32, 3072})}, bias_relu);
  time_case("bias+relu 4096x64", "pointwise", {f32({4096, 64}), f32({64})}, {f32({4096, 64})}, bias_relu);
  time_case("column add 1024x1024", "pointwise", {f32({1024, 1024}), f32({1024, 1})}, {f32({1024, 1024})},
            add);

  for (auto [r, c] : {std::pair<int64_t, int64_t>{64, 128}, {512, 512}, {4096, 512}})
    for (bool half : {false, true}) {
      const auto of = half ? f16 : f32;
      const std::string size = " " + std::to_string(r) + "x" + std::to_string(c) + (half ? " f16" : "");
      const TensorSpec x = of({r, c}), parameter = of({c}), statistic = f32({r, 1});
      time_case(("layer norm" + size).c_str(), "layer_norm", {x, parameter, parameter},
                {x, statistic, statistic}, {{"axis", int64_t{1}}});
      time_case(("its gradients" + size).c_str(), "layer_norm_gradient",
                {x, parameter, parameter, statistic, statistic, x}, {x, parameter, parameter},
                {{"axis", int64_t{1}}, {"wants", std::vector<int64_t>{0, 1, 2}}});
    }

  for (auto [r, c] : {std::pair<int64_t, int64_t>{1024, 1024}, {64, 3136}, {3072, 768}}) {
    const TensorSpec view{DType::kF32, {c, r}, {1, c}, Layout::kPlain};
    time_case(("transpose " + std::to_string(r) + "x" + std::to_string(c)).c_str(), "copy", {view},
              {f32({c, r})});
  }
  const TensorSpec heads{DType::kF32, {8, 12, 128, 64}, {128 * 768, 64, 768, 1}, Layout::kPlain};
  time_case("heads 8x128x12x64 permuted", "copy", {heads}, {f32({8, 12, 128, 64})});
  time_case("slice of rows 4096x256 of 768", "copy", {{DType::kF32, {4096, 256}, {768, 1}, Layout::kPlain}},
            {f32({4096, 256})});
  time_case("concat 2 x 4096x256", "concat", {f32({4096, 256}), f32({4096, 256})}, {f32({4096, 512})},
            {{"dim", int64_t{1}}});
  time_case("pad 32x64x56x56 by 1", "pad", {f32({32, 64, 56, 56})}, {f32({32, 64, 58, 58})},
            {{"low", Shape{0, 0, 1, 1}}, {"high", Shape{0, 0, 1, 1}}, {"value", 0.0}});

  for (const char* id : {"reduce_sum", "reduce_max"}) {
    auto sum = [&](const char* what, Shape from, Shape dims, Shape to) {
      time_case((std::string(id) + " " + what).c_str(), id, {f32(std::move(from))}, {f32(std::move(to))},
                {{"dims", dims}});
    };
    sum("1M to scalar", {1 << 20}, {0}, {});
    sum("rows 4096x768", {4096, 768}, {1}, {4096});
    sum("rows 100000x10", {100000, 10}, {1}, {100000});
    sum("columns 4096x768", {4096, 768}, {0}, {768});
    sum("columns 32x10", {32, 10}, {0}, {10});
    sum("channels 32x64x28x28", {32, 64, 28, 28}, {0, 2, 3}, {64});
    sum("middle 64x128x256", {64, 128, 256}, {1}, {64, 256});
  }
  time_case("argmax 1000x1000", "argmax", {f32({1000, 1000})}, {i32({1000})}, {{"dim", int64_t{1}}});

  for (auto [r, c] : {std::pair<int64_t, int64_t>{32, 10}, {12288, 128}, {1024, 1000}, {128, 30522}}) {
    const std::string size = " " + std::to_string(r) + "x" + std::to_string(c);
    const Attributes dim{{"dim", int64_t{1}}};
    time_case(("softmax" + size).c_str(), "softmax", {f32({r, c})}, {f32({r, c})}, dim);
    time_case(("softmax gradient" + size).c_str(), "softmax_gradient", {f32({r, c}), f32({r, c})},
              {f32({r, c})}, dim);
    time_case(("log_softmax" + size).c_str(), "log_softmax", {f32({r, c})}, {f32({r, c})}, dim);
    const TensorSpec target = i32({r});
    if (c < 1000) continue;
    time_case(("cross entropy" + size).c_str(), "cross_entropy", {f32({r, c}), target}, {f32({})});
    time_case(("cross entropy gradient" + size).c_str(), "cross_entropy_gradient",
              {f32({}), f32({r, c}), target}, {f32({r, c})});
  }
  time_case("softmax over channels 8x64x56x56", "softmax", {f32({8, 64, 56, 56})}, {f32({8, 64, 56, 56})},
            {{"dim", int64_t{1}}});
  time_case("embedding 1000x768 x 1024", "embedding", {f32({1000, 768}), i32({1024})}, {f32({1024, 768})});
  time_case("embedding gradient", "embedding_gradient", {f32({1024, 768}), i32({1024})}, {f32({1000, 768})},
            {{"rows", int64_t{1000}}});
  return 0;
}
