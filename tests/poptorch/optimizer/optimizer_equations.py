"""The update equations of docs/optimizers.md in plain torch operations, in whatever precision the parameters have.

Written for tests of what torch's optimizers do not do: dampening from the first step, clipping inside the optimizer, no
bias correction, TensorFlow's RMSprop, LAMB.
"""

import torch


class Equations(torch.optim.Optimizer):
    """`kind`: sgd, adam, adamw, rmsprop or lamb. Keyword arguments are hyper-parameters and switches of all kinds."""

    def __init__(self, params, kind, clip=float("inf"), **hyper):
        defaults = {
            "lr": 0.01,
            "momentum": 0.0,
            "dampening": 0.0,
            "weight_decay": 0.0,
            "nesterov": False,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            "bias_correction": True,
            "alpha": 0.99,
            "centered": False,
            "use_tf_variant": False,
            "max_weight_norm": 65500.0,
        }
        unknown = set(hyper) - set(defaults)
        assert not unknown, unknown
        super().__init__(params, {**defaults, **hyper})
        self.kind = kind
        self.clip = clip

    @torch.no_grad()
    def step(self):
        parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.stack([p.grad.square().sum() for p in parameters]).sum().sqrt()
        factor = min(1.0, self.clip / norm) if norm > 0 else 1.0
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    getattr(self, "_" + self.kind)(p, p.grad * factor, group, self.state[p])

    @staticmethod
    def _blend(state, name, factor, value, share, start=0.0):
        old = state.get(name)
        state[name] = factor * (torch.full_like(value, start) if old is None else old) + share * value
        return state[name]

    def _sgd(self, w, g, h, state):
        g = g + h["weight_decay"] * w
        v = self._blend(state, "v", h["momentum"], g, 1 - h["dampening"])
        w.sub_(h["lr"] * (g + h["momentum"] * v if h["nesterov"] else v))

    def _direction(self, w, g, h, state):
        beta1, beta2 = h["betas"]
        m = self._blend(state, "m", beta1, g, 1 - beta1)
        v = self._blend(state, "v", beta2, g * g, 1 - beta2)
        state["t"] = t = state.get("t", 0) + 1
        if h["bias_correction"]:
            m, v = m / (1 - beta1**t), v / (1 - beta2**t)
        return m / (v.sqrt() + h["eps"])

    def _adam(self, w, g, h, state):
        w.sub_(h["lr"] * self._direction(w, g + h["weight_decay"] * w, h, state))

    def _adamw(self, w, g, h, state):
        w.sub_(h["lr"] * (self._direction(w, g, h, state) + h["weight_decay"] * w))

    def _lamb(self, w, g, h, state):
        u = self._direction(w, g, h, state) + h["weight_decay"] * w
        weight, direction = w.norm(), u.norm()
        factor = 1.0
        if weight > 0 and direction > 0:
            factor = min(weight, h["max_weight_norm"]) / direction
        w.sub_(h["lr"] * factor * u)

    def _rmsprop(self, w, g, h, state):
        g = g + h["weight_decay"] * w
        tf = h["use_tf_variant"]
        d = self._blend(state, "s", h["alpha"], g * g, 1 - h["alpha"], start=1.0 if tf else 0.0)
        if h["centered"]:
            d = d - self._blend(state, "q", h["alpha"], g, 1 - h["alpha"]).square()
        x = g / (d + h["eps"]).sqrt() if tf else g / (d.sqrt() + h["eps"])
        if h["momentum"] == 0:
            w.sub_(h["lr"] * x)
        elif tf:
            w.sub_(self._blend(state, "b", h["momentum"], h["lr"] * x, 1.0))
        else:
            w.sub_(h["lr"] * self._blend(state, "b", h["momentum"], x, 1.0))
