#include "bindings/tensorflow/feed_control.h"

#include <atomic>

#include "bindings/tensorflow/infeed_queue.h"
#include "bindings/tensorflow/outfeed_queue.h"
#include "bindings/tensorflow/status.h"
#include "bindings/tensorflow/tensors.h"

namespace ipu::tensorflow {
namespace {

using Starter = void (*)(const char* queue, int64_t number);
std::atomic<Starter> starter{nullptr};

}  // namespace

void start_feeder(const std::string& queue, int64_t number) {
  const Starter start = starter;
  if (start == nullptr)
    throw error_with(TF_FAILED_PRECONDITION, "infeed '" + queue + "' was built in another process");
  start(queue.c_str(), number);
}

}  // namespace ipu::tensorflow

extern "C" {

// `start` is called from threads of TensorFlow and begins a feeder.
void ipu_set_feeder_starter(void (*start)(const char* queue, int64_t number)) {
  ipu::tensorflow::starter = start;
}

// The feeder of queue `number` has no more elements, for a reason with a code of TensorFlow.
void ipu_end_infeed(int64_t number, int code, const char* text) {
  using namespace ipu::tensorflow;
  if (const auto queue = find_infeed(number)) queue->end(error_with(static_cast<TF_Code>(code), text));
}

// Waits until queue `number` wants an element; 0: it is closed, or gone.
int ipu_wait_infeed(int64_t number) {
  const auto queue = ipu::tensorflow::find_infeed(number);
  return queue != nullptr && queue->wait_until_wanted() ? 1 : 0;
}

// Nobody can use queue `number` any more: its feeder ends.
void ipu_delete_infeed(int64_t number) { ipu::tensorflow::drop_infeed(number); }

// The process ends: feeders end.
void ipu_delete_infeeds() { ipu::tensorflow::drop_all_infeeds(); }

// `ranks` dimensions of each component stand in `dims` one after the other; types are those of TensorFlow, which were checked.
void ipu_declare_outfeed(const char* queue, int keeps_last, int components, const int* types,
                         const int* ranks, const int64_t* dims) {
  using namespace ipu::tensorflow;
  std::vector<OutfeedQueue::Component> all;
  for (int i = 0; i < components; ++i) {
    all.push_back({dtype_of(static_cast<TF_DataType>(types[i])), ipu::Shape(dims, dims + ranks[i])});
    dims += ranks[i];
  }
  declare_outfeed(queue, std::move(all), keeps_last != 0);
}

}  // extern "C"
