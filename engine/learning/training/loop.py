"""The loop: epochs of shuffled batches, dev after each, the best kept; it can be stopped and go on anywhere between.

Everything random is drawn anew each epoch from (seed, epoch), so what a run does next depends on nothing but its state
at the end of the last epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from engine.learning.training.history import Dev, Epoch, Losses, Tally
from engine.learning.training.samples import Samples
from engine.progress import Progress, Stop

TRAINING = "training"
State = Mapping[str, Tensor]


class Objective(Protocol):
    """What is made small."""

    def begin(self, generator: torch.Generator) -> None:
        """Called before every epoch; whatever is random comes from the generator."""
        ...

    def __call__(self, batch: Any) -> Losses: ...


@dataclass(frozen=True, eq=False)
class Plan:
    """How long, and in what steps."""

    epochs: int
    patience: int | None
    batch: int
    clip: float
    seed: int


@dataclass(frozen=True, eq=False)
class Run:
    """Where a run stands at the end of an epoch.

    history: an Epoch each, the first of them −1; best: which epoch; kept: what the model had become after it; last:
    the model's weights now; optimizer: its state, tensors by "<parameter>.<name>"; stopped: why the run is over, ""
    while it is not.
    """

    history: tuple[Epoch, ...]
    best: int
    kept: State
    last: State
    optimizer: State
    stopped: str = ""

    @property
    def idle(self) -> int:
        """For how many epochs there has been no gain."""
        return self.history[-1].epoch - self.best


def generator_of(seed: int, epoch: int) -> torch.Generator:
    """What an epoch draws from; −1: what the weights at the start are drawn from."""
    return torch.Generator().manual_seed((seed * 1_000_003 + epoch + 1) % 2**63)


def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    objective: Objective,
    samples: Samples,
    dev: Callable[[], Dev],
    plan: Plan,
    *,
    start: Run | None = None,
    keep: Callable[[Run], None] = lambda _: None,
    watch: Callable[[Epoch], None] = lambda _: None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Run:
    """Train a module that `Learns` until the epochs or the patience are used up.

    start: a run to go on with; keep: gets the run after every epoch; watch: every new Epoch; stop: asked between steps;
    what was best so far is kept.
    """
    steps = -(-len(samples) // plan.batch)
    total = steps * plan.epochs
    run = start
    if run is None:
        began = time.perf_counter()
        found = dev()
        run = Run(
            (Epoch(-1, found, time.perf_counter() - began),),
            -1,
            _copied(model.result()),
            _copied(model.state_dict()),
            {},
        )
        keep(run)
        watch(run.history[-1])
    else:
        model.load_state_dict(run.last)
        _restore(optimizer, run.optimizer)
    while not (why := run.stopped or _over(run, plan)):
        epoch = run.history[-1].epoch + 1
        began = time.perf_counter()
        generator = generator_of(plan.seed, epoch)
        objective.begin(generator)
        order = torch.randperm(len(samples), generator=generator)
        tally = Tally()
        for step, at in enumerate(order.split(plan.batch)):
            if stop is not None and stop.is_set():
                why = f"stopped by hand in epoch {epoch}"
                break
            if progress is not None:
                progress(epoch * steps + step, total, TRAINING)
            batch = samples.batch(at)
            losses = objective(batch)
            loss = losses.values.mean()
            if not bool(loss.isfinite()):
                why = f"the loss was {float(loss.detach())} in epoch {epoch}"
                break
            tally.add(losses, len(batch.document))
            optimizer.zero_grad()
            loss.backward()
            if not bool(nn.utils.clip_grad_norm_(model.parameters(), plan.clip).isfinite()):
                why = f"the gradient was no number in epoch {epoch}"
                break
            optimizer.step()
        if why:
            run = replace(run, stopped=why)
            break
        found = tally.epoch(epoch, dev(), time.perf_counter() - began)
        run = _after(run, found, model, optimizer)
        keep(run)
        watch(found)
    if progress is not None:
        progress(total, total, TRAINING)
    return replace(run, stopped=run.stopped or why)


def _over(run: Run, plan: Plan) -> str:
    """Why a run ends here, "" where it goes on."""
    last = run.history[-1]
    if last.empty == 1:
        return f"in epoch {last.epoch} no document had a weight for any query"
    if plan.patience is not None and run.idle >= plan.patience:
        return f"no gain in Comp@5 on dev for {plan.patience} epochs"
    if last.epoch + 1 >= plan.epochs:
        return f"all {plan.epochs} epochs done"
    return ""


def _after(run: Run, epoch: Epoch, model: nn.Module, optimizer: torch.optim.Optimizer) -> Run:
    gained = epoch.dev.comp5 > run.history[run.best + 1].dev.comp5
    return Run(
        (*run.history, epoch),
        epoch.epoch if gained else run.best,
        _copied(model.result()) if gained else run.kept,
        _copied(model.state_dict()),
        _moments(optimizer),
    )


def _copied(state: State) -> State:
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def _moments(optimizer: torch.optim.Optimizer) -> State:
    """What the optimiser remembers, as tensors by "<parameter>.<name>"."""
    return {
        f"{parameter}.{name}": torch.as_tensor(value).clone()
        for parameter, own in optimizer.state_dict()["state"].items()
        for name, value in own.items()
    }


def _restore(optimizer: torch.optim.Optimizer, moments: State) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in moments.items():
        parameter, name = key.split(".", 1)
        state.setdefault(int(parameter), {})[name] = value.clone()
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def groups(*parts: tuple[Sequence[nn.Parameter], float]) -> list[dict[str, Any]]:
    """Parameters with their step sizes, as optimisers take them; those that do not learn left out."""
    learning = [([p for p in parameters if p.requires_grad], rate) for parameters, rate in parts]
    return [{"params": parameters, "lr": rate} for parameters, rate in learning if parameters]
