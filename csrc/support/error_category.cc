#include "support/error_category.h"

#include <algorithm>
#include <string_view>

namespace ipu {
namespace {

using enum ErrorCategory;

struct Row {
  std::string_view reason;
  ErrorCategory category;
};

// Reasons whose category is not that of their code. scripts/check_errors.py finds those that nothing gives.
constexpr Row kReasons[] = {
    {"already_attached", kFailedPrecondition},
    {"compiles_only", kInvalidArgument},
    {"in_forked_process", kFailedPrecondition},
    {"index_out_of_range", kInvalidArgument},
    {"integer_does_not_fit", kInvalidArgument},
    {"ipus_in_use", kFailedPrecondition},
    {"no_entry_point", kNotFound},
    {"no_feed", kFailedPrecondition},
    {"no_stream", kNotFound},
    {"no_variable", kNotFound},
    {"not_attached", kFailedPrecondition},
    {"not_bound", kFailedPrecondition},
    {"not_run", kFailedPrecondition},
    {"queue_closed", kFailedPrecondition},
    {"reset_not_enough", kFailedPrecondition},
    {"stream_ended", kOutOfRange},
    {"too_few_ipus", kInternal},
    {"wrong_elements", kInvalidArgument},
};

ErrorCategory category_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInterrupted:
      return kCancelled;
    case ErrorCode::kAnchor:
      return kNotFound;
    case ErrorCode::kTileMemory:
    case ErrorCode::kHostMemory:
    case ErrorCode::kNoDevice:
      return kResourceExhausted;
    case ErrorCode::kNoActiveBlock:
    case ErrorCode::kOtherThread:
    case ErrorCode::kBusy:
    case ErrorCode::kFileVersion:
    case ErrorCode::kFileAccess:
    case ErrorCode::kFileMismatch:
      return kFailedPrecondition;
    case ErrorCode::kUnsupportedOps:
    case ErrorCode::kNotDifferentiable:
      return kUnimplemented;
    case ErrorCode::kInternal:
    case ErrorCode::kDeadlock:
    case ErrorCode::kExecution:
    case ErrorCode::kInvalidProgram:
    case ErrorCode::kDeviceFault:
    case ErrorCode::kFloatingPoint:
      return kInternal;
    case ErrorCode::kValueNeeded:
    case ErrorCode::kForeignTensor:
    case ErrorCode::kNoLoss:
    case ErrorCode::kSeveralLosses:
    case ErrorCode::kCapture:
    case ErrorCode::kAnnotation:
    case ErrorCode::kTypeMismatch:
    case ErrorCode::kInvalidIr:
    case ErrorCode::kParse:
    case ErrorCode::kGradientAccumulationTooSmall:
    case ErrorCode::kDeviceIterationsTooSmall:
    case ErrorCode::kIpuCountNotPowerOfTwo:
    case ErrorCode::kOutputPeriod:
    case ErrorCode::kStageOrder:
    case ErrorCode::kOptimizer:
    case ErrorCode::kOption:
    case ErrorCode::kFileCorrupt:
    case ErrorCode::kEnvironment:
      return kInvalidArgument;
  }
  return kInternal;
}

}  // namespace

ErrorCategory category_of(const Error& error) {
  const Row* row = std::ranges::find(kReasons, std::string_view(error.reason()), &Row::reason);
  return row == std::end(kReasons) ? category_of(error.code()) : row->category;
}

}  // namespace ipu
