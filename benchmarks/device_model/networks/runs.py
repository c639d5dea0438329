"""How the networks of measured rows were run: one table, with sources. Sizes of batches, IPUs and machines come from the rows.

Sources: [EXC] configuration files of github.com/graphcore/examples (its history has PopART's) and mlcommons training results v1.0 to
v2.0; [HFC] ipu_config.json of huggingface.co/Graphcore; [BYTE] model files of github.com/bytedance/ByteMLPerf; [CFM] documentation
of the C600.
"""

from collections.abc import Callable
import dataclasses
import functools
import re

from networks import decoding, inputs, speech, transformers, vision


@dataclasses.dataclass(frozen=True)
class Run:
    """A network as it ran: `make()` gives the module, to be called under torch.device("meta"); `inputs(batch)` its arguments."""

    make: Callable
    inputs: Callable
    micro_batch: int
    is_training: bool = False
    replicas: int = 1
    accumulation: int = 1
    proportions: tuple = (0.6,)  # availableMemoryProportion, of each IPU
    partials: str = "fp16"
    optimizer: str = "sgd"
    off_chip_state: bool = False  # the optimizer's, sharded over replicas
    items: float = 1.0  # that a row of a batch counts: packed sequences
    io_tiles: int = 0
    form: Callable | None = None  # the machine form itself, where no front end can say the network
    clients: int = 4  # of a server: latency = clients x batch / throughput [BYTE]

    @property
    def items_per_step(self):
        samples = self.micro_batch * self.items
        return samples if self.form else samples * self.accumulation * self.replicas


LARGE = transformers.BERT_LARGE
BASE = transformers.BERT_BASE

# Sequences of a row that are packed into it, by its length [EXC].
PACKED = {128: 1.17, 384: 1.7, 512: 2.0}
MASKED = {128: 20, 384: 56, 512: 76}
QUESTIONS = 2.2  # of SQuAD in a row of 384 [BYTE]


def pretraining(config, layers, length, micro_batch, replicas, accumulation, proportions, items=1.0, **options):
    masked = MASKED[length]
    return Run(
        lambda: transformers.Pretraining(config, layers, masked),
        lambda batch: inputs.pretraining(batch, length, masked),
        micro_batch,
        is_training=True,
        replicas=replicas,
        accumulation=accumulation,
        proportions=proportions,
        items=items,
        optimizer="lamb",
        off_chip_state=True,
        **options,
    )


def with_layers(config, **changes):
    return dataclasses.replace(config, **changes)


def mlperf_bert(row):
    """Rounds v1.0, v1.1 and v2.0; rows of 512 with two sequences. [EXC]"""
    version = re.search(r"training_results_(v\d\.\d)", row.source)[1]
    if version == "v1.0":
        config, layers, batch, accumulation = with_layers(LARGE, split_qkv=True), [3, 7, 7, 7], 2, 192
        proportions = (0.2, 0.25, 0.25, 0.25)
    elif version == "v1.1" and row.ipus == 16:
        config, layers, batch, accumulation, proportions = LARGE, [4, 7, 6, 7], 2, 192, (0.23,) * 4
    elif version == "v1.1":
        config, layers, batch, accumulation, proportions = LARGE, [1, 2, 3, 4, 3, 4, 3, 4], 2, 96, (0.25,) * 8
    else:
        config = with_layers(LARGE, attention_dropout=0.1)
        layers, batch, proportions = [1, 3, 3, 3, 4, 3, 4, 3], 3, (1.0,) * 8
        accumulation = {16: 256, 64: 96, 128: 64, 256: 36}[row.ipus]
    return pretraining(
        config, layers, 512, batch, row.ipus // len(layers), accumulation, proportions, items=PACKED[512]
    )


