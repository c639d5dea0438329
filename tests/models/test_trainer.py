"""A `transformers.Trainer` whose training step is a call of poptorch's wrapper: a subclass overrides `training_step`."""

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="needs transformers (scripts/requirements-test.txt)")
pytest.importorskip("accelerate", reason="Trainer needs accelerate (scripts/requirements-test.txt)")

import poptorch
from hugging_face_inputs import ByPosition, TEXT_NAMES, classified
from hugging_face_text import bert
from reference import RUNS, assert_follows_rule, nudged_model

ROWS, STEPS, RATE = 8, 6, 0.05


class Sentences(torch.utils.data.Dataset):
    """Rows as Trainer wants them: dictionaries by the names of the model's arguments."""

    def __init__(self):
        self.columns = classified(ROWS * STEPS, torch.Generator().manual_seed(1))

    def __len__(self):
        return ROWS * STEPS

    def __getitem__(self, row):
        return dict(zip(TEXT_NAMES, (column[row] for column in self.columns)))


class OnIpu(transformers.Trainer):
    """A step of this trainer is a call of the wrapper: forward, backward and update. Schedules, logs and checkpoints stay Trainer's."""

    step = None

    def training_step(self, model, inputs, num_items_in_batch=None):
        if self.step is None:
            self.step = poptorch.trainingModel(ByPosition(model, TEXT_NAMES), optimizer=self.optimizer.optimizer)
        else:
            self.step.setOptimizer(self.optimizer.optimizer)  # the rate that the schedule has set
        _, loss = self.step(*(inputs[name] for name in TEXT_NAMES))
        return loss


def trained(kind, folder, double=False, nudge=None):
    """(losses that Trainer logged, weights after the last step) of `STEPS` steps, from weights nudged by this seed."""
    torch.manual_seed(2)
    model = bert().model
    if double:
        model = model.double()
    if nudge is not None:
        model = nudged_model(model, torch.Generator().manual_seed(nudge))
    settings = transformers.TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        per_device_train_batch_size=ROWS,
        num_train_epochs=1,
        max_grad_norm=0,  # clipping is an option of poptorch's optimizers
        lr_scheduler_type="linear",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=3,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 2, STEPS)
    trainer = kind(model=model, args=settings, train_dataset=Sentences(), optimizers=(optimizer, schedule))
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return torch.tensor(losses, dtype=torch.float64), {n: v.clone() for n, v in model.state_dict().items()}


def test_a_trainer_on_the_ipu_trains_as_the_one_on_the_cpu(tmp_path):
    ours, our_weights = trained(OnIpu, tmp_path)
    theirs, their_weights = trained(transformers.Trainer, tmp_path)
    floats = [their_weights, *(trained(transformers.Trainer, tmp_path, nudge=seed)[1] for seed in range(1, RUNS))]
    _, exact = trained(transformers.Trainer, tmp_path, double=True)
    assert len(ours) == STEPS
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-4)  # Trainer rounds what it logs to four digits
    for name, value in exact.items():
        if name.endswith("key.bias"):  # begins at 0 and has no gradient but for roundings: a softmax does not see what all keys share
            torch.testing.assert_close(our_weights[name], torch.zeros_like(our_weights[name]), rtol=0, atol=1e-6)
        else:
            assert_follows_rule(our_weights[name], [each[name] for each in floats], value, name)
