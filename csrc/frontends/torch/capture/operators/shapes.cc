#include "frontends/torch/capture/operators/shapes.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorUtils.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/empty_strided_meta_dispatch.h>

#include <string_view>
#include <unordered_map>

#include "frontends/torch/capture/operators/stack.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {
namespace {

at::Tensor to_meta(const at::Tensor& t) {
  // Numbers keep their weak type; 0-d CPU tensors may be mixed with any device.
  if (!is_ours(t) && t.dim() == 0) return t;
  at::Tensor meta = at::meta::empty_strided(t.sizes(), t.strides(), t.scalar_type(), c10::kStrided,
                                            c10::Device(c10::kMeta), false);
  if (t.storage_offset() != 0) meta.unsafeGetTensorImpl()->set_storage_offset(t.storage_offset());
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

TensorMeta meta_of(const at::Tensor& t) {
  TensorMeta m;
  m.sizes.assign(t.sizes().begin(), t.sizes().end());
  m.strides.assign(t.strides().begin(), t.strides().end());
  m.storage_offset = t.storage_offset();
  m.dtype = t.scalar_type();
  return m;
}

InferredResults infer_by_meta(const OpInfo& info, at::ArrayRef<c10::IValue> arguments) {
  torch::jit::Stack stack;
  stack.reserve(arguments.size());
  for (const c10::IValue& a : arguments) {
    if (a.isDevice()) {
      stack.emplace_back(c10::Device(c10::kMeta));
    } else if (a.isGenerator()) {
      stack.emplace_back();
    } else {
      stack.push_back(map_tensors(a, to_meta));
    }
  }
  torch::jit::Stack keep = stack;  // inputs must outlive the call
  info.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  InferredResults results;
  for (const c10::IValue& r : stack) {
    if (r.isTensor()) {
      if (!r.toTensor().defined()) {
        results.layout.push_back(-2);
        continue;
      }
      results.layout.push_back(-1);
      results.tensors.push_back(meta_of(r.toTensor()));
    } else if (r.isTensorList()) {
      auto list = r.toTensorVector();
      results.layout.push_back(static_cast<int>(list.size()));
      for (const at::Tensor& t : list) results.tensors.push_back(meta_of(t));
    } else if (r.isNone()) {
      results.layout.push_back(-2);
    } else {
      throw Error(ErrorCode::kValueNeeded,
                  "value needed: aten::" + info.overload +
                      " returns a number that depends on the input of the IPU graph");
    }
  }
  return results;
}

// --- rules

// A rule fills one contiguous result and returns true, or returns false to ask Meta (anything unusual: other
// strides, odd arguments, mistakes, whose message is torch's).

using Arguments = at::ArrayRef<c10::IValue>;
using Rule = bool (*)(Arguments, TensorMeta&);

void set_contiguous(TensorMeta& m, at::IntArrayRef sizes, at::ScalarType dtype) {
  m.sizes.assign(sizes.begin(), sizes.end());
  m.strides.resize(sizes.size());
  int64_t stride = 1;
  for (int i = static_cast<int>(sizes.size()) - 1; i >= 0; --i) {
    m.strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  m.dtype = dtype;
}

const at::Tensor* any_tensor(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined() ? &v.toTensor() : nullptr;
}

// One in plain order: of others most results have the order, so torch is asked.
const at::Tensor* plain_tensor(const c10::IValue& v) {
  if (!v.isTensor() || !v.toTensor().defined() || !v.toTensor().is_contiguous()) return nullptr;
  return &v.toTensor();
}

bool unary_float(Arguments a, TensorMeta& m) {
  const at::Tensor* x = plain_tensor(a[0]);
  if (x == nullptr || !at::isFloatingType(x->scalar_type())) return false;
  set_contiguous(m, x->sizes(), x->scalar_type());
  return true;
}

bool same_as_first(Arguments a, TensorMeta& m) {
  const at::Tensor* x = plain_tensor(a[0]);
  if (x == nullptr) return false;
  set_contiguous(m, x->sizes(), x->scalar_type());
  return true;
}

template <bool kComparison, bool kDivision>
bool binary(Arguments a, TensorMeta& m) {
  const at::Tensor* x = plain_tensor(a[0]);
  if (x == nullptr) return false;
  at::native::ResultTypeState state{};
  state = at::native::update_result_type_state(*x, state);
  at::DimVector sizes(x->sizes().begin(), x->sizes().end());
  if (a[1].isTensor()) {
    const at::Tensor* y = plain_tensor(a[1]);
    if (y == nullptr) return false;
    state = at::native::update_result_type_state(*y, state);
    if (x->sizes() != y->sizes()) {
      size_t n = std::max(x->dim(), y->dim());
      at::DimVector out(n);
      for (size_t i = 0; i < n; ++i) {
        int64_t p = i < static_cast<size_t>(x->dim()) ? x->size(x->dim() - 1 - i) : 1;
        int64_t q = i < static_cast<size_t>(y->dim()) ? y->size(y->dim() - 1 - i) : 1;
        if (p != q && p != 1 && q != 1) return false;
        out[n - 1 - i] = p == 1 ? q : p;
      }
      sizes = out;
    }
  } else if (a[1].isScalar()) {
    if (a[1].isComplexDouble()) return false;
    state.wrappedResult = at::native::update_result_type_state(a[1].toScalar(), state).wrappedResult;
  } else {
    return false;
  }
  at::ScalarType dtype = at::native::result_type(state);
  if (kDivision && !at::isFloatingType(dtype)) return false;
  set_contiguous(m, sizes, kComparison ? at::kBool : dtype);
  return true;
}

bool linear(Arguments a, TensorMeta& m) {
  const at::Tensor* x = plain_tensor(a[0]);
  if (x == nullptr || !a[1].isTensor() || x->dim() < 1) return false;
  const at::Tensor& w = a[1].toTensor();
  if (w.dim() != 2 || w.size(1) != x->size(-1)) return false;
  at::DimVector sizes(x->sizes().begin(), x->sizes().end());
  sizes.back() = w.size(0);
  set_contiguous(m, sizes, x->scalar_type());
  return true;
}

bool matmul(Arguments a, TensorMeta& m) {
  const at::Tensor* x = plain_tensor(a[0]);
  if (x == nullptr || !a[1].isTensor() || x->dim() < 2) return false;
  const at::Tensor& y = a[1].toTensor();
  if (y.dim() < 2 || x->size(-1) != y.size(-2) || x->scalar_type() != y.scalar_type()) return false;
  if (y.dim() != 2 &&
      (y.dim() != x->dim() || x->sizes().slice(0, x->dim() - 2) != y.sizes().slice(0, y.dim() - 2))) {
    return false;
  }
  at::DimVector sizes(x->sizes().begin(), x->sizes().end());
  sizes.back() = y.size(-1);
  set_contiguous(m, sizes, x->scalar_type());
  return true;
}

int64_t entry(const std::vector<int64_t>& list, size_t i) { return list.size() == 1 ? list[0] : list[i]; }

// conv1d, conv2d (input, weight, bias, stride, padding, dilation, groups)
bool convolution(Arguments a, TensorMeta& m) {
  const at::Tensor* x = plain_tensor(a[0]);
  if (x == nullptr || !a[1].isTensor() || a.size() != 7 || !a[4].isIntList()) return false;
  const at::Tensor& w = a[1].toTensor();
  size_t spatial = static_cast<size_t>(w.dim()) - 2;
  if (w.dim() < 3 || x->dim() != w.dim() || x->size(1) != w.size(1) * a[6].toInt()) return false;
  auto stride = a[3].toIntVector(), padding = a[4].toIntVector(), dilation = a[5].toIntVector();
  at::DimVector sizes{x->size(0), w.size(0)};
  for (size_t i = 0; i < spatial; ++i) {
    int64_t window = entry(dilation, i) * (w.size(2 + i) - 1) + 1;
    int64_t room = x->size(2 + i) + 2 * entry(padding, i) - window;
    if (room < 0 || entry(stride, i) < 1) return false;
    sizes.push_back(room / entry(stride, i) + 1);
  }
  set_contiguous(m, sizes, x->scalar_type());
  return true;
}

bool softmax(Arguments a, TensorMeta& m) { return a.size() > 2 && a[2].isNone() && unary_float(a, m); }

bool scalar_loss(Arguments a, TensorMeta& m) {  // mse_loss, l1_loss (input, target, reduction)
  const at::Tensor* x = plain_tensor(a[0]);
  const at::Tensor* y = plain_tensor(a[1]);
  if (x == nullptr || y == nullptr || x->sizes() != y->sizes() || x->scalar_type() != y->scalar_type())
    return false;
  bool none = a[2].toInt() == 0;
  set_contiguous(m, none ? x->sizes() : at::IntArrayRef{}, x->scalar_type());
  return true;
}

// cross_entropy_loss(self, target, weight, reduction, ...): class indices only
bool cross_entropy(Arguments a, TensorMeta& m) {
  const at::Tensor* x = plain_tensor(a[0]);
  const at::Tensor* y = plain_tensor(a[1]);
  if (x == nullptr || y == nullptr || at::isFloatingType(y->scalar_type()) || a[3].toInt() == 0) return false;
  if (x->dim() != y->dim() + 1 || x->dim() < 2 || x->size(0) != y->size(0)) return false;
  for (int64_t i = 1; i < y->dim(); ++i) {
    if (x->size(i + 1) != y->size(i)) return false;
  }
  set_contiguous(m, {}, x->scalar_type());
  return true;
}

// scaled_dot_product_attention(query, key, value, ...): torch's own rule runs Python code that makes tensors
// of its own.
bool attention(Arguments a, TensorMeta& m) {
  const at::Tensor &q = a[0].toTensor(), &k = a[1].toTensor(), &v = a[2].toTensor();
  const int64_t rank = std::max({q.dim(), k.dim(), v.dim()});
  if (std::min({q.dim(), k.dim(), v.dim()}) < 2) return false;
  if (q.size(-1) != k.size(-1) || k.size(-2) != v.size(-2)) return false;
  at::DimVector sizes(rank);
  sizes[rank - 2] = q.size(-2);
  sizes[rank - 1] = v.size(-1);
  const bool grouped = a[7].toBool();  // heads of the query are a multiple of those of key and value
  for (int64_t d = -3; d >= -rank; --d) {
    const auto size_of = [d](const at::Tensor& t) { return -d <= t.dim() ? t.size(d) : 1; };
    const int64_t most = std::max({size_of(q), size_of(k), size_of(v)});
    for (int64_t size : {size_of(q), size_of(k), size_of(v)}) {
      if (size == 0 || (grouped && d == -3 ? most % size != 0 : size != most && size != 1)) return false;
    }
    sizes[rank + d] = most;
  }
  set_contiguous(m, sizes, q.scalar_type());
  return true;
}

// one_hot(self, num_classes): torch's own rule looks at the values.
bool one_hot(Arguments a, TensorMeta& m) {
  const at::Tensor* x = any_tensor(a[0]);
  if (x == nullptr || a[1].toInt() < 1 || x->scalar_type() != at::kLong) return false;
  at::DimVector sizes(x->sizes().begin(), x->sizes().end());
  sizes.push_back(a[1].toInt());
  set_contiguous(m, sizes, at::kLong);
  return true;
}

// bincount(self, weights, minlength): the device counts exactly `minlength` classes.
bool bincount(Arguments a, TensorMeta& m) {
  const at::Tensor* x = any_tensor(a[0]);
  if (x == nullptr || x->dim() != 1 || a[2].toInt() < 1) return false;
  at::ScalarType dtype = at::kLong;
  if (a[1].isTensor() && a[1].toTensor().defined())
    dtype = a[1].toTensor().scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  set_contiguous(m, {a[2].toInt()}, dtype);
  return true;
}

// ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
bool ctc_loss(Arguments a, TensorMeta& m) {
  const at::Tensor* x = any_tensor(a[0]);
  if (x == nullptr || x->dim() != 3) return false;
  const at::DimVector samples{x->size(1)};
  set_contiguous(m, a[5].toInt() == 0 ? at::IntArrayRef(samples) : at::IntArrayRef{}, x->scalar_type());
  return true;
}

// cdist(x1, x2, p, compute_mode): one of torch's ways makes tensors on another device.
bool distances(Arguments a, TensorMeta& m) {
  const at::Tensor* x = any_tensor(a[0]);
  const at::Tensor* y = any_tensor(a[1]);
  if (x == nullptr || y == nullptr || x->dim() != y->dim() || x->dim() < 2 || x->size(-1) != y->size(-1) ||
      x->scalar_type() != y->scalar_type())
    return false;
  at::DimVector sizes(x->sizes().begin(), x->sizes().end());
  sizes.back() = y->size(-2);
  for (int64_t d = 0; d + 2 < x->dim(); ++d) {
    if (x->size(d) != y->size(d) && x->size(d) != 1 && y->size(d) != 1) return false;
    sizes[d] = x->size(d) == 1 ? y->size(d) : x->size(d);
  }
  set_contiguous(m, sizes, x->scalar_type());
  return true;
}

// mean and sum, (self, dtype) or (self, dim, keepdim, dtype), and amax, amin (self, dim, keepdim): torch's
// own rules of some of them are Python that loads a symbolic algebra package.
template <bool kSum, bool kDims>
bool reduction(Arguments a, TensorMeta& m) {
  const at::Tensor* x = plain_tensor(a[0]);
  const size_t dtype = kDims ? 3 : 1;
  if (x == nullptr || (a.size() > dtype && !a[dtype].isNone())) return false;
  const bool is_floating = at::isFloatingType(x->scalar_type());
  if (!is_floating && !(kSum && x->scalar_type() == at::kLong)) return false;
  std::vector<bool> reduced(static_cast<size_t>(x->dim()), true);
  if (kDims && a[1].isIntList() && !a[1].toIntVector().empty()) {
    reduced.assign(reduced.size(), false);
    for (int64_t dim : a[1].toIntVector()) {
      if (dim < -x->dim() || dim >= x->dim()) return false;
      const size_t d = static_cast<size_t>(dim < 0 ? dim + x->dim() : dim);
      if (reduced[d]) return false;
      reduced[d] = true;
    }
  }
  const bool keeps = kDims && a[2].toBool();
  at::DimVector sizes;
  for (int64_t d = 0; d < x->dim(); ++d) {
    if (!reduced[static_cast<size_t>(d)]) {
      sizes.push_back(x->size(d));
    } else if (keeps) {
      sizes.push_back(1);
    }
  }
  set_contiguous(m, sizes, x->scalar_type());
  return true;
}

Rule find_rule(const std::string& overload) {
  static const std::unordered_map<std::string, Rule> rules = [] {
    std::unordered_map<std::string, Rule> r;
    for (const char* n :
         {"relu",        "gelu",       "silu",       "tanh",  "sigmoid",    "exp",        "log",
          "sqrt",        "rsqrt",      "erf",        "sin",   "cos",        "leaky_relu", "elu",
          "hardtanh",    "softplus",   "expm1",      "log1p", "reciprocal", "dropout",    "hardswish",
          "hardsigmoid", "layer_norm", "group_norm", "clamp", "clamp_min",  "clamp_max"}) {
      r[n] = unary_float;  // a bound that is no integer makes integers floats: torch says so
    }
    for (const char* n : {"neg", "abs", "sign", "floor", "ceil", "round", "trunc"}) {
      r[n] = same_as_first;
    }
    for (const char* n : {"add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum", "add.Scalar",
                          "sub.Scalar", "mul.Scalar", "rsub.Scalar", "rsub.Tensor"}) {
      r[n] = binary<false, false>;
    }
    for (const char* n : {"div.Tensor", "div.Scalar", "pow.Tensor_Scalar"}) r[n] = binary<false, true>;
    for (const char* n : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      r[std::string(n) + ".Tensor"] = binary<true, false>;
      r[std::string(n) + ".Scalar"] = binary<true, false>;
    }
    r["mean"] = reduction<false, false>;
    r["mean.dim"] = reduction<false, true>;
    r["sum"] = reduction<true, false>;
    r["sum.dim_IntList"] = reduction<true, true>;
    r["amax"] = r["amin"] = reduction<false, true>;
    r["linear"] = linear;
    r["matmul"] = matmul;
    r["mm"] = matmul;
    r["bmm"] = matmul;
    r["conv1d"] = convolution;
    r["conv2d"] = convolution;
    r["softmax.int"] = softmax;
    r["log_softmax.int"] = softmax;
    r["mse_loss"] = scalar_loss;
    r["l1_loss"] = scalar_loss;
    r["cross_entropy_loss"] = cross_entropy;
    r["scaled_dot_product_attention"] = attention;
    r["one_hot"] = one_hot;
    r["bincount"] = bincount;
    r["cdist"] = distances;
    r["ctc_loss.Tensor"] = r["ctc_loss.IntList"] = ctc_loss;
    return r;
  }();
  auto found = rules.find(overload);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace

InferredResults infer_results(const OpInfo& info, at::ArrayRef<c10::IValue> arguments) {
  if (Rule rule = find_rule(info.overload)) {
    InferredResults results;
    TensorMeta meta;
    if (rule(arguments, meta)) {
      results.tensors.push_back(std::move(meta));
      results.layout.push_back(-1);
      return results;
    }
  }
  return infer_by_meta(info, arguments);
}

}  // namespace ipu::frontends::torch_frontend
