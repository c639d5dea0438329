// Connectionist temporal classification of one sample (Graves et al., 2006): the negative logarithm of the
// sum over all ways to spread a target over time, blanks between, by the forward-backward algorithm in f64.
// Free of tensors: the caller says where log-probabilities are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ipu::kernels {

struct CtcSample {
  int64_t times, labels, blank;
  const int32_t* target;  // `labels` of them

  int64_t states() const { return 2 * labels + 1; }
  int64_t label(int64_t state) const { return state % 2 == 0 ? blank : target[state / 2]; }
  // A state may be entered from two before it when the label between is a blank that can be left out.
  bool may_skip(int64_t state) const {
    return state >= 2 && state % 2 == 1 && label(state) != label(state - 2);
  }
};

inline double log_add(double a, double b) {
  const double largest = std::max(a, b);
  if (std::isinf(largest)) return largest;
  return largest + std::log1p(std::exp(std::min(a, b) - largest));
}

// Whether to give up, asked once for each time with the number of states; results mean nothing then.
struct NeverStop {
  bool operator()(int64_t) const { return false; }
};

// Fills alpha [times, states]: the logarithm of the probability of all ways that are in a state at a time.
// Returns the loss; `log_probability(time, label)`.
template <class LogProbability, class Stop = NeverStop>
double ctc_forward(const CtcSample& s, double* alpha, LogProbability log_probability, Stop stop = {}) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const int64_t states = s.states();
  if (s.times == 0) return s.labels == 0 ? 0.0 : -kNever;
  for (int64_t k = 0; k < states; ++k) alpha[k] = k < 2 ? log_probability(0, s.label(k)) : kNever;
  for (int64_t t = 1; t < s.times; ++t) {
    if (stop(states)) return 0.0;
    const double* before = alpha + (t - 1) * states;
    for (int64_t k = 0; k < states; ++k) {
      double sum = before[k];
      if (k >= 1) sum = log_add(sum, before[k - 1]);
      if (s.may_skip(k)) sum = log_add(sum, before[k - 2]);
      alpha[t * states + k] = sum + log_probability(t, s.label(k));
    }
  }
  const double* last = alpha + (s.times - 1) * states;
  return -(states > 1 ? log_add(last[states - 1], last[states - 2]) : last[states - 1]);
}

// Calls emit(time, label, share): the probability that the label is seen at that time, given the target.
// `beta` holds two rows of states.
template <class LogProbability, class Emit, class Stop = NeverStop>
void ctc_shares(const CtcSample& s, const double* alpha, double loss, double* beta,
                LogProbability log_probability, Emit emit, Stop stop = {}) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const int64_t states = s.states();
  for (int64_t t = s.times; t-- > 0;) {
    if (stop(states)) return;
    double* row = beta + (t % 2) * states;
    const double* after = beta + ((t + 1) % 2) * states;
    for (int64_t k = states; k-- > 0;) {
      double sum = kNever;
      if (t + 1 == s.times) {
        sum = k + 2 >= states ? 0.0 : kNever;
      } else {
        sum = after[k];
        if (k + 1 < states) sum = log_add(sum, after[k + 1]);
        if (k + 2 < states && s.may_skip(k + 2)) sum = log_add(sum, after[k + 2]);
      }
      row[k] = sum + log_probability(t, s.label(k));
      const double way = alpha[t * states + k] + sum;  // the step's own probability counts once
      if (way != kNever || std::isinf(loss)) emit(t, s.label(k), std::exp(way + loss));
    }
  }
}

}  // namespace ipu::kernels
