// What the functions of one element take, as the vendor's library published them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ipu::target {

enum class ElementType : uint8_t { kReal, kInteger };  // booleans are integers of a byte

// Cycles of a worker for one vector of elements, 8 bytes: two fp32 or four fp16. A function without a row of its own takes the sum of
// what the library makes it of; one that the library does not have is computed element by element.
double function_cycles(std::string_view function, int64_t element_bytes,
                       ElementType type = ElementType::kReal);

enum class KnownAs : uint8_t { kRow, kSumOfRows, kNothing };
KnownAs known_as(std::string_view function);

}  // namespace ipu::target
