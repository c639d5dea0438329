"""Op types that cannot be part of a unit: why, and the nearest way out. The one table of all errors of building."""

from __future__ import annotations

from dataclasses import dataclass

_STATIC = (
    "has results whose shapes depend on values; shapes inside a unit are static. Use a mask, or pad to a known size"
)
_REF = "is a ref variable; only resource variables work inside a unit (use_resource=True)"
OTHER_RESOURCE = "gives a resource that is no variable, which cannot be compiled"
_OUTSIDE = "compute it on the CPU, outside of ipu_compiler.compile, and pass its tensors in"
_NO_RULE = "has no rule for the IPU"


@dataclass(frozen=True)
class Refusal:
    reason: str
    way: str
    is_invalid: bool = False  # no compiler could have a rule

    @property
    def why(self) -> str:
        return f"{self.reason}: {self.way}"


def _by_values(way: str) -> Refusal:
    return Refusal(_STATIC, way, is_invalid=True)


def _no_rule(way: str) -> Refusal:
    return Refusal(_NO_RULE, way)


def _each(types: str, refusal: Refusal) -> dict[str, Refusal]:
    return dict.fromkeys(types.split(), refusal)


_DATASET = _no_rule(f"do it in the dataset of an infeed, or {_OUTSIDE}")
_DECOMPOSED = _no_rule(
    f"{_OUTSIDE}; with positive definite matrices tf.linalg.cholesky and tf.linalg.triangular_solve stay"
)
_FREQUENCIES = _no_rule(f"complex numbers are not on the IPU; {_OUTSIDE}, or multiply by the matrix of the transform")
_CONTROL_FLOW = _no_rule(
    "it is control flow of version 1; build the graph again with tf.enable_control_flow_v2(), so that it has While and If"
)
_SUMMARY = _no_rule("return the value, or enqueue it into an outfeed, and make the summary of it outside")
_SEGMENTS = _no_rule("use tf.math.unsorted_segment_sum of gathered rows, with a constant number of segments")
_COLLECTIVE = _no_rule("several replicas are not in this version; leave the reduction out for one replica")
_INFEED = _no_rule("give the data to the loop by an IPUInfeedQueue, or get the element outside and pass it in")

