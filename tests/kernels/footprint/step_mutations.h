// Random changes of a step: numbers become small, huge, negative or neighbouring ones, lists grow and shrink,
// layouts, types and operands change. Some changes keep a step sensible (one extent changed everywhere), so
// that many are accepted; the others make it nonsense in one place.
#pragma once

#include <algorithm>
#include <limits>
#include <random>

#include "kernels/pointwise/program.h"
#include "tests/kernels/kernel_step.h"
#include "tests/layouts.h"

namespace ipu::kernels::kernel_tests {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  void mutate(KernelStep& step) {
    for (int n = 1 + below(4); n > 0; --n) change_one(step);
  }

  // A program of any registers and opcodes, over operands of any type and layout.
  KernelStep random_pointwise() {
    const Shape shape = random_shape();
    const bool is_packed = shape.size() == 2 && below(4) == 0, is_nhwc = !is_packed && below(4) == 0;
    const Layout layout = layout_number(is_packed ? 1 : is_nhwc ? 2 : 0, shape);
    KernelStep step{"pointwise", {}, {}, {}};
    PointwiseProgram program;
    const int operands = below(5), length = 1 + below(below(8) == 0 ? 200 : 12);
    for (int k = 0; k < operands; ++k) {
      TensorSpec spec = TensorSpec::plain(random_dtype(), shape);
      spec.layout = layout;
      if (!layout.is_blocked() && below(3) > 0) {
        spec.layout = Layout::kPlain;
        for (size_t d = 0; d < shape.size(); ++d) {
          if (below(4) == 0) spec.shape[d] = 1;
          if (below(4) == 0) spec.strides[d] = below(20) - 8;
        }
        if (below(6) == 0 && !spec.shape.empty()) {
          spec.shape.erase(spec.shape.begin());
          spec.strides.erase(spec.strides.begin());
        }
      } else if (below(4) == 0) {
        spec = TensorSpec::plain(random_dtype(), {});
      }
      step.operands.push_back(spec);
    }
    for (int i = 0; i < length; ++i) {
      const auto code =
          static_cast<OpCode>(i < operands || i == 0 ? 0 : below(static_cast<int>(kOpCodeCount)));
      program.code.push_back({.code = operands == 0 && i == 0 ? OpCode::kConstF : code,
                              .a = below(i),
                              .b = below(i),
                              .c = below(i),
                              .immediate = below(std::max(operands, 1)),
                              .value = real()});
    }
    for (int r = 1 + below(3); r > 0; --r) {
      program.outputs.push_back(below(length));
      step.results.push_back({random_dtype(), shape, contiguous_strides(shape), layout});
    }
    step.attributes = program.to_attributes();
    return step;
  }

