// What Python says of feeds, and is told, by plain C functions (ctypes).
#pragma once

#include <cstdint>
#include <string>

namespace ipu::tensorflow {

// Tells Python that a queue wants its feeder.
void start_feeder(const std::string& queue, int64_t number);

}  // namespace ipu::tensorflow
