"""Models with a few random changes: of fields of their messages, or of their bytes."""

import onnx


def messages(proto):
    """Every message inside a message."""
    found, left = [], [proto]
    while left:
        found.append(left.pop())
        for field, value in found[-1].ListFields():
            if field.message_type is not None:
                left.extend(value if hasattr(value, "__len__") and not hasattr(value, "ListFields") else [value])
    return found


NUMBERS = (0, 1, -1, 2, 3, 7, 17, 10**6, 2**31 - 1, -(2**31), 2**62, -(2**63))


def other(rng, field, value, texts):
    """Another value for a field that has this one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return (
            rng.choice([*NUMBERS[:8], value + 1])
            if field.enum_type or field.type == field.TYPE_INT32
            else rng.choice(NUMBERS)
        )
    if isinstance(value, float):
        return rng.choice([0.0, -1.0, 1e38, float("nan"), float("inf")])
    if isinstance(value, bytes):
        return value[: rng.randrange(len(value) + 1)] + bytes(rng.randrange(3))
    return rng.choice(texts)


def change(rng, proto):
    """One change of a field of a random message."""
    every = messages(proto)
    message = rng.choice(every)
    set_fields = message.ListFields()
    if not set_fields:
        return
    field, value = rng.choice(set_fields)
    repeated = hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and not hasattr(value, "ListFields")
    texts = [one.name for one in every if isinstance(getattr(one, "name", None), str)] + [
        "",
        "x",
        "nothing",
        "Relu",
        "Conv",
        "LSTM",
        "\u00e9",
        "a/b",
    ]
    action = rng.random()
    if action < 0.15:
        message.ClearField(field.name)
    elif repeated and len(value):
        at = rng.randrange(len(value))
        if action < 0.35:
            del value[at]
        elif field.message_type is not None:
            copy = value.add()
            copy.CopyFrom(value[at])
        elif action < 0.6:
            value.append(value[at])
        else:
            value[at] = other(rng, field, value[at], texts)
    elif field.message_type is None:
        setattr(message, field.name, other(rng, field, value, texts))


def changed(rng, data):
    if rng.random() < 0.25:
        data = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data[: rng.randrange(1, len(data) + 1)] if rng.random() < 0.3 else data)
    proto = onnx.load_from_string(data)
    for _ in range(rng.randrange(1, 4)):
        try:
            change(rng, proto)
        except (ValueError, TypeError):
            continue  # a value that the field does not take
    return proto.SerializeToString()
