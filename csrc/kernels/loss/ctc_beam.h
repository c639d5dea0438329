// Prefix beam search of one sample (Hannun et al., "First-pass large vocabulary speech recognition using
// bi-directional recurrent DNNs", 2014): the most probable targets under log-probabilities of labels and blanks
// over time. A beam is a target so far, with the probability of the ways that end in a blank and of those that
// end in its last label. Targets are nodes of a tree, found by parent and label. Free of tensors, as ctc.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

#include "kernels/loss/ctc.h"

namespace ipu::kernels {

struct CtcBeamPlan {
  int64_t times = 0, classes = 0, blank = 0, width = 0;

  int64_t nodes() const { return times * width + 1; }
  int64_t slots() const { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * nodes()))); }
};

class CtcBeamSearch {
 public:
  struct Beam {
    double with_blank, with_label;  // logarithms
    int64_t order;                  // of equal probabilities the lower one is better
    int32_t node, label;            // label >= 0: the node's child by that label, not made yet

    double total() const { return log_add(with_blank, with_label); }
  };

  static int64_t scratch_bytes(const CtcBeamPlan& plan) {
    return 2 * plan.width * static_cast<int64_t>(sizeof(Beam)) +
           (3 * plan.nodes() + plan.slots()) * static_cast<int64_t>(sizeof(int32_t));
  }
  // `scratch`: so many bytes, aligned for a Beam.
  CtcBeamSearch(const CtcBeamPlan& plan, void* scratch) : plan_(plan) {
    beams_ = static_cast<Beam*>(scratch);
    next_ = beams_ + plan.width;
    parent_ = reinterpret_cast<int32_t*>(next_ + plan.width);
    label_ = parent_ + plan.nodes();
    beam_of_ = label_ + plan.nodes();
    table_ = beam_of_ + plan.nodes();
  }

  // The beams after `times` steps of log_probability(time, label), best first. False when `stop` said so.
  template <class LogProbability, class Stop = NeverStop>
  bool run(int64_t times, LogProbability log_probability, Stop stop = {}) {
    if (stop(plan_.slots())) return false;
    std::fill_n(table_, plan_.slots(), kNone);
    nodes_ = count_ = 1;
    parent_[0] = label_[0] = kNone;
    beam_of_[0] = 0;
    beams_[0] = {0.0, kNever, 0, 0, kNone};
    for (int64_t t = 0; t < times; ++t) {
      if (stop(count_ * plan_.classes)) return false;
      step([&](int64_t label) { return log_probability(t, label); });
    }
    return true;
  }

  int64_t count() const { return count_; }
  double log_probability(int64_t beam) const { return beams_[beam].total(); }
  int64_t length(int64_t beam) const {
    int64_t length = 0;
    for (int32_t node = beams_[beam].node; node != 0; node = parent_[node]) ++length;
    return length;
  }
  // emit(place, label), from the last place to the first.
  template <class Emit>
  void labels(int64_t beam, Emit emit) const {
    int64_t place = length(beam);
    for (int32_t node = beams_[beam].node; node != 0; node = parent_[node]) emit(--place, label_[node]);
  }

 private:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();
  static constexpr int32_t kNone = -1;

  static bool is_better(const Beam& a, const Beam& b) {
    const double x = a.total(), y = b.total();
    return x != y ? x > y : a.order < b.order;
  }

  // The place of the child in the table, taken or free.
  int64_t slot(int32_t parent, int32_t label) const {
    const auto mask = static_cast<uint64_t>(plan_.slots() - 1);
    uint64_t at = (static_cast<uint64_t>(static_cast<uint32_t>(parent)) * 0x9E3779B97F4A7C15u ^
                   static_cast<uint64_t>(static_cast<uint32_t>(label)) * 0xC2B2AE3D27D4EB4Fu);
    for (at = (at ^ at >> 29) & mask; table_[at] != kNone; at = (at + 1) & mask)
      if (parent_[table_[at]] == parent && label_[table_[at]] == label) break;
    return static_cast<int64_t>(at);
  }

  // Keeps the best `width` of what is offered; the worst of them lies in front.
  void offer(int64_t& kept, const Beam& beam) {
    if (!(beam.total() > kNever)) return;
    if (kept == plan_.width) {
      if (!is_better(beam, next_[0])) return;
      std::pop_heap(next_, next_ + kept, is_better);
      next_[--kept] = beam;
    } else {
      next_[kept] = beam;
    }
    std::push_heap(next_, next_ + ++kept, is_better);
  }

  template <class LogProbability>
  void step(LogProbability log_probability) {
    // A beam stays by a blank or its last label once more, or is reached from its parent by that label.
    const auto extended = [&](const Beam& from, int64_t label) {
      return (label_[from.node] == label ? from.with_blank : from.total()) + log_probability(label);
    };
    int64_t kept = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const Beam& beam = beams_[i];
      Beam stays{beam.total() + log_probability(plan_.blank), kNever, i, beam.node, kNone};
      if (beam.node != 0) {
        const int32_t label = label_[beam.node], from = beam_of_[parent_[beam.node]];
        stays.with_label = beam.with_label + log_probability(label);
        if (from != kNone) stays.with_label = log_add(stays.with_label, extended(beams_[from], label));
      }
      offer(kept, stays);
    }
    for (int64_t i = 0; i < count_; ++i) {
      const Beam& beam = beams_[i];
      for (int64_t label = 0; label < plan_.classes; ++label) {
        if (label == plan_.blank) continue;
        const auto as_label = static_cast<int32_t>(label);
        const Beam longer{kNever, extended(beam, label), plan_.width + i * plan_.classes + label, beam.node,
                          as_label};
        if (kept == plan_.width && !is_better(longer, next_[0])) continue;
        const int32_t child = table_[slot(beam.node, as_label)];
        if (child == kNone || beam_of_[child] == kNone)
          offer(kept, longer);  // else it has been counted above
      }
    }
    for (int64_t i = 0; i < count_; ++i) beam_of_[beams_[i].node] = kNone;
    std::sort(next_, next_ + kept, is_better);
    for (int64_t i = 0; i < kept; ++i) {
      Beam& beam = next_[i];
      if (beam.label != kNone) {
        const int64_t at = slot(beam.node, beam.label);
        if (table_[at] == kNone) {
          parent_[nodes_] = beam.node;
          label_[nodes_] = beam.label;
          table_[at] = static_cast<int32_t>(nodes_++);
        }
        beam.node = table_[at];
        beam.label = kNone;
      }
      beam_of_[beam.node] = static_cast<int32_t>(i);
    }
    std::swap(beams_, next_);
    count_ = kept;
  }

  CtcBeamPlan plan_;
  Beam *beams_, *next_;
  int32_t *parent_, *label_, *beam_of_;  // by node; beam_of_: its beam of the moment, or kNone
  int32_t* table_;
  int64_t nodes_ = 0, count_ = 0;
};

}  // namespace ipu::kernels
