// A variable between the plain form the host gives and takes and the form it is stored in.
#pragma once

#include <cstddef>

#include "program/program.h"

namespace ipu::emulator {

void plain_to_stored(const program::Variable& variable, const std::byte* plain, std::byte* stored);
void stored_to_plain(const program::Variable& variable, const std::byte* stored, std::byte* plain);

// Throws Error(kInvalidProgram) unless both copies stay within the bytes of the two forms.
void prove_forms(const program::Variable& variable);

}  // namespace ipu::emulator
