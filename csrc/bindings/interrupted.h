// Has the user pressed Ctrl-C? For native code that runs without the interpreter lock.
#pragma once

namespace ipu::bindings {

bool interrupted();

}  // namespace ipu::bindings
