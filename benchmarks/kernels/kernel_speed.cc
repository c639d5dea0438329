// Times kernels of the table on the shapes the project cares about: µs, GFLOP/s and lanes, one thread, warm.
// f16 stands beside f32 with its share of the time.
//   kernel_speed [substring of a case name]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "support/half.h"

namespace {

using namespace ipu;
using namespace ipu::kernels;

std::string filter;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TensorSpec plain(Shape s) { return TensorSpec::plain(DType::kF32, std::move(s)); }
TensorSpec packed(Shape s) {
  return {DType::kF32, s, contiguous_strides(s), Layout::panels_of_matrix(s.back())};
}
TensorSpec nhwc(Shape s) { return {DType::kF32, s, contiguous_strides(s), Layout::channels_last(s.size())}; }

std::byte* allocate(int64_t bytes, DType dtype = DType::kF32) {
  auto size = static_cast<size_t>((bytes + 127) / 64 * 64);
  auto* memory = static_cast<float*>(std::aligned_alloc(64, size));
  auto random = [] { return static_cast<float>(std::rand() % 1000) * 1e-3f - 0.5f; };
  for (size_t i = 0; i < size / 4; ++i) memory[i] = random();
  auto* halves = reinterpret_cast<uint16_t*>(memory);
  for (size_t i = 0; dtype == DType::kF16 && i < size / 2; ++i) halves[i] = float_to_half(random());
  return reinterpret_cast<std::byte*>(memory);
}

// Seconds of the best run; 0 when the kernel refuses.
double time_one(const std::string& name, const char* id, const std::vector<TensorSpec>& operands,
                const std::vector<TensorSpec>& results, const Attributes& attributes, double flops) {
  const KernelDef* def = find_kernel(id);
  if (def == nullptr) return 0;
  const double before = seconds();
  auto kernel = def->prepare({operands, results, attributes});
  const double prepared = seconds() - before;
  if (kernel == nullptr) {
    std::printf("%-28s %-24s refused\n", id, name.c_str());
    return 0;
  }
  std::vector<std::byte*> in, out;
  for (const TensorSpec& spec : operands)
    in.push_back(spec.shape.empty() ? nullptr : allocate(spec.stored_bytes(), spec.dtype));
  for (const TensorSpec& spec : results) out.push_back(allocate(spec.stored_bytes(), spec.dtype));
  std::byte* scratch = allocate(kernel->scratch_bytes());
  auto once = [&] {
    for (int lane = 0; lane < kernel->lanes(); ++lane) kernel->run({in.data(), out.data(), scratch}, lane);
  };
  once();
  double start = seconds();
  once();
  double best = seconds() - start;
  for (int repeat = 0; repeat < 9; ++repeat) {
    const int count = std::max(1, static_cast<int>(2e-3 / std::max(best, 1e-7)));
    start = seconds();
    for (int i = 0; i < count; ++i) once();
    best = std::min(best, (seconds() - start) / count);
  }
  std::printf("%-28s %-24s %9.1f us %7.1f GF  lanes %2d  scratch %7.1f KB  prepare %5.0f us\n", id,
              name.c_str(), best * 1e6, flops / best * 1e-9, kernel->lanes(),
              static_cast<double>(kernel->scratch_bytes()) / 1024, prepared * 1e6);
  for (std::byte* p : in) std::free(p);
  for (std::byte* p : out) std::free(p);
  std::free(scratch);
  return best;
}

void time_kernel(const std::string& name, const char* id, std::vector<TensorSpec> operands,
                 std::vector<TensorSpec> results, const Attributes& attributes, double flops) {
  if (name.find(filter) == std::string::npos && std::string(id).find(filter) == std::string::npos) return;
  const double wide = time_one(name, id, operands, results, attributes, flops);
  for (auto* specs : {&operands, &results})
    for (TensorSpec& spec : *specs)
      if (spec.dtype == DType::kF32) spec.dtype = DType::kF16;
  const double half = time_one("  f16", id, operands, results, attributes, flops);
  if (wide > 0 && half > 0) std::printf("%-28s %-24s %9.2f of f32\n", id, "", half / wide);
}

void time_linear(int64_t m, int64_t n, int64_t k) {
  const std::string name = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  const double flops = 2.0 * static_cast<double>(m * n * k);
  for (bool pack : {true, false}) {
    const TensorSpec w = pack ? packed({k, n}) : plain({n, k});
    const std::string label = name + (pack ? " packed" : " plain");
    time_kernel(label, "linear", {plain({m, k}), w, plain({n})}, {plain({m, n})}, {}, flops);
    time_kernel(label, "linear_input_gradient", {plain({m, n}), w}, {plain({m, k})}, {}, flops);
    time_kernel(label, "linear_weight_gradient", {plain({m, k}), plain({m, n})}, {w}, {}, flops);
  }
}

struct Conv {
  int64_t batch, in, out, size, kernel, stride, padding;
};

void time_conv(const Conv& c) {
  const int64_t out_size = (c.size + 2 * c.padding - c.kernel) / c.stride + 1;
  const std::string name = "b" + std::to_string(c.batch) + " " + std::to_string(c.in) + "->" +
                           std::to_string(c.out) + " k" + std::to_string(c.kernel) + " s" +
                           std::to_string(c.stride) + " @" + std::to_string(c.size);
  const double flops =
      2.0 * static_cast<double>(c.batch * c.in * c.out * c.kernel * c.kernel * out_size * out_size);
  const Shape x = {c.batch, c.in, c.size, c.size}, y = {c.batch, c.out, out_size, out_size};
  const Shape w = {c.out, c.in, c.kernel, c.kernel};
  Attributes a = {{"strides", std::vector<int64_t>{c.stride, c.stride}},
                  {"padding_low", std::vector<int64_t>{c.padding, c.padding}},
                  {"padding_high", std::vector<int64_t>{c.padding, c.padding}},
                  {"dilations", std::vector<int64_t>{1, 1}},
                  {"groups", int64_t{1}}};
  for (bool last : {true, false}) {
    auto spec = [&](const Shape& s) { return last ? nhwc(s) : plain(s); };
    const std::string label = name + (last ? " nhwc" : " nchw");
    time_kernel(label, "conv", {spec(x), plain(w), plain({c.out})}, {spec(y)}, a, flops);
    Attributes input = a, weight = a, panels = a;
    panels.set("kernel_shape", w);  // as in models whose weights stay
    time_kernel(label + " panels", "conv",
                {spec(x), packed({c.kernel * c.kernel * c.in, c.out}), plain({c.out})}, {spec(y)}, panels,
                flops);
    input.set("input_shape", x);
    weight.set("kernel_shape", w);
    time_kernel(label, "conv_input_gradient", {spec(y), plain(w)}, {spec(x)}, input, flops);
    time_kernel(label, "conv_weight_gradient", {spec(x), spec(y)}, {plain(w)}, weight, flops);
  }
}

void time_pools() {
  const Shape x = {32, 64, 32, 32}, y = {32, 64, 16, 16};
  const Attributes a = {{"kernel", std::vector<int64_t>{2, 2}},
                        {"strides", std::vector<int64_t>{2, 2}},
                        {"padding_low", std::vector<int64_t>{0, 0}},
                        {"padding_high", std::vector<int64_t>{0, 0}},
                        {"dilations", std::vector<int64_t>{1, 1}},
                        {"count_include_pad", true},
                        {"divisor", int64_t{0}},
                        {"input_shape", x}};
  for (bool last : {true, false}) {
    auto spec = [&](const Shape& s) { return last ? nhwc(s) : plain(s); };
    const std::string label = last ? "32x64x32x32 nhwc" : "32x64x32x32 nchw";
    time_kernel(label, "max_pool", {spec(x)}, {spec(y)}, a, 0);
    time_kernel(label, "max_pool_gradient", {spec(x), spec(y), spec(y)}, {spec(x)}, a, 0);
    time_kernel(label, "avg_pool", {spec(x)}, {spec(y)}, a, 0);
    time_kernel(label, "avg_pool_gradient", {spec(y)}, {spec(x)}, a, 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) filter = argv[1];
  const int64_t linears[][3] = {{1, 512, 784},    {1, 512, 512},     {1, 10, 512},      {32, 512, 784},
                                {32, 512, 512},   {32, 10, 512},     {1, 3072, 768},    {8, 768, 768},
                                {32, 3072, 768},  {32, 768, 3072},   {128, 768, 768},   {128, 3072, 768},
                                {1024, 768, 768}, {1024, 3072, 768}, {1024, 768, 3072}, {1024, 8192, 768},
                                {4096, 256, 256}, {4096, 1024, 256}, {4096, 256, 1024}};
  for (auto [m, n, k] : linears) time_linear(m, n, k);
  for (int64_t s : {64, 128, 512})
    time_kernel("12x" + std::to_string(s) + "x" + std::to_string(s) + "x64 qk", "matmul",
                {plain({12, s, 64}), plain({12, s, 64})}, {plain({12, s, s})}, {{"trans_b", true}},
                2.0 * 12 * static_cast<double>(s * s) * 64);
  for (int64_t s : {64, 128, 512})
    time_kernel("12x" + std::to_string(s) + "x64x" + std::to_string(s) + " pv", "matmul",
                {plain({12, s, s}), plain({12, s, 64})}, {plain({12, s, 64})}, {},
                2.0 * 12 * static_cast<double>(s * s) * 64);
  const Conv convs[] = {{1, 1, 6, 28, 5, 1, 2},     {32, 1, 6, 28, 5, 1, 2},   {1, 6, 16, 14, 5, 1, 0},
                        {32, 6, 16, 14, 5, 1, 0},   {1, 64, 64, 32, 3, 1, 1},  {1, 128, 128, 16, 3, 1, 1},
                        {1, 256, 256, 8, 3, 1, 1},  {1, 512, 512, 4, 3, 1, 1}, {1, 64, 128, 32, 3, 2, 1},
                        {1, 64, 128, 32, 1, 2, 0},  {1, 3, 64, 32, 3, 1, 1},   {32, 3, 64, 32, 3, 1, 1},
                        {8, 64, 64, 32, 3, 1, 1},   {8, 256, 256, 8, 3, 1, 1}, {8, 512, 512, 4, 3, 1, 1},
                        {8, 64, 128, 32, 3, 2, 1},  {32, 64, 64, 32, 3, 1, 1}, {32, 128, 128, 16, 3, 1, 1},
                        {32, 256, 256, 8, 3, 1, 1}, {32, 512, 512, 4, 3, 1, 1}};
  for (const Conv& c : convs) time_conv(c);
  time_pools();
  return 0;
}
