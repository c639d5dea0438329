"""Arguments of the networks, on meta."""

import torch

HALF = torch.float16


def _numbers(*shape):
    return torch.empty(*shape, dtype=torch.int32, device="meta")


def _values(*shape):
    return torch.empty(*shape, dtype=HALF, device="meta")


def _sequences(batch, length):
    """The number of the sequence that each place of a row belongs to; places of one see each other."""
    return _numbers(batch, length)


def pretraining(batch, length, masked):
    words = [_numbers(batch, length) for _ in range(3)]
    return (
        *words,
        _sequences(batch, length),
        _numbers(batch, masked).long(),
        _numbers(batch, masked).long(),
        _numbers(batch).long(),
    )


def answers(batch, length, config, is_training=False):
    result = [_numbers(batch, length) for _ in range(3)] + [_sequences(batch, length)]
    if config.attention == "rotary":
        result += [_values(1, 1, length, config.width // config.heads) for _ in range(2)]
    if config.attention == "relative":
        result += [_numbers(1, 1, length, length).long() for _ in range(2)]
    if is_training:
        result += [_numbers(batch).long() for _ in range(2)]
    return tuple(result)


def text(batch, length, is_causal):
    return _numbers(batch, length), _numbers(batch, length), _values(1, 1, length if is_causal else 1, length)


def following_words(batch, length):
    return *text(batch, length, is_causal=True), _numbers(batch, length).long()


def images(batch, size, is_training=False):
    result = [_values(batch, 3, size, size)]
    if is_training:
        result.append(_numbers(batch).long())
    return tuple(result)


def conformer_training(batch, config, frames=1220, words=40):
    """Frames are a quarter of those of the speech behind the subsampling."""
    left = ((frames - 1) // 2 - 1) // 2
    return (
        _values(batch, frames, config.features),
        _values(1, left, config.width),
        _numbers(batch, words),
        _values(1, 1, words, words),
        _numbers(batch, words).long(),
        _numbers(batch).long(),
        _numbers(batch).long(),
    )


def conformer_images(batch, frames, config):
    left = ((frames - 1) // 2 - 1) // 2
    return _values(batch, 3, frames, config.features), _values(1, left, config.width)
