// The user's lines. A Python traceback is gathered for each operator and turned into text only at the end or
// for an error; the innermost frame outside of torch, poptorch and installed packages is the user's, else the
// innermost outside of torch and poptorch.
#include <torch/csrc/profiler/combined_traceback.h>
#include <unistd.h>

#include "frontends/torch/capture/capture.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::vector<std::string>& library_directories() {
  static std::vector<std::string> directories;
  return directories;
}

bool is_library(const std::string& file) {
  if (file.rfind("<frozen", 0) == 0) return true;
  for (const std::string& d : library_directories()) {
    if (file.rfind(d, 0) == 0) return true;
  }
  return false;
}

bool is_installed(const std::string& file) {
  return file.find("/site-packages/") != std::string::npos ||
         file.find("/dist-packages/") != std::string::npos;
}

std::string shown_path(const std::string& file) {
  static thread_local char directory[4096];
  if (getcwd(directory, sizeof directory) != nullptr) {
    std::string prefix = std::string(directory) + "/";
    if (file.rfind(prefix, 0) == 0) return file.substr(prefix.size());
  }
  return file;
}

const torch::unwind::Frame* user_frame(const torch::SymbolizedTracebacks& s,
                                       const std::vector<uint64_t>& traceback) {
  const torch::unwind::Frame* installed = nullptr;
  for (uint64_t i : traceback) {
    const torch::unwind::Frame& frame = s.all_frames[i];
    if (is_library(frame.filename)) continue;
    if (!is_installed(frame.filename)) return &frame;
    if (installed == nullptr) installed = &frame;
  }
  return installed;
}

}  // namespace

void set_library_directories(std::vector<std::string> directories) {
  library_directories() = std::move(directories);
}

std::string current_user_line() {
  std::shared_ptr<torch::CapturedTraceback> traceback = torch::CapturedTraceback::gather(true, false, false);
  torch::SymbolizedTracebacks s = torch::symbolize({traceback.get()});
  const torch::unwind::Frame* frame = user_frame(s, s.tracebacks.at(0));
  return frame == nullptr ? "" : shown_path(frame->filename) + ":" + std::to_string(frame->lineno);
}

std::string from_line(const std::string& user_line, const std::string& module_path) {
  if (user_line.empty()) return "";
  return "\n  from:     " + user_line + (module_path.empty() ? "" : "  [" + module_path + "]");
}

ir::Location Capture::new_location() {
  auto location = std::make_shared<ir::LocationData>();
  location->module_path = current_module();
  pending_lines_.emplace_back(location, torch::CapturedTraceback::gather(true, false, false));
  return location;
}

// Fills in file and line of all locations handed out.
void Capture::resolve_locations() {
  if (pending_lines_.empty()) return;
  std::vector<torch::CapturedTraceback*> tracebacks;
  for (const auto& [location, traceback] : pending_lines_) tracebacks.push_back(traceback.get());
  torch::SymbolizedTracebacks s = torch::symbolize(tracebacks);
  for (size_t i = 0; i < pending_lines_.size(); ++i) {
    const torch::unwind::Frame* frame = user_frame(s, s.tracebacks.at(i));
    if (frame == nullptr) continue;
    pending_lines_[i].first->file = shown_path(frame->filename);
    pending_lines_[i].first->line = static_cast<int>(frame->lineno);
  }
  pending_lines_.clear();
}

}  // namespace ipu::frontends::torch_frontend
