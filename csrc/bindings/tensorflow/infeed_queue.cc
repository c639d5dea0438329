#include "bindings/tensorflow/infeed_queue.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "bindings/tensorflow/feed_wait.h"
#include "bindings/tensorflow/status.h"
#include "runtime/host/unit_registry.h"

namespace ipu::tensorflow {
namespace {

std::atomic<int64_t> last_number{0};

struct Infeeds {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<InfeedQueue>> by_name;
};
Infeeds& infeeds() {
  static auto* const all = new Infeeds;  // outlives what runs while the process ends
  return *all;
}

}  // namespace

class InfeedQueue::Port final : public emulator::StreamPort {
 public:
  Port(std::shared_ptr<InfeedQueue> queue, size_t component)
      : StreamPort(false), queue_(std::move(queue)), component_(component) {}

  void begin(const emulator::StreamRun& run) override { queue_->begin(component_, run); }
  void end(bool) override { queue_->end_run(component_); }
  const std::byte* fetch(int, kernels::StopSignal& stop) override { return queue_->fetch(component_, stop); }
  void complete(int) override { queue_->complete(component_); }
  Slot reserve(int, kernels::StopSignal&) override { return {}; }

 private:
  std::shared_ptr<InfeedQueue> queue_;
  size_t component_;
};

InfeedQueue::InfeedQueue(std::string name, size_t components, int64_t depth)
    : number_(++last_number), name_(std::move(name)), depth_(depth), cursors_(components) {}

std::vector<std::shared_ptr<emulator::StreamPort>> InfeedQueue::ports() {
  std::vector<std::shared_ptr<emulator::StreamPort>> ports;
  for (size_t i = 0; i < cursors_.size(); ++i) ports.push_back(std::make_shared<Port>(shared_from_this(), i));
  return ports;
}

void InfeedQueue::when_wanted(GoesOn done) {
  {
    std::lock_guard lock(mutex_);
    if (!is_closed_ && asked_ == 0) {
      waiting_feeder_ = std::move(done);
      return;
    }
  }
  done(!is_closed_);
}

void InfeedQueue::push(Element element, GoesOn done) {
  {
    std::lock_guard lock(mutex_);
    elements_.push_back(std::move(element));
    ++pushed_;
    if (!has_room()) waiting_feeder_ = std::exchange(done, nullptr);
  }
  changed_.notify_all();
  if (done) done(!is_closed_);
}

bool InfeedQueue::wait_until_wanted() {
  std::unique_lock lock(mutex_);
  has_waiting_thread_ = true;
  changed_.wait(lock, [&] { return is_closed_ || (asked_ > 0 && has_room()); });
  return !is_closed_;
}

void InfeedQueue::end(const Error& why) {
  {
    std::lock_guard lock(mutex_);
    if (ended_ == nullptr) ended_ = std::make_unique<Error>(why);
  }
  changed_.notify_all();
}

void InfeedQueue::close() {
  GoesOn feeder;
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    feeder = std::exchange(waiting_feeder_, nullptr);
  }
  changed_.notify_all();
  if (feeder) feeder(false);
}

void InfeedQueue::begin(size_t component, const emulator::StreamRun& run) {
  if (run.replicas != 1)
    throw error_with(TF_UNIMPLEMENTED, "infeed '" + name_ + "' is read by a unit of " +
                                           std::to_string(run.replicas) +
                                           " replicas; replication comes later");
  std::lock_guard lock(mutex_);
  cursors_[component].is_in_run = true;
}

const std::byte* InfeedQueue::fetch(size_t component, kernels::StopSignal& stop) {
  std::unique_lock lock(mutex_);
  Cursor& cursor = cursors_[component];
  const int64_t index = cursor.fetched;
  asked_ = std::max(asked_, index + 1);
  if (has_waiting_thread_) changed_.notify_all();
  if (waiting_feeder_ && has_room()) {
    const GoesOn feeder = std::exchange(waiting_feeder_, nullptr);
    lock.unlock();
    feeder(true);
    lock.lock();
  }
  wait_for(lock, changed_, stop, "infeed '" + name_ + "' (element " + std::to_string(index) + ")",
           [&] { return is_closed_ || pushed_ > index || ended_ != nullptr; });
  if (pushed_ <= index) {
    if (ended_ != nullptr) throw Error(*ended_);
    throw error_with(TF_CANCELLED, "infeed '" + name_ + "' was deleted while a run waited for it");
  }
  cursor.fetched = index + 1;
  const TensorPtr& tensor = elements_[static_cast<size_t>(index - dropped_)][component];
  return static_cast<const std::byte*>(TF_TensorData(tensor.get()));
}

void InfeedQueue::complete(size_t component) {
  std::lock_guard lock(mutex_);
  cursors_[component].completed = cursors_[component].fetched;
  drop_read();
}

void InfeedQueue::drop_read() {
  int64_t read = pushed_;
  for (const Cursor& cursor : cursors_)
    if (cursor.is_in_run) read = std::min(read, cursor.completed);
  read = std::min(read, asked_);
  for (; dropped_ < read; ++dropped_) elements_.pop_front();
}

void InfeedQueue::end_run(size_t component) {
  std::lock_guard lock(mutex_);
  cursors_[component].is_in_run = false;
  if (std::any_of(cursors_.begin(), cursors_.end(), [](const Cursor& cursor) { return cursor.is_in_run; }))
    return;
  // What one component took is gone for all, also where the run read the others not at all, or failed in between.
  int64_t taken = dropped_;
  for (const Cursor& cursor : cursors_) taken = std::max(taken, cursor.fetched);
  for (Cursor& cursor : cursors_) cursor.fetched = cursor.completed = taken;
  asked_ = taken;
  drop_read();
}

std::shared_ptr<InfeedQueue> find_infeed(const std::string& name) {
  std::lock_guard lock(infeeds().mutex);
  const auto at = infeeds().by_name.find(name);
  return at == infeeds().by_name.end() ? nullptr : at->second;
}

std::shared_ptr<InfeedQueue> find_infeed(int64_t number) {
  std::lock_guard lock(infeeds().mutex);
  for (const auto& [name, queue] : infeeds().by_name)
    if (queue->number() == number) return queue;
  return nullptr;
}

std::shared_ptr<InfeedQueue> make_infeed(const std::string& name, size_t components, int64_t depth) {
  drop_infeed(name);
  auto queue = std::make_shared<InfeedQueue>(name, components, depth);
  {
    std::lock_guard lock(infeeds().mutex);
    infeeds().by_name[name] = queue;
  }
  runtime::bind_feed(name, queue->ports());
  return queue;
}

bool drop_infeed(const std::string& name) {
  std::shared_ptr<InfeedQueue> queue = find_infeed(name);
  if (queue == nullptr) return false;
  {
    std::lock_guard lock(infeeds().mutex);
    infeeds().by_name.erase(name);
  }
  runtime::bind_feed(name, {});
  queue->close();
  return true;
}

void drop_infeed(int64_t number) {
  std::string name;
  {
    std::lock_guard lock(infeeds().mutex);
    for (const auto& [known, queue] : infeeds().by_name)
      if (queue->number() == number) name = known;
  }
  if (!name.empty()) drop_infeed(name);
}

void drop_all_infeeds() {
  std::vector<std::string> names;
  {
    std::lock_guard lock(infeeds().mutex);
    for (const auto& [name, queue] : infeeds().by_name) names.push_back(name);
  }
  for (const std::string& name : names) drop_infeed(name);
}

}  // namespace ipu::tensorflow
