"""Runs a program on a device, and moves data between host and device."""

from collections.abc import Iterable, Mapping
from typing import Any, Optional

import numpy as np

from ipu_common.reports import Report
from popxl import dtypes, utils
from popxl._impl.devices import acquire, device_info, next_power_of_two
from popxl._impl.errors import CURES
from popxl._impl.host_arrays import check_arrays, check_dtypes, input_array
from popxl._impl.turns import WaitLock, in_turn
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Constant, Tensor, Variable

d2hStreamBufferMaps = Mapping[DeviceToHostStream, np.ndarray]
h2dStreamBufferMaps = Mapping[HostToDeviceStream, Any]


class Session:
    """A program compiled as it is now. `with session:` attaches it to its device: variables go there on entering, and
    come back on leaving. Several threads may enter and use one: the first to enter attaches, the last to leave detaches, and
    their calls run one after another.

    Args:
        ir: the program. It may change afterwards; the session does not.
        device_desc: "cpu" (one IPU), "ipu_model", "ipu_hw", the name of a system, or a `popart.DeviceInfo`. All are emulated.
        weights_to_host_on_exit: whether leaving brings variables back.

    Raises:
        RuntimeError: the program has no op.
        ValueError: the device is unknown, or "cpu" for several IPUs.
        popart.popart_exception: the program cannot be compiled; it says what is wrong with which op.

    Example:
        >>> with popxl.Session(ir, "ipu_model") as session:
        ...     y = session.run({x_stream: np.ones(4, np.float32)})[y_stream]
    """

    def __init__(self, ir: Any, device_desc: Any = "cpu", weights_to_host_on_exit: bool = True) -> None:
        import popart

        self.ir_ = ir
        self._ir = ir._pb_ir
        self.weights_to_host_on_exit = weights_to_host_on_exit
        if ir._has_read_only_memmap and weights_to_host_on_exit:
            popart.getLogger("popxl").info("variables stay on the device: the Ir has a read-only np.memmap")
            self.weights_to_host_on_exit = False
        ir._sync_replication()
        self._outputs: set[DeviceToHostStream] = ir.get_all_d2h_streams()
        self._inputs: set[HostToDeviceStream] = ir.get_all_h2d_streams()
        self._transfers: int = ir.num_host_transfers
        self._local_replicas: int = ir.instance_replication_factor
        if not any(ir._program.ops(g) for g in ir._program.graphs()):
            raise RuntimeError(f"{ir!r} has no op, and so there is nothing to run: add ops to its main graph.")
        anchors = {s.tensor_id: popart.AnchorReturnType("All") for s in self._outputs}
        self._ir.setDataFlow(popart.DataFlow(self._transfers, anchors))
        self._rewrite()
        self._was_attached_stack: list[bool] = []
        self._turns = WaitLock("the popxl.Session")
        use_popdist = getattr(ir, "_use_popdist", False)
        self._use_popdist: bool = use_popdist
        self._device = device_info(device_desc, self._get_ipu_count(), use_popdist)
        self._pb_session = popart.InferenceSession.fromIr(ir=self._ir, deviceInfo=self._device)
        self._pb_session.cures = CURES
        self._pb_session.prepareDevice(loadEngine=False)
        self._ir.setIsPrepared()
        if self._device.isAttached:
            self.weights_from_host()

    def _rewrite(self) -> None:
        """What every session does to the graphs: the patterns of the minimal level."""
        import popart

        ir = self._ir
        ir.dotCheckpoint(ir, "Final")
        ir.setPatterns(popart.Patterns(popart.PatternsLevel.Minimal))
        for graph in ir.getAllGraphs():
            ir.applyPreAliasPatterns(graph)

    # --- devices
    def _get_ipus_per_replica(self) -> int:
        program = self.ir_._program
        highest = 0
        for graph in program.graphs():
            for op in program.ops(graph):
                ipu = program.op_setting(op, "ipu")
                if program.op_type(op) == "IpuCopy":
                    ipu = max(ipu or 0, program.op_attribute(op, "destination") or 0)
                if ipu is not None and ipu > highest:
                    highest = ipu
        return highest + 1

    def _get_ipu_count(self) -> int:
        return next_power_of_two(self._get_ipus_per_replica() * self._local_replicas)

    @in_turn
    def _set_device(self, device: Any) -> None:
        """Runs on that `popart.DeviceInfo` from the next entering on, which compares it with the one compiled for."""
        self._device = device

    @property
    def ir(self) -> Any:
        """The program."""
        return self.ir_

    @property
    def is_attached(self) -> bool:
        """Whether the session holds its device."""
        return self._device.isAttached

    def _attach(self) -> None:
        import popart

        if self._device.type is popart.DeviceType.OfflineIpu:
            self._device = acquire(self._device, self._use_popdist, utils.HW_DEVICE_CONNECTION_TIMEOUT)
            self._pb_session.setDevice(self._device)
        if not self._device.attach():  # whoever holds it is in this process: waiting could be for ever
            raise RuntimeError(
                f"{self._device!r} cannot be attached: another session holds its IPUs. Leave that one first."
            )
        try:
            self._pb_session.attach()
        except popart.popart_exception as error:
            self._device.detach()
            raise RuntimeError(f"{self._device!r} cannot be attached: {error}") from error

    @in_turn
    def __enter__(self) -> "Session":
        """Attaches to the device and takes all variables there; nothing, where the session is attached.

        Raises:
            RuntimeError: there is no device to attach to.
            popart.popart_exception: the device is of another kind or size than the one compiled for.
        """
        self._pb_session.setDevice(self._device)
        was_attached = self.is_attached
        if not was_attached:
            self._attach()
        self._was_attached_stack.append(was_attached)
        if not self._pb_session.is_loaded or not was_attached:
            try:
                self.weights_from_host()
            except BaseException as error:
                self.__exit__(type(error), error, error.__traceback__)
                raise
        return self

    @in_turn
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Undoes the entering: brings variables back unless an exception leaves the body, and detaches."""
        if self._was_attached_stack.pop():
            return
        try:
            if kind is None and self.weights_to_host_on_exit:
                self.weights_to_host()
        finally:
            self._pb_session.detach()
            if self._device.isAttached:
                self._device.detach()

    def _require_attached(self, what: str) -> None:
        if not self.is_attached:
            raise ValueError(f"{what} needs the device: call it inside `with session:`.")

    # --- running
    def expected_inputs(self) -> set[HostToDeviceStream]:
        """Streams that a run needs arrays for."""
        return set(self._inputs)

    def _expected_outputs(self) -> set[DeviceToHostStream]:
        return set(self._outputs)

    @property
    def _extra_input_dims(self) -> tuple[int, ...]:
        transfers, replicas = self._transfers, self._local_replicas
        return ((transfers,) if transfers > 1 else ()) + ((replicas,) if replicas > 1 else ())

    def _full_input_shape(self, shape: Iterable[int]) -> tuple[int, ...]:
        return (*self._extra_input_dims, *shape)

    def create_host_outputs(self) -> dict[DeviceToHostStream, np.ndarray]:
        """Arrays for the outputs of a run: of shape [num_host_transfers if > 1] + [local replicas if > 1] + shape of the
        stream."""
        return {s: np.zeros(self._full_input_shape(s.shape), s.dtype.as_numpy()) for s in self._outputs}

    def _validate_run_inputs(self, inputs: Mapping[HostToDeviceStream, Any]) -> None:
        check_arrays("input", inputs, self._inputs, self._transfers, self._local_replicas)

    def _validate_run_outputs(self, outputs: Mapping[DeviceToHostStream, np.ndarray]) -> None:
        check_arrays("output", outputs, self._outputs, self._transfers, self._local_replicas)
        check_dtypes(outputs)

    def run(
        self, inputs: Optional[h2dStreamBufferMaps] = None, downcast_inputs: bool = True
    ) -> dict[DeviceToHostStream, np.ndarray]:
        """Runs the program once.

        Args:
            inputs: array of each stream of `expected_inputs`, of shape [num_host_transfers if > 1] + [local replicas if > 1]
                + shape of the stream; numbers, nested sequences and torch tensors too.
            downcast_inputs: makes 32-bit arrays of 64-bit ones.

        Returns:
            Array of each output stream, of such a shape. Rows that the program does not store are zero.

        Raises:
            ValueError: the session is not attached; streams are missing or unexpected; a shape does not fit.
            popart.popart_exception: a dtype does not fit, or the run fails.
        """
        outputs = self.create_host_outputs()
        self.run_with_outputs(inputs, outputs, downcast_inputs)
        return outputs

    @in_turn
    def run_with_outputs(
        self,
        inputs: Optional[h2dStreamBufferMaps] = None,
        outputs: Optional[d2hStreamBufferMaps] = None,
        downcast_inputs: bool = True,
    ) -> None:
        """As `run`, with the outputs in arrays that are given: C-contiguous, of the dtypes of their streams.

        Raises:
            ValueError: the dtype of an output differs from that of its stream; else as `run`.
            popart.popart_exception: an output is not C-contiguous; else as `run`.
        """
        import popart

        inputs, outputs = dict(inputs or {}), dict(outputs or {})
        arrays = {
            s: input_array(s, x, downcast_inputs) if isinstance(s, HostToDeviceStream) else x for s, x in inputs.items()
        }
        self._validate_run_inputs(arrays)
        self._validate_run_outputs(outputs)
        self._require_attached("run")
        self._pb_session.run(
            popart.PyStepIO({s.tensor_id: x for s, x in arrays.items()}, {s.tensor_id: x for s, x in outputs.items()})
        )

    # --- variables
    @in_turn
    def report(self, machine: Any = None) -> Report:
        """What the program takes on the machine: whether it fits, how long a run takes, and why. Not part of PopXL.

        Args:
            machine: the name of a machine (`poptorch machine --list`) or the path of a machine file, which must have IPUs for
                all replicas. Default: the device, which must have IPUs for those of this process.

        Returns:
            A `Report`: `str()` of it is a text, `.seconds`, `.cycles` and `.memory` are figures, `.json()` has all.

        Raises:
            popart.popart_exception: the machine is unknown.

        Example:
            >>> print(popxl.Session(ir, "ipu_model").report())
        """
        report: Report = self._pb_session.report(machine)
        return report

    def weights_from_host(self) -> None:
        """Takes the host's values of all variables to the device. Raises ValueError when the session is not attached."""
        self._require_attached("weights_from_host")
        self._pb_session.weightsFromHost()

    @in_turn
    def weights_to_host(self) -> None:
        """Brings the values of all variables from the device.

        Raises:
            Exception: the Ir has a read-only `np.memmap`.
            ValueError: the session is not attached.
        """
        if self.ir_._has_read_only_memmap:
            raise Exception(
                f"{self.ir_!r} has a variable in a read-only np.memmap: its variables cannot come back. Open it with mode 'r+'."
            )
        self._require_attached("weights_to_host")
        self._pb_session.weightsToHost()

    def get_tensor_data(self, tensor: Tensor) -> np.ndarray:
        """Value of a variable or constant; arguments and errors of `get_tensors_data`."""
        return self.get_tensors_data([tensor])[tensor]

    @in_turn
    def get_tensors_data(self, tensors: Iterable[Tensor]) -> dict[Tensor, np.ndarray]:
        """Values of variables and constants. Variables come from the device once, where the host's values are old.

        Returns:
            Arrays of the host, of shape `shape_on_host` (copy them to keep them); of variables that are read from all
            replicas, new ones with these in front.

        Raises:
            TypeError: one is neither a variable nor a constant.
            ValueError: one holds 8-bit integers.
        """
        wanted = list(tensors)
        for t in wanted:
            if not isinstance(t, (Variable, Constant)):
                raise TypeError(f"{t!r} is neither a popxl.tensor.Variable nor a Constant: only these have data.")
            if t.dtype in (dtypes.int8, dtypes.uint8):
                raise ValueError(f"{t!r} has dtype {t.dtype!r}, whose data cannot be read: cast it in the program.")
        host = self._host()
        is_fresh = host.in_sync or not self.is_attached or self.ir_._has_read_only_memmap
        if not is_fresh and any(isinstance(t, Variable) for t in wanted):
            self.weights_to_host()
        return {t: self._data(t) for t in wanted}

    def _host(self) -> Any:
        from ipu_common.host_variables import host_variables

        return host_variables(self.ir_._program)

    def _data(self, t: Tensor) -> np.ndarray:
        if isinstance(t, Constant):
            array = np.asarray(self.ir_._program.constant(t._number))
            target = t.dtype.as_numpy()
            return (
                array.view(target).reshape(t.shape)
                if target.names
                else array.astype(target, copy=False).reshape(t.shape)
            )
        assert isinstance(t, Variable)
        held = self._host().by_number[t._number]
        if t.retrieval_mode == "all_replicas" and t.replica_grouping.group_size > 1:
            if self._pb_session.is_loaded and self._pb_session.has_variable(t.id):
                every = self._pb_session.read_all_replicas(t.id)
                return every.reshape(-1, *t.shape)
            assignment = t.replica_grouping.assignment
            if self._pb_session.last_replicas.get(t.id) is not None:
                return self._pb_session.last_replicas[t.id].reshape(-1, *t.shape).copy()
            data = held.data.reshape(t.replica_grouping.num_groups, *t.shape)
            return data[assignment]
        return held.memmap if held.memmap is not None else held.data

    def write_variable_data(self, tensor: Variable, data: Any) -> None:
        """Sets the value of a variable; arguments and errors of `write_variables_data`."""
        self.write_variables_data({tensor: data})

    @in_turn
    def write_variables_data(self, tensors: Mapping[Variable, Any]) -> None:
        """Sets values of variables on the host, and takes them to the device if the session is attached.

        Args:
            tensors: by variable: an array of its dtype and of shape `shape_on_host`, or a number.

        Raises:
            TypeError: a tensor is no variable, or the dtype differs.
            ValueError: the shape differs; the variable is in a read-only `np.memmap`.
            NotImplementedError: a variable is read from all replicas of groups.
        """
        arrays = {t: self._checked(t, data) for t, data in tensors.items()}
        host = self._host()
        for t in arrays:
            host.by_number[t._number].check_writable(t.id)
        is_behind = self.is_attached and not host.in_sync and not self.ir_._has_read_only_memmap
        if is_behind and self._pb_session.has_upload_program:
            self.weights_to_host()  # shards are loaded again by the upload: what runs left in them must be stored before
        for t, array in arrays.items():
            host.by_number[t._number].data[...] = array
        if self.is_attached:
            # Other variables keep the values that runs left on the device.
            self._pb_session.only = {t._number for t in arrays} if is_behind else None
            try:
                self.weights_from_host()
            finally:
                self._pb_session.only = None

    @staticmethod
    def _checked(t: Any, data: Any) -> np.ndarray:
        if not isinstance(t, Variable):
            raise TypeError(f"{t!r} is no popxl.tensor.Variable: only these are written.")
        if t.retrieval_mode == "all_replicas" and t.replica_grouping.group_size > 1:
            raise NotImplementedError(
                f"{t!r} is read from all replicas, and one value for each group cannot be written."
            )
        target = t.dtype.as_numpy()
        if isinstance(data, (bool, int, float)):
            if t.dtype in dtypes._FLOAT8:
                raise TypeError(f"{t!r} takes an array of dtype {target}, not the number {data!r}.")
            data = np.asarray(data, target)
        array = utils.to_numpy(data, downcast=False, copy=False)
        if array.dtype != target:
            raise TypeError(f"{t!r} takes dtype {target}, and the data have {array.dtype}.")
        if array.shape != t.shape_on_host:
            raise ValueError(f"{t!r} takes data of shape {t.shape_on_host}, and these have {array.shape}.")
        return array

    def __repr__(self) -> str:
        return f"Session[ir={self.ir_!r} device={self._device!r}]"
