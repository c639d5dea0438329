"""Tensors that a call returns: who owns their memory, and for how long."""

import io

import torch

import poptorch

ROWS = 300  # times 1024 floats: more than a megabyte, whose memory is used again


def doubled():
    return poptorch.inferenceModel(lambda x: x * 2)


def numbers(seed):
    return torch.randn(ROWS, 1024, generator=torch.Generator().manual_seed(seed))


def test_the_memory_of_a_dropped_output_is_that_of_the_next():
    run = doubled()
    first = run(numbers(0))
    where = first.data_ptr()
    del first
    second = run(numbers(1))
    assert second.data_ptr() == where
    assert torch.equal(second, numbers(1) * 2)


def test_outputs_that_are_kept_are_left_alone():
    run = doubled()
    kept = [run(numbers(seed)) for seed in range(4)]
    assert len({out.data_ptr() for out in kept}) == 4
    for seed, out in enumerate(kept):
        assert torch.equal(out, numbers(seed) * 2)


def test_a_view_keeps_the_memory_of_its_output():
    run = doubled()
    row = run(numbers(0))[3]
    run(numbers(1))
    assert torch.equal(row, numbers(0)[3] * 2)
    array = run(numbers(2)).numpy()
    run(numbers(3))
    assert (array == (numbers(2) * 2).numpy()).all()


def test_outputs_outlive_their_model():
    run = doubled()
    out = run(numbers(0))
    run.destroy()
    del run
    assert torch.equal(out, numbers(0) * 2)


def test_outputs_can_be_resized_and_stored_as_others():
    run = doubled()
    out = run(numbers(0))
    file = io.BytesIO()
    torch.save(out, file)
    file.seek(0)
    assert torch.equal(torch.load(file), numbers(0) * 2)
    out.resize_(2 * ROWS, 1024)
    assert torch.equal(out[:ROWS], numbers(0) * 2)
    shared = run(numbers(1)).share_memory_()
    run(numbers(2))
    assert torch.equal(shared, numbers(1) * 2)


def test_each_output_has_memory_of_its_own():
    run = poptorch.inferenceModel(lambda x: (x + 1, x - 1))
    for seed in range(3):
        more, less = run(numbers(seed))
        assert torch.equal(more, numbers(seed) + 1)
        assert torch.equal(less, numbers(seed) - 1)


def test_each_iteration_is_made_at_its_place():
    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    run = poptorch.inferenceModel(lambda x: (x.exp(), x.sum(1)), options)
    x = torch.randn(12, 5)
    for _ in range(2):
        values, sums = run(x)
        torch.testing.assert_close(values, x.exp())
        torch.testing.assert_close(sums, x.sum(1))
