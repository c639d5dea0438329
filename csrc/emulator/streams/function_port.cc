#include "emulator/streams/function_port.h"

#include <fmt/core.h>

#include "emulator/float_mode.h"
#include "support/error.h"

namespace ipu::emulator {

void FunctionPort::begin(const StreamRun& run) {
  const bool fits = run.stream.is_input() ? give_ != nullptr : take_ != nullptr;
  if (!fits)
    throw Error(ErrorCode::kExecution,
                fmt::format("wrong function for stream '{}': the program {} its elements", run.stream.name,
                            run.stream.is_input() ? "takes" : "gives"));
  elements_.resize(static_cast<size_t>(run.replicas));
  for (std::vector<std::byte>& element : elements_) element.resize(static_cast<size_t>(run.element_bytes));
}

const std::byte* FunctionPort::fetch(int replica, kernels::StopSignal&) {
  // An element without bytes is an element too: its address is not asked for.
  static constexpr std::byte kNothing{};
  const KeepsSubnormals users;
  if (!give_(replica, element(replica))) return nullptr;
  return element(replica).empty() ? &kNothing : element(replica).data();
}

StreamPort::Slot FunctionPort::reserve(int replica, kernels::StopSignal&) {
  return {Slot::Kind::kSet, element(replica).data()};
}

void FunctionPort::commit(int replica) {
  const KeepsSubnormals users;
  take_(replica, element(replica));
}

}  // namespace ipu::emulator
