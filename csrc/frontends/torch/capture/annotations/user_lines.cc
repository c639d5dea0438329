// See user_lines.h.
#include <torch/csrc/python_headers.h>
// First: Python's own headers.
#include <torch/csrc/profiler/combined_traceback.h>
#include <unistd.h>

#include <atomic>

#include "frontends/torch/capture/annotations/user_lines.h"
#include "python/interpreter_lock.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::vector<std::string>& library_directories() {
  static std::vector<std::string> directories;
  return directories;
}

// Replaced as a whole: another thread may be looking for the line of its error.
std::atomic<std::shared_ptr<const std::vector<std::string>>>& location_excludes() {
  static std::atomic<std::shared_ptr<const std::vector<std::string>>> fragments(
      std::make_shared<const std::vector<std::string>>());
  return fragments;
}

bool is_installed(const std::string& file) {
  return file.find("/site-packages/") != std::string::npos ||
         file.find("/dist-packages/") != std::string::npos;
}

// What is installed below the standard library is not of it.
bool is_library(const std::string& file) {
  if (file.rfind("<frozen", 0) == 0) return true;
  for (const std::string& d : library_directories()) {
    if (file.rfind(d, 0) == 0 && !is_installed(file.substr(d.size() - 1))) return true;
  }
  const std::shared_ptr<const std::vector<std::string>> excludes = location_excludes().load();
  for (const std::string& fragment : *excludes) {
    if (!fragment.empty() && file.find(fragment) != std::string::npos) return true;
  }
  return false;
}

std::string shown_path(const std::string& file) {
  static thread_local char directory[4096];
  if (getcwd(directory, sizeof directory) != nullptr) {
    std::string prefix = std::string(directory) + "/";
    if (file.rfind(prefix, 0) == 0) return file.substr(prefix.size());
  }
  return file;
}

// Stands in for torch._inductor while tracebacks are turned into text: torch asks that package for names of
// the code it generated, and would import it for the question (a second, and 80 MiB) though it generated
// none.
class InductorStandIn {
 public:
  InductorStandIn() {
    PyObject* name = PyUnicode_FromString("torch._inductor");
    PyObject* loaded = PyImport_GetModule(name);
    Py_XDECREF(name);
    torch_ = loaded == nullptr ? PyImport_AddModule("torch") : nullptr;  // borrowed
    Py_XDECREF(loaded);
    if (torch_ != nullptr) PyObject_SetAttrString(torch_, "_inductor", Py_None);
    PyErr_Clear();
  }
  ~InductorStandIn() {
    PyObject* now = torch_ != nullptr ? PyObject_GetAttrString(torch_, "_inductor") : nullptr;
    if (now == Py_None) PyObject_DelAttrString(torch_, "_inductor");  // else another thread imported it
    Py_XDECREF(now);
    PyErr_Clear();
  }
  InductorStandIn(const InductorStandIn&) = delete;
  InductorStandIn& operator=(const InductorStandIn&) = delete;

 private:
  PyObject* torch_ = nullptr;
};

torch::SymbolizedTracebacks to_text(const std::vector<torch::CapturedTraceback*>& tracebacks) {
  python::InsideInterpreter inside;
  InductorStandIn stand_in;
  return torch::symbolize(tracebacks);
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

void set_location_excludes(std::vector<std::string> fragments) {
  location_excludes().store(std::make_shared<const std::vector<std::string>>(std::move(fragments)));
}

UserPlace place_of(const std::vector<PythonFrame>& frames) {
  const auto text = [](const PythonFrame& f) { return shown_path(f.file) + ":" + std::to_string(f.line); };
  std::vector<std::string> packages;  // innermost first
  for (const PythonFrame& frame : frames) {
    if (is_library(frame.file)) continue;
    if (is_installed(frame.file)) {
      packages.push_back(text(frame) + "  in " + frame.function);
      continue;
    }
    UserPlace place{text(frame), ""};
    if (!packages.empty()) place.stack = "\n  stack:  > " + place.line + "  in " + frame.function;
    for (size_t i = packages.size(); i-- > 0;) place.stack += "\n            " + packages[i];
    return place;
  }
  return {packages.empty() ? "" : packages.front().substr(0, packages.front().find("  in ")), ""};
}

UserPlace current_place() {
  std::shared_ptr<torch::CapturedTraceback> traceback = torch::CapturedTraceback::gather(true, false, false);
  torch::SymbolizedTracebacks s = to_text({traceback.get()});
  std::vector<PythonFrame> frames;
  for (uint64_t i : s.tracebacks.at(0)) {
    const torch::unwind::Frame& frame = s.all_frames[i];
    frames.push_back({frame.filename, static_cast<int64_t>(frame.lineno), frame.funcname});
  }
  return place_of(frames);
}

std::string current_user_line() { return current_place().line; }

std::string from_line(const std::string& user_line, const std::string& module_path) {
  if (user_line.empty()) return "";
  return "\n  from:     " + user_line + (module_path.empty() ? "" : "  [" + module_path + "]");
}

ir::Location UserLines::here(const std::string& module_path) {
  auto location = std::make_shared<ir::LocationData>();
  location->module_path = module_path;
  pending_.emplace_back(location, torch::CapturedTraceback::gather(true, false, false));
  return location;
}

void UserLines::resolve() {
  if (pending_.empty()) return;
  std::vector<torch::CapturedTraceback*> tracebacks;
  for (const auto& [location, traceback] : pending_) tracebacks.push_back(traceback.get());
  torch::SymbolizedTracebacks s = to_text(tracebacks);
  for (size_t i = 0; i < pending_.size(); ++i) {
    const torch::unwind::Frame* frame = user_frame(s, s.tracebacks.at(i));
    if (frame == nullptr) continue;
    pending_[i].first->file = shown_path(frame->filename);
    pending_[i].first->line = static_cast<int>(frame->lineno);
  }
  pending_.clear();
}

void UserLines::forget() { pending_.clear(); }

}  // namespace ipu::frontends::torch_frontend
