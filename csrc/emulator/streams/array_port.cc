#include "emulator/streams/array_port.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "support/error.h"

namespace ipu::emulator {
namespace {

constexpr std::byte kNothing{};  // stands for an element without bytes

}  // namespace

void ArrayPort::bind_for_good(std::byte* data, int64_t elements, AtEnd at_end) {
  bind(data, elements);
  goes_on_ = true;
  at_end_ = at_end;
  runs_ = 0;
  cursors_.clear();
}

// An array for one run has exactly what the run moves, where that is known before.
void ArrayPort::check_bound(const StreamRun& run) const {
  const int64_t wanted = run.elements.count();
  const bool is_open = goes_on_ || (!run.elements.is_exact() && run.stream.is_input());
  const bool fits =
      is_open ? bound_ % run.elements.per_step() == 0 || run.elements.is_constant() : bound_ == wanted;
  if (fits && (data_ != nullptr || bound_ * element_bytes_ == 0)) return;
  throw Error(ErrorCode::kExecution,
              fmt::format("wrong tensor for stream '{}': {} elements bound, {} expected", run.stream.name,
                          bound_, wanted))
      .because("wrong_elements");
}

void ArrayPort::begin(const StreamRun& run) {
  elements_ = &run.elements;
  element_bytes_ = run.element_bytes;
  check_bound(run);
  // Without a division where the run says it: this is part of every call.
  const bool is_counted = !goes_on_ && run.elements.is_exact();
  per_replica_ = is_counted ? run.elements.per_replica() : bound_ / run.elements.per_step();
  cursors_.resize(static_cast<size_t>(run.replicas));
  for (Cursor& cursor : cursors_) cursor = goes_on_ ? Cursor{cursor.first, cursor.first} : Cursor{};
  // Places that a run need not reach hold nothing of the past.
  if (!run.stream.is_input() && !run.elements.is_exact() && !goes_on_ && bound_ > 0)
    std::memset(data_, 0, static_cast<size_t>(bound_ * element_bytes_));
}

void ArrayPort::end(bool completed) {
  if (!completed) return;
  ++runs_;
  if (goes_on_)
    for (Cursor& cursor : cursors_) cursor.first = cursor.next;
}

const std::byte* ArrayPort::fetch(int replica, kernels::StopSignal&) {
  const auto place = [&](int64_t index) {
    return element_bytes_ == 0 ? &kNothing : data_ + index * element_bytes_;
  };
  if (elements_->is_constant()) return bound_ > 0 ? place(0) : nullptr;
  int64_t n = cursors_[static_cast<size_t>(replica)].next++;
  if (n >= per_replica_) {
    if (at_end_ == AtEnd::kStop || per_replica_ == 0) return nullptr;
    n %= per_replica_;
  }
  return place(elements_->source(n, replica));
}

StreamPort::Slot ArrayPort::reserve(int replica, kernels::StopSignal&) {
  Cursor& cursor = cursors_[static_cast<size_t>(replica)];
  const int64_t n = cursor.next++ - cursor.first;
  const program::HostElements::Target target = elements_->target(n, replica);
  if (target.index < 0) return {Slot::Kind::kUnwanted, nullptr};
  const int64_t index = before(cursor) + target.index;
  if (index >= bound_) return {};
  return {target.is_sum ? Slot::Kind::kAdd : Slot::Kind::kSet, data_ + index * element_bytes_};
}

// Entries that earlier runs have filled.
int64_t ArrayPort::before(const Cursor& cursor) const {
  if (!goes_on_) return 0;
  const bool is_dense = elements_->keeps_all() && !elements_->is_exact();
  return is_dense ? cursor.first * elements_->per_step() : runs_ * elements_->count();
}

int64_t ArrayPort::filled() const {
  if (elements_ == nullptr) return 0;
  if (elements_->is_exact() || !elements_->keeps_all())
    return goes_on_ ? runs_ * elements_->count() : elements_->count();
  int64_t most = 0;
  for (const Cursor& cursor : cursors_) most = std::max(most, cursor.next);
  return std::min(most * elements_->per_step(), bound_);
}

}  // namespace ipu::emulator
