// Functions of the caller as the end of a stream: called once for every element, on the thread that runs the
// IPU. Output modes do not apply: the caller sees every element that the device gives.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "emulator/streams/stream_port.h"

namespace ipu::emulator {

class FunctionPort final : public StreamPort {
 public:
  // Fills the element of `replica`; false: there is none.
  using Give = std::function<bool(int replica, std::span<std::byte> element)>;
  using Take = std::function<void(int replica, std::span<const std::byte> element)>;
  explicit FunctionPort(Give give) : StreamPort(false), give_(std::move(give)) {}
  explicit FunctionPort(Take take) : StreamPort(false), take_(std::move(take)) {}

  // Throws Error(kExecution) when the function goes the other way than the stream.
  void begin(const StreamRun& run) override;
  const std::byte* fetch(int replica, kernels::StopSignal& stop) override;
  Slot reserve(int replica, kernels::StopSignal& stop) override;
  void commit(int replica) override;

 private:
  std::vector<std::byte>& element(int replica) { return elements_[static_cast<size_t>(replica)]; }

  Give give_;
  Take take_;
  std::vector<std::vector<std::byte>> elements_;  // by replica
};

}  // namespace ipu::emulator
