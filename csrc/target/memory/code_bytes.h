// What the program of an operation takes on a tile: the state of its vertices, their code, exchange and control code.
#pragma once

#include "target/work/work.h"

namespace ipu::target {

struct CodeBytes {
  double vertex_state = 0;
  double vertex_code = 0;  // all work of one kind of vertex shares it
  double exchange = 0;     // of the first time; the same again takes `repeat_exchange_factor` of it
  double control = 0;

  CodeBytes& operator+=(const CodeBytes& next);
};

CodeBytes code_bytes(const WorkForm& form);
// The same for something that moves between tiles, IPUs, host or streaming memory and computes nothing.
CodeBytes transfer_bytes();

}  // namespace ipu::target
