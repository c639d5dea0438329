"""The two distributions that setup.py makes of this repository: `poptorch`, and `ipu-core`, the same core without what needs torch.
(tensorflow_ipu/setup.py makes the third.)"""

import dataclasses

CORE = ("ipu_common", "ipu_core", "popart", "popart.*", "popxl", "popxl.*", "popdist", "popdist.*")
TYPED = {"popdist": ["py.typed"], "popxl": ["py.typed"]}


@dataclasses.dataclass(frozen=True)
class Distribution:
    """`module`: where the native library goes is the folder of this one. `targets`: what CMake builds."""

    name: str
    description: str
    requirements: list
    packages: tuple
    package_data: dict
    commands: list
    module: str
    targets: tuple


POPTORCH = Distribution(
    name="poptorch",
    description="An open, complete PopTorch: PyTorch programs for IPUs, run on emulated IPUs",
    requirements=["torch==2.13.*", "numpy", "tqdm", "safetensors", "onnx"],  # onnx: popart.Builder, ipu_core.read_onnx
    packages=(*CORE, "poptorch", "poptorch.*"),
    package_data={"poptorch": ["py.typed", "*.pyi"], **TYPED},
    commands=["poprun = popdist._impl.poprun:main", "poptorch = poptorch._impl.command_line:main"],
    module="poptorch.poptorch_core",
    targets=("poptorch_core", "ipu_core"),
)
IPU_CORE = Distribution(
    name="ipu-core",
    description="The compiler and the emulated IPU of poptorch, with PopART and PopXL, without torch",
    requirements=["numpy", "onnx"],
    packages=CORE,
    package_data=TYPED,
    commands=["poprun = popdist._impl.poprun:main"],
    module="ipu_core._native",
    targets=("ipu_core",),
)


def wanted(environment):
    """The one that IPU_TORCH asks for."""
    return IPU_CORE if environment.get("IPU_TORCH", "ON").upper() in ("OFF", "0", "NO", "FALSE") else POPTORCH
