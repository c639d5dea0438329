// The bytes of a tile that the program of an IPU takes: vertices, exchange and control.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/module.h"
#include "ops/definition/work.h"
#include "target/memory/code_bytes.h"

namespace ipu::report {

// Of the ops of one IPU, given one after the other.
class ProgramCode {
 public:
  ProgramCode(double repeat_exchange, bool is_outlined)
      : repeat_exchange_(repeat_exchange), is_outlined_(is_outlined) {}

  void add(const ir::Op& op, const ops::OpWork& work);
  const target::CodeBytes& bytes() const { return bytes_; }

 private:
  double repeat_exchange_;
  bool is_outlined_;
  target::CodeBytes bytes_;
  std::unordered_map<std::string, int> seen_;  // equal ops by their number
  std::unordered_set<uint64_t> pairs_;         // of equal ops that followed each other
  std::unordered_set<std::string> vertices_;
  int last_ = -1;
};

}  // namespace ipu::report
