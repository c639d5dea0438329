"""Machine forms of BERT on one IPU, as texts: inference, and a stage of a pipeline that trains."""

import dataclasses

VOCABULARY, POSITIONS = 30522, 512


@dataclasses.dataclass(frozen=True)
class Bert:
    width: int
    heads: int
    inner: int

    def shape(self, batch, sequence):
        return f"[{batch},{sequence},{self.width}]"


LARGE, BASE = Bert(1024, 16, 4096), Bert(768, 12, 3072)


class Program:
    """One entry graph; every value in fp16."""

    def __init__(self, bert, batch, sequence, proportion=None):
        self.bert, self.batch, self.sequence = bert, batch, sequence
        self.settings = "ipu=0" + (f", available_memory={proportion}" if proportion else "")
        self.tables, self.body, self.count = [], [], 0
        self.types, self.gradients = {}, {}
        self.marks = ""

    def text(self):
        return "\n".join([*self.tables, "entry main = @main", "graph @main() -> () {", *self.body, "  return", "}", ""])

    def make(self, kind, operands, shape, attributes="", dtype="f16"):
        """The name of the first result; `shape`: of it."""
        self.count += 1
        name = f"%v{self.count}"
        self.types[name] = shape
        listed = ",".join(str(size) for size in shape)
        rest = f"{attributes} | {self.settings}{self.marks}"
        results, types = name, f"{dtype}[{listed}]"
        if kind == "layer_norm":
            mean = ",".join(str(size) for size in (*shape[:-1], 1))
            results, types = f"{name}, {name}m, {name}r", f"{types}, f32[{mean}], f32[{mean}]"
        self.body.append(f"  {results} = {kind}({', '.join(operands)}) {{{rest}}} : {types}")
        return name

    def variable(self, name, shape, role="parameter"):
        listed = ",".join(map(str, shape))
        self.tables.append(f'variable @{name}: f16[{listed}] {{ipu=0, role="{role}"}}')
        return self.make("variable.read", [], shape, f"variable=@{name}")

    def weight(self, name, shape, trains):
        value = self.variable(name, shape)
        if trains:
            self.gradients[value] = (f"{name}.accumulator", self.variable(f"{name}.accumulator", shape, "accumulator"))
        return value

    def accumulate(self, value, gradient):
        name, before = self.gradients[value]
        after = self.make("add", [before, gradient], self.types[value])
        self.body.append(f"  variable.assign({after}) {{variable=@{name}}}")

    def matmul(self, a, b, trans_a=False, trans_b=False):
        left, right = self.types[a], self.types[b]
        rows = left[-1] if trans_a else left[-2]
        columns = right[-2] if trans_b else right[-1]
        flags = f"trans_a={str(trans_a).lower()}, trans_b={str(trans_b).lower()}"
        return self.make("matmul", [a, b], (*left[:-2], rows, columns), flags)

    def like(self, kind, operand, *others, attributes=""):
        return self.make(kind, [operand, *others], self.types[operand], attributes)

    def heads(self, x, columns):
        """[rows, width] as [batch x heads, sequence, width of a head]."""
        batch, sequence, heads = self.batch, self.sequence, self.bert.heads
        size = self.bert.width // heads
        part = self.make(
            "slice",
            [x],
            (batch * sequence, self.bert.width),
            f"starts=[0,{columns}], sizes=[{batch * sequence},{self.bert.width}], steps=[1,1]",
        )
        split = self.make(
            "reshape", [part], (batch, sequence, heads, size), f"shape=[{batch},{sequence},{heads},{size}]"
        )
        moved = self.make("transpose", [split], (batch, heads, sequence, size), "perm=[0,2,1,3]")
        return self.make(
            "reshape", [moved], (batch * heads, sequence, size), f"shape=[{batch * heads},{sequence},{size}]"
        )

    def joined(self, x):
        batch, sequence, heads = self.batch, self.sequence, self.bert.heads
        size = self.bert.width // heads
        split = self.make("reshape", [x], (batch, heads, sequence, size), f"shape=[{batch},{heads},{sequence},{size}]")
        moved = self.make("transpose", [split], (batch, sequence, heads, size), "perm=[0,2,1,3]")
        return self.make(
            "reshape", [moved], (batch * sequence, heads * size), f"shape=[{batch * sequence},{heads * size}]"
        )