  int below(int64_t n) { return n <= 0 ? 0 : static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  std::mt19937_64& random() { return random_; }

 private:
  template <size_t kCount>
  int64_t one_of(const int64_t (&values)[kCount]) {
    return values[random_() % kCount];
  }
  int64_t small() {
    return one_of({0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 129, 255});
  }
  int64_t number() {
    if (below(3) > 0) return small();
    return one_of({-1,
                   -2,
                   -3,
                   256,
                   1000,
                   1024,
                   1025,
                   4096,
                   5000,
                   65535,
                   65537,
                   70000,
                   300000,
                   INT32_MAX,
                   INT32_MIN,
                   int64_t{1} << 31,
                   int64_t{1} << 32,
                   int64_t{1} << 40,
                   int64_t{1} << 47,
                   int64_t{1} << 62,
                   INT64_MAX,
                   INT64_MIN,
                   INT64_MIN + 1});
  }
  int64_t changed(int64_t value) {
    switch (below(5)) {
      case 0:
        return static_cast<int64_t>(static_cast<uint64_t>(value) + 1);
      case 1:
        return static_cast<int64_t>(static_cast<uint64_t>(value) - 1);
      case 2:
        return static_cast<int64_t>(0 - static_cast<uint64_t>(value));
      default:
        return number();
    }
  }
  double real() {
    constexpr double kReals[] = {0.0,    1.0,      -1.0,      0.5,
                                 2.0,    1e-40,    3e9,       1e300,
                                 -1e300, INFINITY, -INFINITY, std::numeric_limits<double>::quiet_NaN()};
    return kReals[random_() % std::size(kReals)];
  }
  DType random_dtype() {
    return below(3) == 0 ? static_cast<DType>(below(13)) : below(2) == 0 ? DType::kF32 : DType::kF16;
  }
  Shape random_shape() {
    Shape shape(static_cast<size_t>(below(5)));
    for (int64_t& extent : shape) extent = below(3) > 0 ? 1 + below(9) : small();
    if (!shape.empty() && below(3) == 0)
      shape[static_cast<size_t>(below(std::ssize(shape)))] = 100 + below(3000);
    return shape;
  }

  TensorSpec* any_spec(KernelStep& step) {
    const int64_t count = std::ssize(step.operands) + std::ssize(step.results);
    if (count == 0) return nullptr;
    const auto k = static_cast<size_t>(below(count));
    return k < step.operands.size() ? &step.operands[k] : &step.results[k - step.operands.size()];
  }
  template <class F>
  void each_spec(KernelStep& step, F f) {
    for (TensorSpec& spec : step.operands) f(spec);
    for (TensorSpec& spec : step.results) f(spec);
  }
  // As contiguous as a stranger's numbers allow.
  static void straighten(TensorSpec& spec) {
    spec.strides.assign(spec.shape.size(), 0);
    uint64_t step = 1;
    for (size_t d = spec.shape.size(); d-- > 0;) {
      spec.strides[d] = static_cast<int64_t>(step);
      step *= static_cast<uint64_t>(std::max<int64_t>(spec.shape[d], 1));
    }
  }

  void change_one(KernelStep& step) {
    TensorSpec* spec = any_spec(step);
    if (spec == nullptr || below(4) == 0) return change_attribute(step);
    const auto rank = std::ssize(spec->shape);
    switch (below(9)) {
      case 0:
      case 1:
        if (rank > 0) change_everywhere(step, spec->shape[static_cast<size_t>(below(rank))]);
        return;
      case 2:
        if (rank == 0) return;
        spec->shape[static_cast<size_t>(below(rank))] = changed(spec->shape[0]);
        if (below(3) > 0) straighten(*spec);
        return;
      case 3:
        if (!spec->strides.empty()) {
          int64_t& stride = spec->strides[static_cast<size_t>(below(std::ssize(spec->strides)))];
          stride = changed(stride);
        }
        return;
      case 4:
        return change_order(*spec);
      case 5: {
        const int64_t layout = below(3);
        if (below(2) == 0)
          spec->layout = layout_number(layout, spec->shape);
        else
          each_spec(step, [&](TensorSpec& s) { s.layout = layout_number(layout, s.shape); });
        return;
      }
      case 6: {
        const DType from = spec->dtype, to = random_dtype();
        if (below(3) == 0)
          spec->dtype = to;
        else
          each_spec(step, [&](TensorSpec& s) { s.dtype = s.dtype == from ? to : s.dtype; });
        return;
      }
      case 7:
        return change_rank(step, *spec);
      default:
        return change_operands(step);
    }
  }

  // An extent of that value becomes another one in all shapes and attributes.
  void change_everywhere(KernelStep& step, int64_t from) {
    const int64_t to = below(6) == 0 ? changed(from) : small();
    each_spec(step, [&](TensorSpec& s) {
      std::replace(s.shape.begin(), s.shape.end(), from, to);
      straighten(s);
    });
    for (const auto& [name, value] : Attributes(step.attributes))
      if (const auto* number = std::get_if<int64_t>(&value);
          number != nullptr && *number == from && below(2) == 0)
        step.attributes.set(name, to);
  }

  void change_order(TensorSpec& spec) {  // a permuted or reversed view, perhaps with gaps or repeats
    std::vector<size_t> order(spec.shape.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::shuffle(order.begin(), order.end(), random_);
    spec.strides.assign(spec.shape.size(), 0);
    uint64_t step = 1;
    for (size_t d : order) {
      spec.strides[d] = static_cast<int64_t>(below(5) == 0 ? 0 - step : step);
      if (below(6) == 0) spec.strides[d] = 0;
      step *= static_cast<uint64_t>(std::max<int64_t>(spec.shape[d], 1)) + static_cast<uint64_t>(below(3));
    }
  }

  void change_rank(KernelStep& step, TensorSpec& spec) {
    const bool all = below(2) == 0, grows = below(2) == 0;
    const int64_t extent = below(3) == 0 ? small() : 1;
    auto change = [&](TensorSpec& s) {
      if (grows)
        s.shape.insert(s.shape.begin(), extent);
      else if (!s.shape.empty())
        s.shape.erase(s.shape.begin());
      straighten(s);
    };
    if (all)
      each_spec(step, change);
    else
      change(spec);
  }

  void change_operands(KernelStep& step) {
    std::vector<TensorSpec>& list = below(3) == 0 ? step.results : step.operands;
    if (list.empty()) return;
    const auto k = below(std::ssize(list)), j = below(std::ssize(list));
    switch (below(3)) {
      case 0:
        list.push_back(TensorSpec(list[static_cast<size_t>(k)]));
        return;
      case 1:
        list.erase(list.begin() + k);
        return;
      default:
        std::swap(list[static_cast<size_t>(k)], list[static_cast<size_t>(j)]);
    }
  }

  void change_attribute(KernelStep& step) {
    if (step.attributes.empty()) return;
    const auto [name, old] = *(step.attributes.begin() + below(std::ssize(step.attributes)));
    Attribute value = old;
    if (below(24) == 0) return void(step.attributes.erase(name));
    if (below(24) == 0) return step.attributes.set(name, std::string("x"));
    if (auto* b = std::get_if<bool>(&value)) *b = !*b;
    if (auto* i = std::get_if<int64_t>(&value)) *i = changed(*i);
    if (auto* d = std::get_if<double>(&value)) *d = real();
    if (auto* l = std::get_if<std::vector<int64_t>>(&value))
      change_list(*l, [&](int64_t v) { return changed(v); });
    if (auto* l = std::get_if<std::vector<double>>(&value)) change_list(*l, [&](double) { return real(); });
    step.attributes.set(name, std::move(value));
  }

  template <class T, class Change>
  void change_list(std::vector<T>& list, Change change) {
    const int kind = below(10);
    if (list.empty() || kind == 0) return list.push_back(change(T{}));
    const auto k = static_cast<size_t>(below(std::ssize(list)));
    if (kind == 1) return void(list.erase(list.begin() + static_cast<std::ptrdiff_t>(k)));
    if (kind == 2) return list.push_back(T(list[k]));
    list[k] = change(list[k]);
  }

  std::mt19937_64 random_;
};

}  // namespace ipu::kernels::kernel_tests
