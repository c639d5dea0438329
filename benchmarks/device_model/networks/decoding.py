"""Decoders whose layers are cut over several IPUs (tensor parallel), one token of each sample: a front end cannot say that, so this
writes the operations of one IPU as a machine form. The IPUs are its replicas; what they bring together are collectives.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Decoder:
    layers: int
    width: int
    heads: int
    vocabulary: int
    hidden: int  # of the feed-forward
    rotary: bool = False


# github.com/graphcore/PopTransformer, the sizes of the published models.
GPT2_XL = Decoder(48, 1600, 25, 50257, 6400)
CHATGLM_6B = Decoder(28, 4096, 32, 130528, 16384, rotary=True)


class Text:
    """A machine form in the making. Values are (name, shape); all are f16 on IPU 0 unless they are said to be indices."""

    def __init__(self):
        self.variables, self.lines, self.count = [], [], 0

    def variable(self, shape, dtype="f16"):
        name = f"v{len(self.variables)}"
        self.variables.append(f"variable @{name}: {type_of(shape, dtype)} {{ipu=0}}")
        return self.op("variable.read", [], shape, f"variable=@{name} ", dtype)

    def op(self, kind, operands, shape, attributes="", dtype="f16", others=()):
        """`others`: types of further results, which nobody reads."""
        results = [f"%r{self.count + i}" for i in range(1 + len(others))]
        self.count += len(results)
        arguments = ", ".join(operand[0] for operand in operands)
        types = ", ".join([type_of(shape, dtype), *others])
        self.lines.append(f"  {', '.join(results)} = {kind}({arguments}) {{{attributes}| ipu=0}} : {types}")
        return results[0], tuple(shape)

    def __str__(self):
        head = ["module {}", *self.variables, "entry main = @main", "graph @main() -> () {"]
        return "\n".join([*head, *self.lines, "  return", "}", ""])


def type_of(shape, dtype="f16"):
    return f"{dtype}[{','.join(map(str, shape))}]"


class Token:
    def __init__(self, config, ipus, batch, length):
        self.config, self.ipus, self.batch, self.length = config, ipus, batch, length
        self.text = Text()
        self.heads = -(-config.heads // ipus)
        self.head = config.width // config.heads
        self.place = self.text.variable([1], "i32")
        self.mask = self.text.variable([1, 1, 1, length])

    def linear(self, x, outputs, has_bias=True):
        operands = [x, self.text.variable([outputs, x[1][-1]])]
        if has_bias:
            operands.append(self.text.variable([outputs]))
        return self.text.op("linear", operands, [*x[1][:-1], outputs])

    def norm(self, x):
        width = x[1][-1]
        operands = [x, self.text.variable([width]), self.text.variable([width])]
        moments = type_of([*x[1][:-1], 1], "f32")
        return self.text.op("layer_norm", operands, x[1], f"axis={len(x[1]) - 1} ", others=[moments, moments])

    def reshape(self, x, shape):
        return self.text.op("reshape", [x], shape, f"shape=[{','.join(map(str, shape))}] ")

    def part(self, x, number):
        """The third of a query, key and value together, as heads."""
        width = x[1][-1] // 3
        where = f"starts=[0,{number * width}], sizes=[{self.batch},{width}], steps=[1,1] "
        return self.reshape(
            self.text.op("slice", [x], [self.batch, width], where), [self.batch, self.heads, 1, self.head]
        )

    def binary(self, kind, x, y):
        return self.text.op(kind, [x, y], x[1])

    def together(self, x):
        return self.text.op("all_reduce", [x], x[1])

    def rotated(self, x):
        sine, cosine = (self.text.variable([1, 1, 1, self.head]) for _ in range(2))
        turned = self.text.op("neg", [x], x[1])
        return self.binary("add", self.binary("mul", x, cosine), self.binary("mul", turned, sine))

    def attention(self, x):
        joined = self.linear(x, 3 * self.heads * self.head)
        query, key, value = (self.part(joined, number) for number in range(3))
        if self.config.rotary:
            query, key = self.rotated(query), self.rotated(key)
        keys, values = self.cached(key), self.cached(value)
        rows = self.batch * self.heads
        query, keys, values = (self.reshape(t, [rows, *t[1][2:]]) for t in (query, keys, values))
        scores = self.text.op("matmul", [query, keys], [rows, 1, self.length], "trans_b=true ")
        scores = self.reshape(scores, [self.batch, self.heads, 1, self.length])
        weights = self.text.op("softmax", [self.binary("add", scores, self.mask)], scores[1], "dim=3 ")
        weights = self.reshape(weights, [rows, 1, self.length])
        context = self.text.op("matmul", [weights, values], [rows, 1, self.head])
        return self.together(
            self.linear(self.reshape(context, [self.batch, self.heads * self.head]), self.config.width)
        )

    def cached(self, x):
        """What is kept of all tokens so far, with this one."""
        kept = self.text.variable([self.batch, self.heads, self.length, self.head])
        return self.text.op("index_copy", [kept, self.place, x], kept[1], "dim=2 ")

    def feed_forward(self, x):
        up = self.linear(x, -(-self.config.hidden // self.ipus))
        return self.together(self.linear(self.text.op("gelu", [up], up[1]), self.config.width))

    def run(self):
        words = self.text.variable([self.batch], "i32")
        table = self.text.variable([-(-self.config.vocabulary // self.ipus), self.config.width])
        x = self.together(self.text.op("embedding", [table, words], [self.batch, self.config.width]))
        for _ in range(self.config.layers):
            x = self.binary("add", x, self.attention(self.norm(x)))
            x = self.binary("add", x, self.feed_forward(self.norm(x)))
        scores = self.text.op("linear", [self.norm(x), table], [self.batch, table[1][0]])
        self.text.op("argmax", [scores], [self.batch], "dim=1 ", "i32")
        return str(self.text)


def machine_form(config, ipus, batch, length):
    """One token of each of `batch` samples, after `length` ones, on one of `ipus` IPUs."""
    return Token(config, ipus, batch, length).run()
