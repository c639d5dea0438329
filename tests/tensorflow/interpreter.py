"""Records executed by TensorFlow, one node after the other: what a unit should give."""

import numpy as np
import tensorflow as tf
from ipu_tensorflow import leaves
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry


def run(records, inputs, variables):
    """Values of all names at the top, and of the variables when all is done. `inputs`: arrays by position."""
    graph = records["graph"]
    with context.eager_mode(), tf.device("/device:CPU:0"):
        state = {name: tf.Variable(variables[name]) for name in graph["variables"]}
        values = {name: tf.constant(array) for (name, _, _), array in zip(graph["inputs"], inputs)}
        _run_nodes(graph["nodes"], values, state)
        arrays = {name: value.numpy() for name, value in values.items() if value.dtype != tf.variant}
        return arrays, {name: variable.numpy() for name, variable in state.items()}


def outputs(records, inputs, variables):
    values, state = run(records, inputs, variables)
    return [values[name] for name in records["graph"]["outputs"]], state


def _run_nodes(nodes, values, state):
    for node in nodes:
        try:
            results = _run_node(node, values, state)
        except Exception as error:
            raise AssertionError(f"node {node['name']} ({node['type']}) at {node['location']}: {error}") from error
        assert len(results) == len(node["results"]), node
        values.update(zip(node["results"], results))


def _subgraph(graph, given, values, state):
    inner = dict(values) | dict(zip(graph["inputs"], given))
    _run_nodes(graph["nodes"], inner, state)
    return [inner[name] for name in graph["outputs"]]


def _run_node(node, values, state):
    operands = [values[name] if name in values else state[name].handle for name in node["operands"]]
    graphs = node["subgraphs"]
    if node["type"] in ("While", "StatelessWhile"):
        while _subgraph(graphs["cond"], operands, values, state)[0].numpy():
            operands = _subgraph(graphs["body"], operands, values, state)
        return operands
    if node["type"] in ("If", "StatelessIf"):
        return _subgraph(graphs["then" if operands[0].numpy() else "else"], operands[1:], values, state)
    if node["type"] == "Repeat":
        n = node["attributes"].get("n")
        if n is None:
            n, operands = operands[0].numpy(), operands[1:]
        for _ in range(n):
            operands = _subgraph(graphs["body"], operands, values, state)
        return operands
    if node["type"] == "Const":
        return [tf.constant(node["attributes"]["value"])]
    if node["type"] == "Assert":
        assert operands[0].numpy(), node["attributes"]["message"]
        return []
    if node["domain"] == "ipu" and node["type"] in leaves.BODIES:
        return list(tf.function(lambda *x: tuple(leaves.BODIES[node["type"]](*x, **node["attributes"])))(*operands))
    return _run_operation(node, operands)


def _run_operation(node, operands):
    definition = op_def_registry.get(node["type"])
    attributes = []
    for attribute in definition.attr:
        value = node["attributes"].get(attribute.name)
        if value is not None:
            attributes += [attribute.name, _attribute(attribute.type, value)]
    count = len(node["results"])
    given = []
    at = 0
    for argument in definition.input_arg:  # lists are given as lists
        if argument.number_attr or argument.type_list_attr:
            size = (
                node["attributes"][argument.number_attr]
                if argument.number_attr
                else len(node["attributes"][argument.type_list_attr])
            )
            given += operands[at : at + size]
        else:
            size = 1
            given.append(operands[at])
        at += size
    result = execute.execute(node["type"], count, given, tuple(attributes), context.context())
    return list(result) if count else []


def _attribute(kind, value):
    if kind == "type":
        return tf.as_dtype(value).as_datatype_enum
    if kind == "list(type)":
        return [tf.as_dtype(item).as_datatype_enum for item in value]
    if kind == "shape":
        return value
    return value


def difference(ours, theirs):
    """Largest difference over arrays."""
    return max(
        (np.max(np.abs(np.subtract(a, b, dtype=np.float64)), initial=0.0) for a, b in zip(ours, theirs)), default=0.0
    )


def first_difference(data, inputs, variables, tolerance=1e-5):
    """The first node at the top whose result the compiled program gives otherwise than TensorFlow; None: there is none."""
    from ipu_tensorflow import core

    wanted, _ = run(data, inputs, variables)
    names = [name for node in data["graph"]["nodes"] for name in node["results"] if name in wanted]
    graph = data["graph"] | {"outputs": names, "output_types": [wanted[name].dtype for name in names]}
    got, _ = core.native().Unit(data | {"graph": graph}, {}).run(list(inputs), variables)
    for node in data["graph"]["nodes"]:
        for name, array in zip(names, got):
            if name in node["results"] and not np.allclose(array, wanted[name], rtol=tolerance, atol=tolerance):
                return f"{node['name']} ({node['type']}) at {node.get('location')}: {array} is not {wanted[name]}"
    return None
