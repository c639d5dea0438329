#include "bindings/core/device_binding.h"

#include <pybind11/stl.h>

#include "python/without_lock.h"
#include "runtime/device_lease.h"
#include "runtime/device_pool.h"
#include "target/system.h"

namespace ipu::bindings {

namespace py = pybind11;
using python::without_gil;
using runtime::DeviceGroup;
using runtime::DeviceLease;

void bind_devices(py::module_& m) {
  py::class_<DeviceLease, std::shared_ptr<DeviceLease>>(
      m, "DeviceLease", "IPUs that are held until the last of its holders is gone, sessions among them.");
  m.def(
      "take_ipus",
      [](int first, int count, double seconds) {
        return without_gil([&] { return DeviceLease::take({first, count}, seconds, &python::interrupted); });
      },
      py::arg("first"), py::arg("count"), py::arg("seconds") = 0.0,
      "The lease of these IPUs; None: others have held some of them for so long.");
  m.def(
      "device_group",
      [](int id) -> std::optional<std::pair<int, int>> {
        const std::optional<DeviceGroup> group = DeviceGroup::of_id(id);
        if (!group) return std::nullopt;
        return std::pair(group->first, group->count);
      },
      py::arg("id"), "First IPU and number of IPUs of a device; None: there is none of that id.");
  m.def(
      "device_id",
      [](int first, int count) {
        return DeviceGroup{first, count}.id();
      },
      py::arg("first"), py::arg("count"), "Id of the device that has these IPUs.");
  m.def(
      "system_ipus", [] { return target::attached_system().num_ipus; },
      "IPUs of the system that is attached to this process.");
  m.def(
      "free_ipus", [] { return runtime::DevicePool::instance().free_count(); }, "Those that nobody holds.");
}

}  // namespace ipu::bindings
