"""`ipu.utils`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "config_tree": [
            "AttributeMetadata",
        ],
        "enums": [
            "DeviceConnectionType", "ExecutionProfileType", "MergeRemoteBuffersBehaviour", "SchedulingAlgorithm",
            "SelectionOrder",
        ],
        "config": [
            "IPUConfig",
        ],
        "verification": [
            "KeyId", "VerificationOptions",
        ],
        "system": [
            "configure_ipu_system", "get_ipu_config", "reset_ipu_configuration", "get_num_of_ipus_in_device",
        ],
        "flags": [
            "SyntheticDataCategory", "running_on_ipu_model", "use_synthetic_data_for",
        ],
        "seeds": [
            "reset_ipu_seed",
        ],
        "initialisation": [
            "move_variable_initialization_to_cpu",
        ],
        "events": [
            "extract_all_events", "extract_all_strings_from_event_trace", "extract_all_types_from_event_trace",
            "extract_compile_reports", "extract_execute_reports", "extract_poplar_serialized_graphs",
        ],
        "dataset_files": [
            "export_dataset_to_file", "export_inputs_to_file",
        ],
        "option_functions": [
            "create_ipu_config", "auto_select_ipus", "select_ipus", "set_compilation_options",
            "set_convolution_options", "set_matmul_options", "set_pooling_options", "set_gcl_options",
            "set_report_options", "set_serialization_options", "set_recomputation_options",
            "set_floating_point_behaviour_options", "set_io_tile_options", "set_ipu_connection_type",
            "set_ipu_model_options", "set_norm_options", "set_optimization_options",
            "set_experimental_multi_replica_distribution_options", "set_transfer_options", "set_verification_options",
        ],
    },
)
