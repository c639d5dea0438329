#include "emulator/streams/queue_port.h"

#include <fmt/core.h>

#include <chrono>

#include "support/error.h"

namespace ipu::emulator {
namespace {

constexpr std::chrono::milliseconds kStopInterval{20};  // how often a waiting device asks whether to stop
constexpr std::byte kNothing{};                         // stands for an element without bytes

}  // namespace

QueuePort::QueuePort(int64_t capacity, int replicas) : StreamPort(false), capacity_(capacity) {
  if (capacity < 1 || replicas < 1)
    throw Error(
        ErrorCode::kExecution,
        fmt::format("a queue of {} elements for {} replicas: both are at least 1", capacity, replicas));
  lanes_.resize(static_cast<size_t>(replicas));
}

void QueuePort::push(int replica, std::vector<std::byte> element) {
  std::unique_lock lock(mutex_);
  Lane& to = lane(replica);
  changed_.wait(lock, [&] { return is_closed_ || !is_full(to); });
  if (is_closed_)
    throw Error(ErrorCode::kExecution, "the queue is closed: nothing can be pushed any more")
        .because("queue_closed");
  to.elements.push_back(std::move(element));
  lock.unlock();
  changed_.notify_all();
}

std::optional<std::vector<std::byte>> QueuePort::pop(int replica) {
  std::unique_lock lock(mutex_);
  Lane& from = lane(replica);
  changed_.wait(lock, [&] { return is_closed_ || !from.elements.empty(); });
  if (from.elements.empty()) return std::nullopt;
  std::vector<std::byte> element = std::move(from.elements.front());
  from.elements.pop_front();
  lock.unlock();
  changed_.notify_all();
  return element;
}

void QueuePort::close() {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
}

void QueuePort::begin(const StreamRun& run) {
  std::lock_guard lock(mutex_);
  if (static_cast<size_t>(run.replicas) != lanes_.size())
    throw Error(ErrorCode::kExecution,
                fmt::format("wrong queue for stream '{}': it is for {} replicas, the program has {}",
                            run.stream.name, lanes_.size(), run.replicas));
  element_bytes_ = run.element_bytes;
}

void QueuePort::wait(std::unique_lock<std::mutex>& lock, kernels::StopSignal& stop,
                     const std::function<bool()>& until) {
  while (!changed_.wait_for(lock, kStopInterval, until)) {
    lock.unlock();  // the answer may be a call into a front end
    const bool ends = stop.raised();
    lock.lock();
    if (ends)
      throw Error(ErrorCode::kInterrupted, "interrupted: the run was stopped while a queue was waited for");
  }
}

const std::byte* QueuePort::fetch(int replica, kernels::StopSignal& stop) {
  std::unique_lock lock(mutex_);
  Lane& from = lane(replica);
  wait(lock, stop, [&] { return is_closed_ || !from.elements.empty(); });
  if (from.elements.empty()) return nullptr;
  from.at_device = std::move(from.elements.front());
  from.elements.pop_front();
  if (static_cast<int64_t>(from.at_device.size()) != element_bytes_)
    throw Error(ErrorCode::kExecution, fmt::format("wrong element in a queue: {} bytes, the stream takes {}",
                                                   from.at_device.size(), element_bytes_))
        .because("wrong_elements");
  lock.unlock();
  changed_.notify_all();
  return from.at_device.empty() ? &kNothing : from.at_device.data();
}

void QueuePort::complete(int replica) { lane(replica).at_device.clear(); }

StreamPort::Slot QueuePort::reserve(int replica, kernels::StopSignal& stop) {
  std::unique_lock lock(mutex_);
  Lane& to = lane(replica);
  wait(lock, stop, [&] { return is_closed_ || !is_full(to); });
  if (is_closed_) return {};
  to.at_device.resize(static_cast<size_t>(element_bytes_));
  return {Slot::Kind::kSet, to.at_device.data()};
}

void QueuePort::commit(int replica) {
  {
    std::lock_guard lock(mutex_);
    Lane& to = lane(replica);
    to.elements.push_back(std::move(to.at_device));
    to.at_device = {};
  }
  changed_.notify_all();
}

}  // namespace ipu::emulator