def page_bert(row):
    """The vendor's pages: pretraining of BERT-Large and -Base. [EXC]"""
    length = int(re.search(r"seq (\d+)", row.workload)[1])
    is_large = "Large" in row.workload
    if is_large:
        layers, batch = [3, 7, 7, 7], {128: 8, 384: 3, 512: 2}[length]
        proportions = (0.15, 0.25, 0.25, 0.25) if length == 128 else (0.16, 0.21, 0.21, 0.21)
    else:
        layers, batch, proportions = [0, 4, 4, 4], {128: 32, 384: 8, 512: 8}[length], (0.25,) * 4
    replicas = row.ipus // 4
    accumulation = max(int(row.parameters["gbs"]) // (batch * replicas), 7)
    items = PACKED[length] if "packed" in row.workload else 1.0
    config = LARGE if is_large else BASE
    return pretraining(config, layers, length, batch, replicas, accumulation, proportions, items=items)


def trained(row, make, arguments, micro_batch, proportions, optimizer="momentum"):
    """Accumulates to the global batch of the row, and at least once for each stage of the pipeline, forward and backward."""
    ipus = len(proportions)
    replicas = row.ipus // ipus
    return Run(
        make,
        arguments,
        micro_batch,
        is_training=True,
        replicas=replicas,
        accumulation=max(int(row.parameters["gbs"]) // (micro_batch * replicas), 2 * ipus - 1),
        proportions=proportions,
        optimizer=optimizer,
    )


def squad(row):
    """Fine-tuning on questions. [EXC]"""
    is_large = "Large" in row.workload
    layers = [2, 3, 3, 3, 3, 3, 3, 4] if is_large else [0, 4, 4, 4]
    batch, accumulation = (4, 32) if is_large else (1, 8)
    config = LARGE if is_large else BASE
    replicas = row.ipus // len(layers)
    if "gbs" in row.parameters:
        accumulation = int(row.parameters["gbs"]) // (batch * replicas)
    return Run(
        lambda: transformers.Answers(config, layers, is_recomputed=True),
        lambda rows: inputs.answers(rows, 384, config, is_training=True),
        batch,
        is_training=True,
        replicas=replicas,
        accumulation=accumulation,
        proportions=(0.25,) * len(layers),
        optimizer="adam",
    )


def resnet50_training(row):
    """Micro-batches of 20, recomputed at the blocks. [EXC]"""
    images = functools.partial(inputs.images, size=224, is_training=True)
    return trained(row, lambda: vision.ResNet(is_recomputed=True), images, 20, (0.17,))


def resnext_training(row):
    """Two IPUs, cut in the third stage. [EXC]"""
    images = functools.partial(inputs.images, size=224, is_training=True)
    return trained(row, lambda: vision.resnext101(cuts=(13,), is_recomputed=True), images, 6, (0.6,) * 2)


def efficientnet_training(row):
    """B4 over four IPUs, which begin after blocks 2c, 4c and 6a. [EXC]"""
    is_grouped = "group dim 16" in row.workload
    scaling, batch = (vision.B4_GROUP_16, 5) if is_grouped else (vision.B4_GROUP_1, 3)
    cuts = (1, 3), (3, 3), (5, 1)
    images = functools.partial(inputs.images, size=380, is_training=True)
    make = functools.partial(vision.EfficientNet, scaling, norm="group", cuts=cuts, is_recomputed=True)
    return trained(row, make, images, batch, (0.6,) * 4)


def vit_training(row):
    """[EXC]"""
    images = functools.partial(inputs.images, size=224, is_training=True)
    make = functools.partial(transformers.VisionTransformer, transformers.VIT_BASE, [3, 3, 3, 3], is_recomputed=True)
    return trained(row, make, images, 8, (0.3,) * 4)


def conformer_training(row):
    """Speech of 1,220 frames, the encoder over four IPUs. [EXC]"""
    make = functools.partial(speech.ConformerTraining, speech.MEDIUM, [2, 4, 5, 1])
    arguments = functools.partial(inputs.conformer_training, config=speech.MEDIUM)
    return trained(row, make, arguments, 4, (0.6,) * 4, optimizer="adam")


def served(make, arguments, row, per_row=1.0, **options):
    batch = int(row.parameters["bs"])
    return Run(make, arguments, max(round(batch / per_row), 1), items=batch / max(round(batch / per_row), 1), **options)


def served_encoder(config, clients=4):
    """Questions packed into rows of 384. [BYTE]"""

    def run(row):
        length = int(row.parameters.get("seq", 384))
        return served(
            lambda: transformers.Answers(config, [config.layers]),
            lambda rows: inputs.answers(rows, length, config),
            row,
            QUESTIONS,
            proportions=(0.4,),
            clients=clients,
        )

    return run


def served_clip(row):
    """[BYTE]"""
    config = transformers.CLIP_TEXT
    return served(
        lambda: transformers.TextEncoder(config, [config.layers]),
        lambda rows: inputs.text(rows, config.positions, is_causal=True),
        row,
        proportions=(0.4,),
        clients=3,
    )


def served_resnet(row):
    """64 I/O tiles. [BYTE] [CFM]"""
    return served(
        lambda: vision.ResNet(norm=None), lambda rows: inputs.images(rows, 224), row, proportions=(0.6,), io_tiles=64
    )


def served_conformer(row):
    """The encoder over three channels of 512 frames with 64 features. [BYTE]"""
    config = dataclasses.replace(speech.MEDIUM, features=64, dropout=0.0)
    return served(
        lambda: speech.ConformerEncoder(config, [config.layers], channels=3),
        lambda rows: inputs.conformer_images(rows, 512, config),
        row,
        io_tiles=64,
    )


def efficientdet(row):
    return served(vision.EfficientDet, lambda rows: inputs.images(rows, 512), row)


def decoder(config):
    """Cut over all IPUs of the row; as many tokens so far as there can be. github.com/graphcore/PopTransformer"""

    def run(row):
        batch = int(row.parameters["bs"])
        form = functools.partial(decoding.machine_form, config, row.ipus, batch, int(row.parameters["max_len"]))
        return Run(None, None, batch, replicas=row.ipus, form=form)

    return run


NANOGPT_WORDS = 65  # letters: the parameters that are published and not of layers


def nanogpt(row):
    """The row says all of it."""
    layers, heads, width = (int(re.search(rf"(\d+) {what}", row.workload)[1]) for what in ("layers", "heads", "dim"))
    length = int(row.parameters["seq"])
    config = transformers.Transformer(
        layers, width, heads, vocabulary=NANOGPT_WORDS, positions=length, before=True, causal=True
    )
    decoder = transformers.FlashDecoder if row.parameters["attention"] == "flash" else transformers.Decoder
    return Run(
        lambda: decoder(config, [layers]),
        lambda batch: inputs.following_words(batch, length),
        int(re.search(r"micro-batch (\d+)", row.workload)[1]),
        is_training=True,
        replicas=row.ipus,
        optimizer="adam fp32",
    )


# What a row's workload says, and how it ran; the first that fits.
RUNS = (
    ("model-train", r"^MLPerf BERT-Large pretraining", mlperf_bert),
    ("model-train", r"^MLPerf ResNet-50 training", resnet50_training),
    ("model-train", r"^BERT-(Large|Base) pretraining phase \d, seq \d+", page_bert),
    ("model-train", r"^BERT-(Large|Base) fine-tuning SQuAD", squad),
    ("model-train", r"^ResNet-50 v1.5 training", resnet50_training),
    ("model-train", r"^EfficientNet-B4 \(group dim 16\) training", efficientnet_training),
    ("model-train", r"^ResNeXt-101 training", resnext_training),
    ("model-train", r"^ViT training", vit_training),
    ("model-train", r"^Conformer-medium training", conformer_training),
    ("memory-fit", r"^nanoGPT training", nanogpt),
    ("model-infer", r"^ALBERT inference", served_encoder(transformers.ALBERT_BASE)),
    ("model-infer", r"^BERT-base inference", served_encoder(BASE)),
    ("model-infer", r"^BERT-large inference", served_encoder(LARGE)),
    ("model-infer", r"^RoBERTa inference", served_encoder(with_layers(BASE, vocabulary=50265))),
    ("model-infer", r"^DeBERTa inference", served_encoder(transformers.DEBERTA_BASE, clients=1)),
    ("model-infer", r"^CLIP inference", served_clip),
    ("model-infer", r"^ResNet-50 inference", served_resnet),
    ("model-infer", r"^Conformer encoder inference", served_conformer),
    ("model-infer", r"^EfficientDet-D0 compute time", efficientdet),
    ("model-infer", r"^GPT2-XL generation, tensor parallel", decoder(decoding.GPT2_XL)),
    ("model-infer", r"^ChatGLM-6B generation, tensor parallel", decoder(decoding.CHATGLM_6B)),
)


def find(row):
    """The run of a row, or None: the row is of another network."""
    if row.dtype not in ("fp16", "fp16.16"):
        return None
    for kind, pattern, run in RUNS:
        if kind == row.kind and re.search(pattern, row.workload):
            return run(row)
    return None
