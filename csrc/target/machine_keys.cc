#include "target/machine.h"

namespace ipu::target {

const std::vector<MachineKey>& machine_keys() {
  static const std::vector<MachineKey> keys{
      {"ipu_version", "", "architecture: 1, 2 or 21", 1, 21, true},
      {"ipus", "", "IPUs of the system", 1, 4096, true},
      {"tiles", "", "usable tiles of an IPU", 1, 65536, true},
      {"workers", "", "worker threads of a tile", 1, 64, true},
      {"clock_hz", "Hz", "clock of the tiles", 1e6, 1e11, false},
      {"bytes_per_tile", "B", "memory of a tile", 4096, 1 << 30, true},
      {"executable_bytes", "B", "part of it that code can lie in", 1024, 1 << 30, true},
      {"element_bytes", "B", "one bank of it", 256, 1 << 30, true},
      {"vector_bytes", "B", "width of a vector instruction", 4, 256, true},
      {"fp16_16_macs", "1/cycle", "multiply-accumulates of fp16 into fp16", 0, 65536, true},
      {"fp16_16_units", "", "output channels of a block of it", 0, 256, true},
      {"fp16_16_inputs", "", "input channels of a block of it", 0, 256, true},
      {"fp16_32_macs", "1/cycle", "multiply-accumulates of fp16 into fp32", 0, 65536, true},
      {"fp16_32_units", "", "output channels of a block of it", 0, 256, true},
      {"fp16_32_inputs", "", "input channels of a block of it", 0, 256, true},
      {"fp32_macs", "1/cycle", "multiply-accumulates of fp32", 0, 65536, true},
      {"fp32_units", "", "output channels of a block of it", 0, 256, true},
      {"fp32_inputs", "", "input channels of a block of it", 0, 256, true},
      {"fp8_macs", "1/cycle", "multiply-accumulates of fp8 into fp16", 0, 65536, true},
      {"fp8_units", "", "output channels of a block of it", 0, 256, true},
      {"fp8_inputs", "", "input channels of a block of it", 0, 256, true},
      {"weight_load_bytes", "B/cycle", "loading weights into the matrix unit", 1, 1024, true},
      {"weight_load_bytes_128", "B/cycle", "the same from interleaved memory", 1, 1024, true},
      {"exchange_bytes_per_cycle", "B/cycle", "what a tile sends, and receives beside it", 1, 1024, false},
      {"tiles_per_exchange_bus", "", "tiles that can receive the same words at once", 1, 64, true},
      {"sync_cycles", "cycles", "sync of one IPU", 0, 1e6, false},
      {"global_sync_cycles", "cycles", "sync of several IPUs", 0, 1e6, false},
      {"link_bytes_per_second", "B/s", "one link, one direction", 1e6, 1e13, false},
      {"links", "", "links of an IPU", 0, 64, true},
      {"host_bytes_per_second", "B/s", "host to IPU, one IPU", 1e6, 1e13, false},
      {"streaming_bytes_per_second", "B/s", "streaming memory to IPU, one IPU", 1e6, 1e13, false},
      {"phase_cycles", "cycles", "what a phase takes besides its work", 0, 1e6, false},
      {"call_cycles", "cycles", "what an operation takes besides its phases", 0, 1e6, false},
      {"temporary_factor", "", "temporary bytes of a product over its operands", 1, 10, false},
      {"vector_product_factor", "", "products without the matrix unit over their inner loop", 0.1, 10, false},
      {"grouped_factor", "", "products of several groups over their plan", 0.1, 10, false},
      {"sparse_factor", "", "products of sparse weights over their plan", 0.1, 10, false},
      {"dynamic_sparse_factor", "", "the same again if the blocks are known at run time only", 0.1, 10,
       false},
      {"narrow_group_channels", "", "groups of fewer input channels run on the vector unit", 0, 64, true},
      {"depthwise_channels", "", "channels of a depthwise product side by side; 0: none", 0, 64, true},
      {"library_factor", "", "inner loops of this machine's library over the published ones", 0.1, 10, false},
  };
  return keys;
}

}  // namespace ipu::target
