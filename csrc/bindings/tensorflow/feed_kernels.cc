// Ops of feeds: making and deleting queues, the feeder's loop, dequeuing.
#include <cstring>
#include <string>

#include "bindings/tensorflow/feed_control.h"
#include "bindings/tensorflow/infeed_queue.h"
#include "bindings/tensorflow/outfeed_queue.h"
#include "bindings/tensorflow/registration.h"

namespace ipu::tensorflow {
namespace {

// The initializer: a queue of the name and its feeder, which Python starts.
class InfeedCreate {
 public:
  explicit InfeedCreate(TF_OpKernelConstruction* construction)
      : queue_(string_attribute(construction, "queue")),
        components_(integer_attribute(construction, "components")),
        depth_(integer_attribute(construction, "depth")),
        refused_(string_attribute(construction, "refused")) {}

  void compute(TF_OpKernelContext*) const {
    if (!refused_.empty()) throw error_with(TF_FAILED_PRECONDITION, refused_);
    start_feeder(queue_, make_infeed(queue_, static_cast<size_t>(components_), depth_)->number());
  }

 private:
  std::string queue_;
  int64_t components_, depth_;
  std::string refused_;  // why the queue cannot be fed
};

class InfeedDelete {
 public:
  explicit InfeedDelete(TF_OpKernelConstruction* construction)
      : queue_(string_attribute(construction, "queue")) {}

  void compute(TF_OpKernelContext*) const {
    if (!drop_infeed(queue_))
      throw error_with(TF_NOT_FOUND, "infeed '" + queue_ +
                                         "' does not exist: its initializer was not run, or it was deleted");
  }

 private:
  std::string queue_;
};

// The feeder's loop asks at each turn whether to go on.
class Feeder {
 protected:
  static std::shared_ptr<InfeedQueue> queue_of(TF_OpKernelContext* context) {
    const TensorPtr number = input(context, 0);
    return find_infeed(*static_cast<const int64_t*>(TF_TensorData(number.get())));
  }
  static InfeedQueue::GoesOn answer(const Done& done) {
    return [done](bool goes_on) {
      try {
        const TensorPtr result = allocate_output(done.context(), 0, DType::kBool, {});
        *static_cast<bool*>(TF_TensorData(result.get())) = goes_on;
      } catch (...) {
        return done(std::current_exception());
      }
      done();
    };
  }
};

class InfeedWanted : Feeder {
 public:
  explicit InfeedWanted(TF_OpKernelConstruction*) {}
  void compute(TF_OpKernelContext* context, const Done& done) const {
    const std::shared_ptr<InfeedQueue> queue = queue_of(context);
    if (queue == nullptr) return answer(done)(false);
    queue->when_wanted(answer(done));
  }
};

class InfeedPush : Feeder {
 public:
  explicit InfeedPush(TF_OpKernelConstruction* construction)
      : waits_(integer_attribute(construction, "waits") != 0) {}
  void compute(TF_OpKernelContext* context, const Done& done) const {
    const std::shared_ptr<InfeedQueue> queue = queue_of(context);
    if (queue == nullptr) return answer(done)(false);
    InfeedQueue::Element element;
    for (int i = 1; i < TF_NumInputs(context); ++i) element.push_back(input(context, i));
    if (waits_) return queue->push(std::move(element), answer(done));
    queue->push(std::move(element), nullptr);
    answer(done)(true);
  }

 private:
  bool waits_;  // for room for the next one
};

class OutfeedDequeue {
 public:
  explicit OutfeedDequeue(TF_OpKernelConstruction* construction)
      : queue_(string_attribute(construction, "queue")),
        waits_(integer_attribute(construction, "waits") != 0) {}

  void compute(TF_OpKernelContext* context, const Done& done) const {
    const std::shared_ptr<OutfeedQueue> queue = find_outfeed(queue_);
    if (queue == nullptr)
      throw error_with(TF_NOT_FOUND, "outfeed '" + queue_ +
                                         "' does not exist: it was deleted, or built in another process");
    const auto take = [name = queue_, queue, done] {
      std::exception_ptr raised;
      try {
        give(name, *queue, done.context());
      } catch (...) {
        raised = std::current_exception();
      }
      done(raised);
    };
    waits_ ? queue->when_idle(take) : take();
  }

 private:
  static void give(const std::string& name, OutfeedQueue& queue, TF_OpKernelContext* context) {
    const auto taken = queue.take();
    for (size_t i = 0; i < taken.size(); ++i) {
      const OutfeedQueue::Component& component = queue.components()[i];
      Shape shape = component.shape;
      if (!queue.keeps_last()) {
        shape.insert(shape.begin(), static_cast<int64_t>(taken[i].size()));
      } else if (taken[i].empty()) {
        throw error_with(TF_FAILED_PRECONDITION,
                         "outfeed '" + name +
                             "' keeps the last element, and nothing was enqueued since it was "
                             "dequeued: run a unit that enqueues first");
      }
      const TensorPtr result = allocate_output(context, static_cast<int>(i), component.dtype, shape);
      auto* to = static_cast<std::byte*>(TF_TensorData(result.get()));
      const auto bytes = static_cast<size_t>(size_in_bytes(component.dtype, component.shape));
      for (const OutfeedQueue::Buffer& buffer : taken[i]) {
        if (bytes > 0) std::memcpy(to, buffer.data(), bytes);
        to += bytes;
      }
    }
  }

  std::string queue_;
  bool waits_;
};

class OutfeedDelete {
 public:
  explicit OutfeedDelete(TF_OpKernelConstruction* construction)
      : queue_(string_attribute(construction, "queue")) {}

  void compute(TF_OpKernelContext*) const {
    if (!drop_outfeed(queue_))
      throw error_with(TF_NOT_FOUND, "outfeed '" + queue_ + "' does not exist: it was deleted already");
  }

 private:
  std::string queue_;
};

[[maybe_unused]] const bool is_registered = [] {
  register_op({.name = "IpuInfeedCreate",
               .attributes = {"queue: string", "components: int", "depth: int", "refused: string"}});
  register_kernel<InfeedCreate>("IpuInfeedCreate");
  register_op({.name = "IpuInfeedDelete", .attributes = {"queue: string"}});
  register_kernel<InfeedDelete>("IpuInfeedDelete");
  register_op({.name = "IpuInfeedWanted", .inputs = {"number: int64"}, .outputs = {"goes_on: bool"}});
  register_async_kernel<InfeedWanted>("IpuInfeedWanted");
  register_op({.name = "IpuInfeedPush",
               .attributes = {"T: list(type) >= 1", "waits: int"},
               .inputs = {"number: int64", "element: T"},
               .outputs = {"goes_on: bool"}});
  register_async_kernel<InfeedPush>("IpuInfeedPush");
  register_op({.name = "IpuOutfeedDequeue",
               .attributes = {"queue: string", "waits: int", "T: list(type) >= 1"},
               .outputs = {"element: T"}});
  register_async_kernel<OutfeedDequeue>("IpuOutfeedDequeue");
  register_op({.name = "IpuOutfeedDelete", .attributes = {"queue: string"}});
  register_kernel<OutfeedDelete>("IpuOutfeedDelete");
  return true;
}();

}  // namespace
}  // namespace ipu::tensorflow
