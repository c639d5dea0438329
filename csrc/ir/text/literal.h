// Numbers and constants as text. Every value survives print and parse to the last bit, NaN payloads included.
#pragma once

#include <string>

#include "ir/text/lexer.h"
#include "support/attributes.h"

namespace ipu::ir {

std::string real_literal(double value);  // "0.5", "2.0", "inf", "0x7ff8000000000001"
double parse_real(Lexer& lexer);         // takes one number token; integers are accepted
int64_t parse_integer(Lexer& lexer);
// dense<f32[2]: [1.0, 2.0]>, dense<f32[4]: 0.0> when all elements are equal, dense<f32[100]: "0000803f...">
// when there are many; above `max_elements` a content hash.
std::string dense_literal(const ConstantData& data, int64_t max_elements);
Attribute parse_dense(Lexer& lexer);  // after the word `dense`; a hash as its text, if the lexer takes it
Shape parse_shape(Lexer& lexer, DType dtype);     // "[2,3]"; fails when its size in bytes overflows
uint64_t content_hash(const ConstantData& data);  // of dtype, shape and bytes

}  // namespace ipu::ir