REF_VARIABLES = _each(
    "Variable VariableV2 TemporaryVariable",
    Refusal(_REF, "call tf.enable_resource_variables() before the first is made", is_invalid=True),
)
_REFUSALS = {
    **_each("Where", _by_values("tf.where(condition, x, y) chooses in place, x * tf.cast(mask, x.dtype) leaves out")),
    **_each(
        "Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2",
        _by_values("tf.math.unsorted_segment_sum over all numbers that may occur needs no list of those that do"),
    ),
    **_each("DynamicPartition", _by_values("multiply by a mask for each part")),
    **_each("ComputeAccidentalHits", _by_values("sample with remove_accidental_hits=False")),
    **_each("LeftShift RightShift", _no_rule("multiply, or divide with tf.math.floordiv, by a power of two")),
    **_each("Bitcast", _no_rule(f"tf.cast converts values; {_OUTSIDE}")),
    **_each("MaxPoolWithArgmax", _no_rule("use tf.nn.max_pool, and compare with it where the place is needed")),
    **_each("ListDiff", _by_values(_OUTSIDE)),
    **_each(
        "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 "
        "CombinedNonMaxSuppression NonMaxSuppressionWithOverlaps",
        _by_values(
            "tf.math.top_k keeps a constant number of boxes; or return boxes and scores, and suppress on the CPU"
        ),
    ),
    **REF_VARIABLES,
    **_each("PyFunc PyFuncStateless EagerPyFunc", _no_rule(f"Python cannot run on the IPU; {_OUTSIDE}")),
    **_each(
        "Switch RefSwitch Merge RefMerge Enter RefEnter Exit RefExit NextIteration RefNextIteration LoopCond",
        _CONTROL_FLOW,
    ),
    **_each(
        "TensorArrayV3 TensorArrayWriteV3 TensorArrayReadV3 TensorArrayGatherV3 TensorArrayScatterV3", _CONTROL_FLOW
    ),
    **_each("StackV2 StackPushV2 StackPopV2", _CONTROL_FLOW),
    **_each(
        "CudnnRNN CudnnRNNV2 CudnnRNNV3 BlockLSTM BlockLSTMV2 LSTMBlockCell",
        _no_rule("use ipu.rnn_ops.PopnnLSTM, or tf.nn.dynamic_rnn with a LSTMCell"),
    ),
    **_each("GRUBlockCell", _no_rule("use ipu.rnn_ops.PopnnGRU, or tf.nn.dynamic_rnn with a GRUCell")),
    **_each("LookupTableFindV2 LookupTableSizeV2 HashTableV2 MutableHashTableV2", _DATASET),
    **_each("DecodeJpeg DecodePng DecodeRaw DecodeImage DecodeAndCropJpeg EncodeJpeg EncodePng ReadFile", _DATASET),
    **_each(
        "ParseExample ParseExampleV2 ParseSingleExample DecodeCSV StringToNumber StringSplit StringSplitV2", _DATASET
    ),
    **_each("IteratorGetNext IteratorV2 OneShotIterator QueueDequeueV2 QueueDequeueManyV2 FIFOQueueV2", _INFEED),
    **_each("Qr Svd SelfAdjointEigV2 Eig Lu MatrixExponential MatrixLogarithm MatrixSquareRoot", _DECOMPOSED),
    **_each(
        "FFT FFT2D FFT3D IFFT IFFT2D IFFT3D RFFT RFFT2D RFFT3D IRFFT IRFFT2D IRFFT3D Complex ComplexAbs", _FREQUENCIES
    ),
    **_each("ScalarSummary HistogramSummary ImageSummary AudioSummary TensorSummaryV2 MergeSummary", _SUMMARY),
    **_each("WriteSummary WriteScalarSummary WriteHistogramSummary WriteImageSummary", _SUMMARY),
    **_each(
        "SparseSegmentSumWithNumSegments SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments", _SEGMENTS
    ),
    **_each(
        "SparseTensorDenseMatMul SparseMatMul SparseToDense SparseReshape SparseReorder",
        _no_rule("make the matrix dense (tf.sparse.to_dense) outside; lookups of rows are tf.gather and a sum"),
    ),
    **_each("SparseFillEmptyRows StringFormat", _DATASET),
    **_each(
        "ResizeBicubic ResizeArea CropAndResize ExtractGlimpse", _no_rule("use tf.image.resize by bilinear or nearest")
    ),
    **_each(
        "RandomGamma RandomPoissonV2 StatelessRandomBinomial ParameterizedTruncatedNormal",
        _no_rule(f"draw tf.random.normal, truncated_normal or uniform numbers, or {_OUTSIDE}"),
    ),
    **_each(
        "FixedUnigramCandidateSampler LearnedUnigramCandidateSampler", _no_rule("use uniform or log-uniform candidates")
    ),
    **_each(
        "ThreadUnsafeUnigramCandidateSampler AllCandidateSampler", _no_rule("use uniform or log-uniform candidates")
    ),
    **_each(
        "SaveV2 RestoreV2 MergeV2Checkpoints",
        _no_rule("save and restore outside: variables of a unit are those of the graph"),
    ),
    **_each("CollectiveReduce CollectiveReduceV2 CollectiveGather NcclAllReduce NcclReduce", _COLLECTIVE),
    **_each(
        "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars QuantizeV2 QuantizeAndDequantizeV2",
        _no_rule("compute in float16"),
    ),
    **_each("Timestamp", _no_rule("take the time on the host, around session.run")),
}


def of_invalid(kind: str) -> Refusal | None:
    """Of a type that is refused whatever the core knows; None: it is not."""
    refusal = _REFUSALS.get(kind)
    return refusal if refusal is not None and refusal.is_invalid else None


def of_unknown(kind: str) -> Refusal:
    """Of a type for which the core has no rule."""
    return _REFUSALS.get(kind) or _no_rule(_OUTSIDE)


def known_types() -> list[str]:
    """All types with a way out of their own."""
    return sorted(_REFUSALS)