class Layer:
    """An encoder layer; its weights are made when it is."""

    def __init__(self, program, name, trains=False):
        self.p, width, inner = program, program.bert.width, program.bert.inner
        make = lambda part, *shape: program.weight(f"{name}.{part}", shape, trains)
        self.qkv, self.projection = make("qkv", width, 3 * width), make("projection", width, width)
        self.up, self.down = make("up", width, inner), make("down", inner, width)
        self.biases = [make(f"bias{i}", size) for i, size in enumerate((3 * width, width, inner, width))]
        self.norms = [(make(f"norm{i}.weight", width), make(f"norm{i}.bias", width)) for i in range(2)]

    def forward(self, x):
        p, width = self.p, self.p.bert.width
        with_bias = lambda y, i: p.like("add", y, self.biases[i])
        self.x = x
        qkv = with_bias(p.matmul(x, self.qkv), 0)
        self.q, self.k, self.v = (p.heads(qkv, at * width) for at in range(3))
        scores = p.like("mul", p.matmul(self.q, self.k, trans_b=True), p.scale)
        self.weights = p.like("softmax", p.like("add", scores, p.mask), attributes="dim=2")
        self.context = p.joined(p.matmul(self.weights, self.v))
        added = p.like("add", with_bias(p.matmul(self.context, self.projection), 1), x)
        self.first = p.like("layer_norm", added, *self.norms[0], attributes="axis=1")
        self.inner = with_bias(p.matmul(self.first, self.up), 2)
        self.active = p.like("gelu", self.inner)
        added = p.like("add", with_bias(p.matmul(self.active, self.down), 3), self.first)
        return p.like("layer_norm", added, *self.norms[1], attributes="axis=1")

    def product_gradients(self, dy, x, weight, bias):
        p = self.p
        p.accumulate(weight, p.matmul(x, dy, trans_a=True))
        p.accumulate(self.biases[bias], p.make("reduce_sum", [dy], p.types[dy][1:], "dims=[0]"))
        return p.matmul(dy, weight, trans_b=True)

    def norm_gradients(self, dy, norm):
        for weight in self.norms[norm]:
            self.p.accumulate(weight, self.p.make("reduce_sum", [dy], self.p.types[dy][1:], "dims=[0]"))
        return self.p.like("mul", self.p.like("sub", self.p.like("mul", dy, dy), dy), dy)

    def backward(self, dy):
        p = self.p
        dy = self.norm_gradients(dy, 1)
        d_inner = p.like("gelu_gradient", self.inner, self.product_gradients(dy, self.active, self.down, 3))
        d_first = self.norm_gradients(p.like("add", self.product_gradients(d_inner, self.first, self.up, 2), dy), 0)
        d_context = p.heads(self.product_gradients(d_first, self.context, self.projection, 1), 0)
        d_weights = p.matmul(d_context, self.v, trans_b=True)
        d_scores = p.like("mul", p.like("mul", p.like("sub", d_weights, self.weights), self.weights), p.scale)
        parts = [
            p.joined(p.matmul(d_scores, self.k)),
            p.joined(p.matmul(d_scores, self.q, trans_a=True)),
            p.joined(p.matmul(self.weights, d_context, trans_a=True)),
        ]
        rows, width = p.types[parts[0]]
        d_qkv = p.make("concat", parts, (rows, 3 * width), "dim=1")
        return p.like("add", self.product_gradients(d_qkv, self.x, self.qkv, 0), d_first)


