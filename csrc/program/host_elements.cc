#include "program/host_elements.h"

#include <fmt/core.h>

#include "support/checked.h"
#include "support/error.h"

namespace ipu::program {

HostElements::HostElements(const Program& program, const Stream& stream, const StreamUse& use)
    : mode_(stream.mode),
      use_(use),
      is_input_(stream.is_input()),
      replicas_(program.replicas),
      input_groups_(program.input_groups.count(program.replicas)),
      period_(stream.period),
      block_(stream.block) {
  if (is_input_)
    for (int r = 0; r < program.replicas; ++r) group_.push_back(program.input_groups.group_of(r));
  switch (mode_) {
    case StreamMode::kConstantInput:
      count_ = 1;
      break;
    case StreamMode::kInput:
      count_ = (Checked(use.elements) * input_groups_).value();
      break;
    case StreamMode::kAll:
      count_ = (Checked(use.elements) * replicas_).value();
      break;
    case StreamMode::kEveryN: {
      const int64_t blocks = (Checked(period_) * block_).value();
      if (blocks < 1 || use.elements % blocks != 0)
        throw Error(ErrorCode::kInvalidProgram,
                    fmt::format("invalid program: stream {} gives every {}th block of {} elements, and a run "
                                "has {} elements",
                                stream.name, period_, block_, use.elements));
      count_ = (Checked(use.elements / period_) * replicas_).value();
      break;
    }
    case StreamMode::kFinal:
    case StreamMode::kSum:
      count_ = use.is_used() ? replicas_ : 0;
      break;
  }
  if (!is_constant()) arrivals_ = count_ / per_step();
}

HostElements::Target HostElements::target(int64_t n, int replica) const {
  switch (mode_) {
    case StreamMode::kAll:
      return {n * replicas_ + replica, false};
    case StreamMode::kEveryN: {
      const int64_t block = n / block_;
      if ((block + 1) % period_ != 0) return {};
      return {(block / period_ * block_ + n % block_) * replicas_ + replica, false};
    }
    case StreamMode::kFinal:  // which one is the last may be known only when the run has ended
      if (use_.is_exact && n != use_.elements - 1) return {};
      return {replica, false};
    case StreamMode::kSum:
      return {replica, n > 0};
    default:
      return {};
  }
}

Shape HostElements::shape(const Shape& element) const { return repeated_shape(element, count_); }

Shape repeated_shape(Shape element, int64_t count) {
  if (!element.empty())
    element[0] *= count;
  else if (count != 1)
    element.push_back(count);
  return element;
}

std::vector<HostElements> host_elements(const Program& program, int entry) {
  const std::vector<StreamUse> uses = stream_uses(program, entry);
  std::vector<HostElements> result;
  result.reserve(uses.size());
  for (size_t s = 0; s < uses.size(); ++s) result.emplace_back(program, program.streams[s], uses[s]);
  return result;
}

}  // namespace ipu::program
