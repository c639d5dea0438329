// Elements that units give, until somebody dequeues them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/streams/stream_port.h"
#include "support/dtype.h"
#include "support/shape.h"

namespace ipu::tensorflow {

class OutfeedQueue : public std::enable_shared_from_this<OutfeedQueue> {
 public:
  struct Component {
    DType dtype;
    Shape shape;
  };
  // `keeps_last`: only the newest element is kept.
  OutfeedQueue(std::string name, std::vector<Component> components, bool keeps_last);

  const std::vector<Component>& components() const { return components_; }
  bool keeps_last() const { return keeps_last_; }
  std::vector<std::shared_ptr<emulator::StreamPort>> ports();

  using Buffer = std::vector<std::byte>;
  // By component: what arrived of whole elements since the last call, in order.
  std::vector<std::vector<Buffer>> take();
  // Calls `then` when no run gives to the queue: at once if so.
  void when_idle(std::function<void()> then);

 private:
  class Port;
  void commit(size_t component, Buffer buffer);
  void begin_run();
  void end_run();

  const std::string name_;
  const std::vector<Component> components_;
  const bool keeps_last_;
  std::mutex mutex_;
  std::vector<std::deque<Buffer>> arrived_;  // by component
  std::vector<int64_t> dropped_;             // by component: older ones, where only the last is kept
  int streams_in_run_ = 0;
  std::vector<std::function<void()>> waiting_;
};

std::shared_ptr<OutfeedQueue> find_outfeed(const std::string& name);
// A queue of the name, as the streams of all units.
void declare_outfeed(const std::string& name, std::vector<OutfeedQueue::Component> components,
                     bool keeps_last);
bool drop_outfeed(const std::string& name);

}  // namespace ipu::tensorflow