def _program(bert, batch, sequence, proportion):
    p = Program(bert, batch, sequence, proportion)
    p.tables += [
        f"stream @ids: i32[{batch * sequence}] {{ipu=0}}",
        f"stream @mask: f16[{batch * bert.heads},1,{sequence}] {{ipu=0}}",
        'stream @y: f16[1] {direction="device_to_host", ipu=0}',
    ]
    p.scale = p.make("constant", [], (), "value=dense<f16[]: 0.125>")
    p.mask = p.make("host_load", [], (batch * bert.heads, 1, sequence), "stream=@mask")
    return p


def _embedding(p, trains):
    rows, width = p.batch * p.sequence, p.bert.width
    table = p.weight("words", (VOCABULARY, width), trains)
    positions = p.weight("positions", (POSITIONS, width), trains)
    ids = p.make("host_load", [], (rows,), "stream=@ids", dtype="i32")
    words = p.make("embedding", [table, ids], (rows, width))
    norm = [p.weight(f"embedding.{part}", (width,), trains) for part in ("weight", "bias")]
    added = p.like("add", words, p.make("embedding", [positions, ids], (rows, width)))
    return table, p.like("layer_norm", added, *norm, attributes="axis=1")


def inference(bert, layers, batch, sequence):
    """All layers and the embedding on one IPU, question answering behind them."""
    p = _program(bert, batch, sequence, None)
    _, x = _embedding(p, False)
    for i in range(layers):
        x = Layer(p, f"layer{i}").forward(x)
    y = p.matmul(x, p.weight("answers", (bert.width, 2), False))
    p.tables[2] = f'stream @y: f16[{batch * sequence},2] {{direction="device_to_host", ipu=0}}'
    p.body.append(f"  host_store({y}) {{stream=@y | ipu=0}}")
    return p.text()


def training_stage(bert, layers, batch, sequence, stashed, proportion, has_embedding=False, masked=20):
    """Layers that are computed again from their inputs, of which `stashed` micro-batches wait; the embedding and, with the same table,
    the scores of `masked` words of a sequence. Weights and accumulators are in fp16, optimizer states elsewhere."""
    p = _program(bert, batch, sequence, proportion)
    rows, width = batch * sequence, bert.width
    stages = [Layer(p, f"layer{i}", trains=True) for i in range(layers)]
    if has_embedding:
        table, x = _embedding(p, True)
    else:
        p.tables.append(f"stream @x: f16[{rows},{width}] {{ipu=0}}")
        x = p.make("host_load", [], (rows, width), "stream=@x")
    for i, layer in enumerate(stages):
        p.tables.append(f"ring @input{i}: f16[{rows},{width}] {{capacity={stashed}, from=0, to=0}}")
        p.body.append(f"  ring.push({x}) {{ring=@input{i} | ipu=0}}")
        x = layer.forward(x)
    dy = x
    if has_embedding:
        p.tables.append(f"stream @places: i32[{batch * masked}] {{ipu=0}}")
        places = p.make("host_load", [], (batch * masked,), "stream=@places", dtype="i32")
        words = p.make("embedding", [x, places], (batch * masked, width))
        scores = p.like("softmax", p.matmul(words, table, trans_b=True), attributes="dim=1")
        p.accumulate(table, p.matmul(scores, words, trans_a=True))
        d_words = p.matmul(scores, table)
        dy = p.like(
            "add",
            x,
            p.make("embedding", [d_words, p.make("host_load", [], (rows,), "stream=@ids", dtype="i32")], (rows, width)),
        )
    for i, layer in reversed(list(enumerate(stages))):
        stashed_input = p.make("ring.pop", [], (rows, width), f"ring=@input{i}")
        p.marks = ', recompute="recompute"'
        layer.forward(stashed_input)
        p.marks = ', context="backward"'
        dy = layer.backward(dy)
    p.tables[2] = f'stream @y: f16[{rows},{width}] {{direction="device_to_host", ipu=0}}'
    p.body.append(f"  host_store({dy}) {{stream=@y | ipu=0}}")
    return p.text()
