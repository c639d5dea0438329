#include "bindings/tensorflow/outfeed_queue.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "bindings/tensorflow/status.h"
#include "runtime/host/unit_registry.h"

namespace ipu::tensorflow {
namespace {

struct Outfeeds {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<OutfeedQueue>> by_name;
};
Outfeeds& outfeeds() {
  static auto* const all = new Outfeeds;  // outlives what runs while the process ends
  return *all;
}

}  // namespace

class OutfeedQueue::Port final : public emulator::StreamPort {
 public:
  Port(std::shared_ptr<OutfeedQueue> queue, size_t component)
      : StreamPort(false), queue_(std::move(queue)), component_(component) {}

  void begin(const emulator::StreamRun& run) override {
    if (run.replicas != 1)
      throw error_with(TF_UNIMPLEMENTED, "outfeed '" + queue_->name_ + "' is written by a unit of " +
                                             std::to_string(run.replicas) +
                                             " replicas; replication comes later");
    bytes_ = static_cast<size_t>(run.element_bytes);
    queue_->begin_run();
  }
  void end(bool) override { queue_->end_run(); }
  const std::byte* fetch(int, kernels::StopSignal&) override { return nullptr; }
  Slot reserve(int, kernels::StopSignal&) override {
    buffer_.resize(std::max<size_t>(bytes_, 1));
    return {Slot::Kind::kSet, buffer_.data()};
  }
  void commit(int) override { queue_->commit(component_, std::exchange(buffer_, {})); }

 private:
  std::shared_ptr<OutfeedQueue> queue_;
  size_t component_;
  size_t bytes_ = 0;
  Buffer buffer_;
};

OutfeedQueue::OutfeedQueue(std::string name, std::vector<Component> components, bool keeps_last)
    : name_(std::move(name)),
      components_(std::move(components)),
      keeps_last_(keeps_last),
      arrived_(components_.size()),
      dropped_(components_.size()) {}

std::vector<std::shared_ptr<emulator::StreamPort>> OutfeedQueue::ports() {
  std::vector<std::shared_ptr<emulator::StreamPort>> ports;
  for (size_t i = 0; i < components_.size(); ++i)
    ports.push_back(std::make_shared<Port>(shared_from_this(), i));
  return ports;
}

void OutfeedQueue::commit(size_t component, Buffer buffer) {
  std::lock_guard lock(mutex_);
  arrived_[component].push_back(std::move(buffer));
  if (!keeps_last_) return;
  // Older ones than the newest that has arrived whole.
  int64_t whole = INT64_MAX;
  for (size_t i = 0; i < arrived_.size(); ++i)
    whole = std::min(whole, dropped_[i] + static_cast<int64_t>(arrived_[i].size()));
  for (size_t i = 0; i < arrived_.size(); ++i)
    for (; dropped_[i] < whole - 1; ++dropped_[i]) arrived_[i].pop_front();
}

void OutfeedQueue::begin_run() {
  std::lock_guard lock(mutex_);
  ++streams_in_run_;
}

void OutfeedQueue::end_run() {
  std::vector<std::function<void()>> waiting;
  {
    std::lock_guard lock(mutex_);
    if (--streams_in_run_ > 0) return;
    // A run that failed may have given part of an element.
    int64_t whole = INT64_MAX;
    for (size_t i = 0; i < arrived_.size(); ++i)
      whole = std::min(whole, dropped_[i] + static_cast<int64_t>(arrived_[i].size()));
    for (size_t i = 0; i < arrived_.size(); ++i)
      arrived_[i].resize(static_cast<size_t>(std::max<int64_t>(whole - dropped_[i], 0)));
    waiting.swap(waiting_);
  }
  for (const auto& then : waiting) then();
}

std::vector<std::vector<OutfeedQueue::Buffer>> OutfeedQueue::take() {
  std::lock_guard lock(mutex_);
  int64_t whole = INT64_MAX;
  for (size_t i = 0; i < arrived_.size(); ++i)
    whole = std::min(whole, dropped_[i] + static_cast<int64_t>(arrived_[i].size()));
  std::vector<std::vector<Buffer>> taken(arrived_.size());
  for (size_t i = 0; i < arrived_.size(); ++i) {
    for (; dropped_[i] < whole && !arrived_[i].empty(); ++dropped_[i]) {
      taken[i].push_back(std::move(arrived_[i].front()));
      arrived_[i].pop_front();
    }
  }
  return taken;
}

void OutfeedQueue::when_idle(std::function<void()> then) {
  {
    std::lock_guard lock(mutex_);
    if (streams_in_run_ > 0) {
      waiting_.push_back(std::move(then));
      return;
    }
  }
  then();
}

std::shared_ptr<OutfeedQueue> find_outfeed(const std::string& name) {
  std::lock_guard lock(outfeeds().mutex);
  const auto at = outfeeds().by_name.find(name);
  return at == outfeeds().by_name.end() ? nullptr : at->second;
}

void declare_outfeed(const std::string& name, std::vector<OutfeedQueue::Component> components,
                     bool keeps_last) {
  auto queue = std::make_shared<OutfeedQueue>(name, std::move(components), keeps_last);
  {
    std::lock_guard lock(outfeeds().mutex);
    outfeeds().by_name[name] = queue;
  }
  runtime::bind_feed(name, queue->ports());
}

bool drop_outfeed(const std::string& name) {
  {
    std::lock_guard lock(outfeeds().mutex);
    if (outfeeds().by_name.erase(name) == 0) return false;
  }
  runtime::bind_feed(name, {});
  return true;
}

}  // namespace ipu::tensorflow
