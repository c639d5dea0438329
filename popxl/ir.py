"""A whole program: graphs, remote buffers, replication and options."""

import os
import weakref
from typing import Any, Callable, Optional, Union

from popxl._impl import facade
from popxl._impl.errors import core_errors
from popxl.graph import Graph
from popxl.replica_grouping import ReplicaGrouping


class Ir:
    """A program. Graphs and tensors of several never meet.

    Args:
        replication: copies of the program that run side by side; "popdist": as many as the launcher says.

    Example:
        >>> ir = popxl.Ir(replication=2)
        >>> with ir.main_graph:
        ...     x = popxl.variable(1.0, name="x")
    """

    _ir_cache: "weakref.WeakValueDictionary[int, Ir]" = weakref.WeakValueDictionary()

    def __init__(self, replication: Union[int, str] = 1) -> None:
        self._bind(facade.core().Ir())
        self._configure(replication)

    def _bind(self, pb_ir: Any) -> None:
        self._pb_ir = pb_ir
        self._program = facade.program(pb_ir)
        self._id: int = self._program.id
        self._tensor_cache: dict[int, Any] = {}
        self._graph_cache: dict[int, Graph] = {}
        self._has_read_only_memmap = False
        pb_ir._has_popxl_ir = True
        Ir._ir_cache[self._id] = self

    def _configure(self, replication: Union[int, str]) -> None:
        import popart

        options = self._pb_ir.getSessionOptions()
        options.virtualGraphMode = popart.VirtualGraphMode.Manual
        options.useHostCopyOps = True
        options.aliasZeroCopy = True
        options.enableExplicitMainLoops = True
        options.explicitRecomputation = True
        options.enableInplaceAmbiguityChecking = True
        options.enableVariablesCaching = False
        options.decomposeGradSum = True
        cache = os.environ.get("POPXL_CACHE_DIR") or os.environ.get("POPART_CACHE_DIR")
        if cache:
            other = os.environ.get("POPART_CACHE_DIR", cache)
            if other != cache:
                popart.getLogger("popxl").warn(
                    f"POPXL_CACHE_DIR is {cache} and POPART_CACHE_DIR {other}: executables are kept in {cache}."
                )
            options.enableEngineCaching = True
            options.cachePath = cache
        self.num_host_transfers = 1
        if replication == "popdist":
            import popdist.popart

            popdist.popart.configureSessionOptions(options)
            self._sync_replication()
        elif isinstance(replication, str):
            raise ValueError(f'replication is {replication!r}: it must be a number of replicas or "popdist".')
        else:
            self.replication_factor = replication
        self._use_popdist = replication == "popdist"

    @classmethod
    def _from_pb(cls, pb_ir: Any) -> "Ir":
        """The Ir of popart._internal.ir; always the same object. Raises RuntimeError when it was collected."""
        found = Ir._ir_cache.get(facade.program(pb_ir).id)
        if found is None:
            if getattr(pb_ir, "_has_popxl_ir", False):
                raise RuntimeError(
                    f"The popxl.Ir of program {facade.program(pb_ir).id} is gone: keep the Ir, one of its graphs or tensors."
                )
            found = cls.__new__(cls)
            found._bind(pb_ir)
            found._use_popdist = False
        return found

    @property
    def _options(self) -> Any:
        return self._pb_ir.getSessionOptions()

    # --- graphs
    def _graph(self, number: int) -> Graph:
        graph = self._graph_cache.get(number)
        if graph is None:
            graph = self._graph_cache[number] = Graph._make(self, number)
        return graph

    @property
    def main_graph(self) -> Graph:
        """The graph a run executes."""
        return self._graph(0)

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
        """Traces a function or `Module` into a new graph.

        Args:
            fn: takes tensors and other values, returns None, a tensor or several.
            *args, **kwargs: what it is called with; each Tensor or TensorSpec, also in a list, tuple, `*args` or
                `**kwargs`, becomes an input of the graph with its shape, dtype and meta shape.

        Raises:
            TypeError: `fn` is neither a Module nor a function; tensors are mixed with other values in a container.
            ValueError: the arguments do not fit the signature; the result holds something that is no tensor of the graph.

        Example:
            >>> g = ir.create_graph(lambda x, n: x * n, popxl.TensorSpec((2,), popxl.float32), 3)
        """
        from popxl._impl.tracing import trace

        return trace(self, fn, args, kwargs)

    def create_empty_graph(self, name: Optional[str] = None) -> Graph:
        """A new graph without inputs, called `<name or "graph">_subgraph(<n>)`."""
        with core_errors():
            return self._graph(self._program.create_graph(self._program.unique_subgraph_id(name or "graph")))

    def dot_checkpoint(self, check: str, save_dir: Optional[str] = None) -> None:
        """Writes the graphs as DOT files, if the checkpoint is selected: `check` or "ALL" in session option
        `dotChecks`, to which `POPART_DOT_CHECKS` adds. Without that variable and option all are.

        Args:
            check: name of the checkpoint, and of the files.
            save_dir: folder of the files of all checkpoints from now on; made if it is missing.
        """
        options = self._options
        if save_dir is not None:
            if not os.path.isdir(save_dir):
                import popart

                os.makedirs(save_dir, exist_ok=True)
                popart.getLogger("popxl").warn(f"dot_checkpoint made the folder '{save_dir}'")
            options.logDir = str(save_dir)
        if "POPART_DOT_CHECKS" not in os.environ and not options.dotChecks:
            options.dotChecks = {"ALL"}
        self._pb_ir.dotCheckpoint(self._pb_ir, check)

    # --- streams
    def _streams_of(self, op_types: set[str]) -> set[int]:
        from popxl._impl.stream_uses import streams_of

        return streams_of(self._program, op_types)

    def get_all_h2d_streams(self) -> set[Any]:
        """Streams that some `host_load` uses."""
        from popxl.streams import HostToDeviceStream

        return {HostToDeviceStream._of(self, t) for t in self._streams_of({"HostLoad"})}

    def get_all_d2h_streams(self) -> set[Any]:
        """Streams that some `host_store` uses."""
        from popxl.streams import DeviceToHostStream

        return {DeviceToHostStream._of(self, t) for t in self._streams_of({"HostStore"})}

    @property
    def num_host_transfers(self) -> int:
        """How often each stream is executed in a run, in each replica; a Session reads it when it is made."""
        return self._pb_ir.getDataFlow().batchesPerStep()

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        flow = self._pb_ir.getDataFlow()
        flow.setBatchesPerStep(value)
        self._pb_ir.setDataFlow(flow)

    # --- replicas
    def _sync_replication(self) -> None:
        """The program knows the options."""
        local, rf = self.instance_replication_factor, self._global_replicas()
        if self._program.replicas != rf:
            self._program.replicas = rf
        if self._program.processes != max(1, rf // local):
            self._program.processes = max(1, rf // local)

    def _global_replicas(self) -> int:
        options = self._options
        if options.enableDistributedReplicatedGraphs:
            return options.globalReplicationFactor
        return options.replicatedGraphCount if options.enableReplicatedGraphs else 1

    @property
    def replication_factor(self) -> int:
        """Replicas of the whole job. Setting it says how many this process has.

        Raises:
            RuntimeError: it is set after a Session was made.
            ValueError: it is set to less than 1.
        """
        self._sync_replication()
        return self._global_replicas()

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        if self._pb_ir.isPrepared():
            raise RuntimeError(f"The replication factor of {self!r} is set before a Session is made of it, not after.")
        if value < 1:
            raise ValueError(f"The replication factor is {value}: it must be at least 1.")
        options = self._options
        options.enableReplicatedGraphs = value > 1
        options.replicatedGraphCount = value
        self._sync_replication()

    @property
    def instance_replication_factor(self) -> int:
        """Replicas of this process."""
        options = self._options
        return options.replicatedGraphCount if options.enableReplicatedGraphs else 1

    def replica_grouping(self, stride: int = 1, group_size: Optional[int] = None) -> ReplicaGrouping:
        """Groups of replicas.

        Args:
            stride: from one member of a group to the next.
            group_size: members of a group; `replication_factor // stride` if None.

        Raises:
            ValueError: the replicas cannot be grouped so.
        """
        return ReplicaGrouping._from_stride(self, stride, group_size)

    def replica_grouping_from_assignments(self, assignment: list[int]) -> ReplicaGrouping:
        """Groups of replicas, by the group of each replica.

        Raises:
            ValueError: groups have different sizes, are not numbered by first appearance, or it is not one number for
                each replica.
        """
        return ReplicaGrouping._from_assignment(self, assignment)

    @property
    def id(self) -> int:
        """Unique number."""
        return self._id

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Ir):
            raise TypeError(f"A popxl.Ir is compared with a {type(other).__name__}.")
        return self._id == other._id

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"Ir[id={self._id}]"
