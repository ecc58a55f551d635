"""Training loop: epochs of shuffled batches, dev after each, the best weights kept; stops and resumes between epochs.

Everything random is drawn anew each epoch from (seed, epoch), so what a run does next depends on nothing but its state
at the end of the last epoch.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from engine.params import Whole
from engine.progress import SILENT, Reporter
from engine.training.adapters import TrainableEncoder
from engine.training.dataset import Samples, TrainingBatch
from engine.training.metrics import Dev, Epoch, Losses, Tally

TRAINING_LABEL = "training"
SEED = Whole(0, "seed", 0, 2**31 - 1, name="seed", help="Same seed, same weights.")
State = Mapping[str, Tensor]


class TrainingObjective(Protocol):
    """The loss that a recipe minimises."""

    def begin(self, generator: torch.Generator) -> None:
        """Prepare an epoch; everything random is drawn from the generator."""
        ...

    def __call__(self, batch: TrainingBatch) -> Losses: ...


@dataclass(frozen=True, eq=False)
class BuiltModel:
    """The model that a recipe trains, with its optimiser and the loss of a batch."""

    model: TrainableEncoder  # encodes queries and documents by position
    optimizer: torch.optim.Optimizer  # over the parameters that learn
    objective: TrainingObjective  # the loss of a batch
    document_parts: Callable[[], Tensor] | None = None  # gives (n, m, d) vectors where documents have several each

    def step(self, batch: TrainingBatch, clip: float) -> tuple[Losses, str]:
        """Take one optimiser's step on a batch, its gradient clipped to the length `clip`.

        Return the losses and "" if the step was taken. If the loss or the gradient is no number, no step is taken: the
        losses and the problem in words are returned.
        """
        losses = self.objective(batch)
        loss = losses.values.mean()
        # On a GPU this waits for the result.
        if not bool(loss.isfinite()):
            return losses, f"the loss was {float(loss.detach())}"
        self.optimizer.zero_grad()
        loss.backward()
        # A single NaN would spread to every weight, so the norm is checked before the step.
        if not bool(nn.utils.clip_grad_norm_(self.model.parameters(), clip).isfinite()):
            return losses, "the gradient was no number"
        self.optimizer.step()
        return losses, ""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Length of a run and size of its steps."""

    epochs: int  # passes over the training queries, at most
    patience: int | None  # epochs without a gain on dev after which it ends, None for never
    batch: int  # queries per step
    clip: float  # longest gradient of a step
    seed: int  # of the order of the queries and of the objective's draws


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """The inputs of the training loop: model, samples, the measuring of dev, and the schedule."""

    built: BuiltModel  # model, optimiser and objective
    samples: Samples  # training and dev queries
    dev: Callable[[], Dev]  # measures dev with the current weights
    schedule: Schedule  # length of the run and size of its steps

    @property
    def steps(self) -> int:
        """The number of steps in an epoch, a last incomplete batch included."""
        return -(-len(self.samples) // self.schedule.batch)

    def batches(self, generator: torch.Generator) -> Iterator[TrainingBatch]:
        """Yield the shuffled batches of an epoch, after the objective's own random draws for it."""
        self.built.objective.begin(generator)
        shuffled_positions = torch.randperm(len(self.samples), generator=generator)
        return map(self.samples.batch, shuffled_positions.split(self.schedule.batch))


@dataclass(frozen=True, eq=False)
class LoopState:
    """State of a training at the end of an epoch: all that is needed to resume it."""

    history: tuple[Epoch, ...]  # its epochs, from −1, before the first step
    best: int  # number of the best epoch
    kept: State  # the model's result after the best epoch
    last: State  # the model's weights now
    optimizer: State  # the optimiser's state, tensors by "<parameter>.<name>"
    stopped: str = ""  # reason of the end, "" while the run goes on

    @property
    def idle(self) -> int:
        """The number of epochs since the best one."""
        return self.history[-1].epoch - self.best


def generator_of(seed: int, epoch: int) -> torch.Generator:
    """Make the random generator of an epoch; epoch −1 stands for the initial weights."""
    # The factor is larger than any number of epochs, so that two seeds never share a stream.
    return torch.Generator().manual_seed((seed * 1_000_003 + epoch + 1) % 2**63)


def fit(
    run: PreparedRun,
    *,
    start: LoopState | None = None,
    keep: Callable[[LoopState], None] = lambda _: None,
    watch: Callable[[Epoch], None] = lambda _: None,
    reporter: Reporter = SILENT,
) -> LoopState:
    """Train until all epochs or patience are used up, or the reporter is stopped; return the final state.

    start: a state to resume from, None to begin; keep: called with the state after every epoch, to store it; watch:
    called with every new Epoch, to show it. Patience: epochs without a gain in Comp@5 on dev.
    """
    model, optimizer, n_total_steps = run.built.model, run.built.optimizer, run.steps * run.schedule.epochs
    if start is None:
        started_at = time.perf_counter()
        first_epoch = Epoch(epoch=-1, dev=run.dev(), seconds=time.perf_counter() - started_at)
        state = LoopState((first_epoch,), -1, _copy_state(model.result()), _copy_state(model.state_dict()), {})
        keep(state)
        watch(first_epoch)
    else:
        state = start
        model.load_state_dict(state.last)
        _restore_moments(optimizer, state.optimizer)
    # A resumed run may be over already.
    while not (reason := state.stopped or _end_reason(state, run.schedule)):
        epoch_number = state.history[-1].epoch + 1
        started_at = time.perf_counter()
        tally, reason = _train_epoch(run, epoch_number, reporter)
        if reason:
            break
        epoch = tally.epoch(epoch_number, run.dev(), time.perf_counter() - started_at)
        # The history begins with epoch −1, before training, hence + 1. A tie is no gain: the earlier epoch stays the
        # best, and patience runs on.
        if epoch.dev.comp5 > state.history[state.best + 1].dev.comp5:
            state = replace(state, best=epoch_number, kept=_copy_state(model.result()))
        last_weights, moments = _copy_state(model.state_dict()), _copy_moments(optimizer)
        state = replace(state, history=(*state.history, epoch), last=last_weights, optimizer=moments)
        keep(state)
        watch(epoch)
    if reporter.progress is not None:
        reporter.progress(n_total_steps, n_total_steps, TRAINING_LABEL)
    return replace(state, stopped=reason)


def _train_epoch(run: PreparedRun, epoch: int, reporter: Reporter) -> tuple[Tally, str]:
    """Take the steps of one epoch; return the sums over its batches, and the reason of an early end or ""."""
    tally = Tally()
    for step_index, batch in enumerate(run.batches(generator_of(run.schedule.seed, epoch))):
        if reporter.is_stopped:
            return tally, f"stopped by hand in epoch {epoch}"
        if reporter.progress is not None:
            reporter.progress(epoch * run.steps + step_index, run.steps * run.schedule.epochs, TRAINING_LABEL)
        losses, problem = run.built.step(batch, run.schedule.clip)
        if problem:
            return tally, f"{problem} in epoch {epoch}"
        tally.add(losses, len(batch.document))
    return tally, ""


def _end_reason(state: LoopState, schedule: Schedule) -> str:
    """Return the reason why a run ends after its last epoch, in words, "" if it goes on.

    It ends if no document has a weight for any query, if dev has not gained for `patience` epochs, or at the last
    epoch.
    """
    last_epoch = state.history[-1]
    if last_epoch.empty == 1:
        return f"in epoch {last_epoch.epoch} no document had a weight for any query"
    if schedule.patience is not None and state.idle >= schedule.patience:
        return f"no gain in Comp@5 on dev for {schedule.patience} epochs"
    if last_epoch.epoch + 1 >= schedule.epochs:
        return f"all {schedule.epochs} epochs done"
    return ""


def _copy_state(state: State) -> State:
    return {tensor_name: tensor.detach().clone() for tensor_name, tensor in state.items()}


def _copy_moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Copy an optimiser's state, AdamW's running means and step counts, as tensors that a file can hold.

    The keys are "<parameter>.<name>".
    """
    moments = {}
    for parameter, parameter_state in optimizer.state_dict()["state"].items():
        for moment_name, value in parameter_state.items():
            moments[f"{parameter}.{moment_name}"] = torch.as_tensor(value).clone()
    return moments


def _restore_moments(optimizer: torch.optim.Optimizer, moments: State) -> None:
    """Put the running means and step counts that `_copy_moments` returned back into an optimiser."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in moments.items():
        parameter, moment_name = key.split(".", 1)
        state.setdefault(int(parameter), {})[moment_name] = value.clone()
    # Step sizes and decay stay as the recipe has them; only the moments and step counts come from the file.
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def parameter_groups(*parts: tuple[nn.Module, float]) -> list[dict[str, Any]]:
    """Group trainable parameters by learning rate, as torch's optimisers take them; leave out frozen ones."""
    groups = []
    for module, rate in parts:
        if learning := [parameter for parameter in module.parameters() if parameter.requires_grad]:
            groups.append({"params": learning, "lr": rate})
    return groups
