// What the functions of one element take, as the vendor's library published them.
#pragma once

#include <cstdint>
#include <string_view>

namespace ipu::target {

// Cycles of a worker for one vector of elements: 8 bytes, two fp32 or four fp16. A function without a row of its own is one that the
// library computes element by element.
double function_cycles(std::string_view function, int64_t element_bytes);
// It has a row.
bool is_function_known(std::string_view function);

}  // namespace ipu::target
