// Faults on demand as text: the rules of POPTORCH_FAULTS and of poptorch.testing.faults (docs/faults.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ipu::emulator {

// What makes a system usable again, from weakest to strongest.
inline constexpr std::array<std::string_view, 4> kRecoveryActions{"IPU_RESET", "LINK_RESET",
                                                                  "PARTITION_RESET", "FULL_RESET"};

struct FaultRule {
  enum class Kind : uint8_t {
    kReset,          // DeviceError with `action`
    kUnrecoverable,  // DeviceError without action: the system is out of service
    kSlowLink,       // every matching step takes `microseconds` longer
    kAllocation,     // memory of an IPU cannot be had when the program is loaded
    kCorrupt,        // an element of a host stream arrives damaged: DeviceError with LINK_RESET
    kError,          // the step throws something that is no Error
  };
  Kind kind = Kind::kReset;
  std::string action;          // IPU_RESET, LINK_RESET, PARTITION_RESET, FULL_RESET
  int64_t run = 0;             // runs are counted from 1 since the faults were set; 0: any run
  int ipu = -1, replica = -1;  // -1: any
  std::string step;            // kernel, load, store, push, pop, collective; "" any
  std::string stream;          // kCorrupt: "" any
  int64_t times = 1;           // how often it happens; 0: always
  int64_t microseconds = 0;
};

// "IPU_RESET@run=2,ipu=1,step=kernel; slow_link:500@ipu=0,step=push": rules separated by ';', each a kind,
// optionally what it needs after ':', and conditions after '@'. Error(kEnvironment) naming what is wrong.
std::vector<FaultRule> parse_faults(std::string_view text);

}  // namespace ipu::emulator
