"""Records of units written by hand, in the form in which the TensorFlow package writes them."""

import itertools

import numpy


class Records:
    """Collects the nodes of a graph, or of one inside a node; a node gives the names of its results."""

    def __init__(self, inputs=(), variables=None):
        self.inputs = list(inputs)
        self.variables = dict(variables or {})
        self.nodes = []
        self.numbers = itertools.count()

    def inside(self, *inputs):
        """The graph of a node of this one, which may read names of it."""
        graph = Records(inputs)
        graph.numbers = self.numbers
        return graph

    def node(self, kind, *operands, results=1, domain="tf", subgraphs=None, location=None, settings=None, **attributes):
        name = f"{kind}_{next(self.numbers)}"
        given = [f"{name}:{i}" for i in range(results)]
        record = {
            "domain": domain,
            "type": kind,
            "name": name,
            "operands": list(operands),
            "results": given,
            "attributes": attributes,
        }
        if subgraphs:
            record["subgraphs"] = {key: graph.graph(key) for key, graph in subgraphs.items()}
        if location:
            record["location"] = location
        if settings:
            record["settings"] = settings
        self.nodes.append(record)
        return given[0] if results == 1 else given

    def const(self, value, dtype=None):
        return self.node("Const", value=numpy.asarray(value, dtype))

    def read(self, variable):
        return self.node("ReadVariableOp", variable)

    def assign(self, variable, value):
        self.node("AssignVariableOp", variable, value, results=0)

    def returns(self, *outputs, types=None):
        self.outputs = list(outputs)
        self.output_types = types
        return self

    def graph(self, name="unit"):
        graph = {"name": name, "inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs}
        if self.variables:
            names = list(self.variables)
            graph |= {"initialisers": self.variables, "variables": names, "fed": names}
        if self.output_types:
            graph["output_types"] = self.output_types
        return graph

    def unit(self, source="unit 'cluster'"):
        return {
            "source": source,
            "dialect": "tensorflow",
            "versions": {"tf": 1, "ipu": 1},
            "graph": self.graph(),
        }
