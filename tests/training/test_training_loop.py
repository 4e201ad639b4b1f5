"""Algorithm 2 as a whole, on 120 small pictures: what it draws, what it sees, and that it can stop and go on."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from references_runs import StopAfter
from references_training import CONFIG, CPU, TRAIN, given_labels, run_on, weights
from torch import Tensor

from laplacenet.data import ImageSet, balanced_split, hide_labels, two_moons
from laplacenet.graph import GraphConfig
from laplacenet.models import build_model
from laplacenet.runtime import InputError
from laplacenet.training import (
    DivergedError,
    Epoch,
    LaplaceNet,
    Problem,
    Run,
    VectorViews,
    load_checkpoint,
    save_checkpoint,
    train,
)
from laplacenet.training.methods.network_labels import NetworkLabelsConfig
from laplacenet.training.methods.supervised import SupervisedConfig
from laplacenet.training.step import Stepper


def assert_equal(first: list[Tensor], second: list[Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_phases_and_steps_are_algorithm_twos(pictures: ImageSet) -> None:
    epochs = list(train(run_on(pictures, given_labels(pictures))))
    # two passes of 9 labels in one batch; then ⌊111/15⌋ = 7 steps an epoch, and the last one is cut at 14 steps
    assert [(epoch.phase, epoch.n_steps, epoch.step) for epoch in epochs] == [
        ("supervised", 2, 2),
        ("semi-supervised", 7, 9),
        ("semi-supervised", 5, 14),
    ]
    assert epochs[0].report is None
    assert epochs[1].report is not None


def test_training_learns_the_three_classes(pictures: ImageSet) -> None:
    longer, config = replace(TRAIN, steps=150, lr=0.1), replace(CONFIG, supervised_passes=20)
    run = run_on(pictures, given_labels(pictures), train=longer, config=config)
    *_, last = train(run)
    assert (last.inference.logits(pictures.images).argmax(1) == pictures.labels).float().mean() > 0.95


class Graph:
    """In the place of one that a GPU has captured."""


def test_captured_graphs_of_a_run_that_has_ended_do_not_wait_for_the_garbage_collector(
    pictures: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It might free them in any thread and in the midst of another run."""
    graphs: list[weakref.ref[Graph]] = []
    begin = Stepper.__init__

    def watched(self: Stepper, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self._captured["a step"] = Graph()  # type: ignore[assignment]
        graphs.append(weakref.ref(self._captured["a step"]))  # type: ignore[arg-type]

    monkeypatch.setattr(Stepper, "__init__", watched)
    gc.disable()
    try:
        for _ in train(run_on(pictures, given_labels(pictures))):
            assert graphs[0]() is not None
        stopped = train(run_on(pictures, given_labels(pictures)))
        next(stopped)
        stopped.close()  # type: ignore[attr-defined]
        assert [graph() for graph in graphs] == [None, None]
    finally:
        gc.enable()


def test_the_same_seed_gives_the_same_losses_and_weights_bit_for_bit(pictures: ImageSet) -> None:
    first, second = run_on(pictures, given_labels(pictures)), run_on(pictures, given_labels(pictures))
    assert [epoch.loss for epoch in train(first)] == [epoch.loss for epoch in train(second)]
    assert_equal(weights(first.network), weights(second.network))
    other = run_on(pictures, given_labels(pictures), seed=1)
    assert [epoch.loss for epoch in train(other)] != [epoch.loss for epoch in train(first)]


def test_hidden_labels_replaced_by_garbage_change_nothing(pictures: ImageSet) -> None:
    honest, given = run_on(pictures, given_labels(pictures)), given_labels(pictures)
    garbage = torch.where(given >= 0, pictures.labels, (pictures.labels + 1) % 3)
    split = balanced_split(pictures.labels, 9, seed=0)
    misled = run_on(replace(pictures, labels=garbage), hide_labels(garbage, split))
    assert [epoch.loss for epoch in train(honest)] == [epoch.loss for epoch in train(misled)]
    assert_equal(weights(honest.network), weights(misled.network))


@pytest.mark.parametrize("stops", [[5], [1, 3], [2], [9], [13], [4, 4, 4]])
def test_a_run_cut_anywhere_and_resumed_ends_bit_for_bit_the_same(
    pictures: ImageSet, tmp_path: Path, stops: list[int]
) -> None:
    unbroken = run_on(pictures, given_labels(pictures))
    *_, unbroken_last = train(unbroken)
    folder, position = tmp_path / "checkpoint", None
    for n_steps in stops:
        run = run_on(pictures, given_labels(pictures), seed=0)
        if position is not None:
            position = load_checkpoint(folder, run.learner, identity={"run": "a"})
        *_, last = train(run, start=position, monitor=StopAfter(n_steps))
        position = last.position
        save_checkpoint(folder, run.learner, position, identity={"run": "a"})
    resumed = run_on(pictures, given_labels(pictures))
    position = load_checkpoint(folder, resumed.learner, identity={"run": "a"})
    assert position.step == sum(stops)
    *_, last = train(resumed, start=position)
    assert (last.step, last.loss) == (14, unbroken_last.loss)
    assert_equal(weights(resumed.network), weights(unbroken.network))


def test_an_epochs_loss_does_not_depend_on_how_often_it_is_saved(pictures: ImageSet) -> None:
    run = run_on(pictures, given_labels(pictures))
    often = replace(run_on(pictures, given_labels(pictures)), execution=replace(CPU, checkpoint_every_s=0.0))
    pieces = list(train(often))
    assert len(pieces) == 14
    assert [piece.loss for piece in pieces if piece.is_complete] == [epoch.loss for epoch in train(run)]


def test_composite_batches_have_exactly_their_labeled_and_unlabeled_sizes(pictures: ImageSet) -> None:
    labels = given_labels(pictures)
    run = run_on(pictures, labels)
    *_, last = train(run, monitor=StopAfter(3))
    block = run.method.draw(last.position.plan, 2, 7)
    is_labeled = labels[block.rows] >= 0
    assert bool(is_labeled[:, :5].all())
    assert not bool(is_labeled[:, 5:].any())
    assert block.rows.shape == (7, 20)
    assert len(set(block.rows[:, 5:].flatten().tolist())) == 7 * 15  # an unlabeled image once an epoch
    assert torch.equal(last.position.plan.tables["targets"][labels >= 0], labels[labels >= 0])


def test_labeled_views_have_one_random_operation_and_unlabeled_two(pictures: ImageSet) -> None:
    run = run_on(pictures, given_labels(pictures))
    *_, last = train(run, monitor=StopAfter(3))
    from laplacenet.augment import OPERATIONS
    from laplacenet.augment.sampling import FIRST_SAMPLE, SAMPLE_COLUMNS

    operations = run.method.draw(last.position.plan, 2, 7).views.integers[..., FIRST_SAMPLE::SAMPLE_COLUMNS]
    operations = operations.reshape(7, 2, 20, 2)
    identity = OPERATIONS.index("identity")
    assert bool((operations[:, :, :5, 1] == identity).all())
    assert float((operations[:, :, :5, 0] == identity).float().mean()) < 0.3
    assert float((operations[:, :, 5:] == identity).float().mean()) < 0.3


def small(change: Callable[[Tensor], Tensor], pictures: ImageSet) -> list[Epoch]:
    return list(train(run_on(pictures, change(pictures.labels.clone()))))


def test_fewer_unlabeled_images_than_a_batch_wants_still_train(pictures: ImageSet) -> None:
    def all_but_ten(labels: Tensor) -> Tensor:
        labels[:10] = -1
        return labels

    epochs = small(all_but_ten, pictures)
    assert epochs[-1].step == 14
    assert {epoch.n_steps for epoch in epochs if epoch.phase == "semi-supervised"} == {1}


def test_with_every_label_given_training_is_supervised(pictures: ImageSet) -> None:
    epochs = small(lambda labels: labels, pictures)
    assert {epoch.phase for epoch in epochs} == {"supervised"}
    # as long as epochs over 120 unlabeled pictures: whoever judges each is not asked after every step
    assert [epoch.step for epoch in epochs] == [8, 14]


def test_where_no_label_reaches_anything_the_graph_is_asked_once_an_epoch() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors, labels = torch.randn(60, 5, generator=generator), torch.full((60,), -1)
    labels[:2] = torch.arange(2)
    config = replace(CONFIG, supervised_passes=0)
    network = build_model("mlp", n_classes=2, in_channels=5)
    with torch.no_grad():
        for parameter in network.body.parameters():
            parameter.zero_()  # no unit of the hidden layer ever speaks: every embedding is zero
    method = LaplaceNet(Problem(labels, 2, VectorViews()), TRAIN, config, GraphConfig(k=5))
    epochs = list(train(Run.of(method, network, vectors, CPU)))
    reports = [epoch.report for epoch in epochs if epoch.report is not None]
    assert all(bool(report.pseudo_labels.unreachable[2:].all()) for report in reports)
    assert [(epoch.phase, epoch.step) for epoch in epochs] == [("supervised", step) for step in (3, 6, 9, 12, 14)]


def test_one_label_in_one_view_is_enough_for_batch_normalization(pictures: ImageSet) -> None:
    labels = torch.full((120,), -1)
    labels[7] = 1
    run = run_on(pictures, labels, config=replace(CONFIG, n_views=1), model="patch-cnn")
    epochs = list(train(run))
    assert (epochs[0].phase, epochs[-1].step) == ("supervised", 14)


def test_the_baseline_never_looks_at_an_unlabeled_image(pictures: ImageSet) -> None:
    labels, config = given_labels(pictures), SupervisedConfig(n_views=2)
    noise = pictures.images.clone()
    noise[labels < 0] = torch.randint(0, 256, noise[labels < 0].shape, dtype=torch.uint8)
    baseline = run_on(pictures, labels, config=config)
    blind = run_on(replace(pictures, images=noise, statistics=pictures.statistics), labels, config=config)
    assert [epoch.loss for epoch in train(baseline)] == [epoch.loss for epoch in train(blind)]


def test_network_pseudo_labels_are_the_networks_argmax(pictures: ImageSet) -> None:
    labels = given_labels(pictures)
    run = run_on(pictures, labels, config=NetworkLabelsConfig(n_views=2, supervised_passes=2))
    epochs = train(run)
    first = next(epochs)
    expected = first.inference.logits(pictures.images).argmax(1)
    second = next(epochs)
    assert torch.equal(second.report.pseudo_labels.labels, torch.where(labels >= 0, labels, expected))


def test_vectors_train_without_views() -> None:
    moons = two_moons(n=60, noise=0.1, seed=0)
    labels = hide_labels(moons.labels, balanced_split(moons.labels, 10, seed=0))
    views = VectorViews()
    method = LaplaceNet(Problem(labels, 2, views), replace(TRAIN, steps=300, lr=0.1), CONFIG, GraphConfig(k=5))
    network = build_model("mlp", n_classes=2, in_channels=2)
    *_, last = train(Run.of(method, network, moons.vectors, CPU))
    assert last.step == 300
    assert float((last.inference.logits(moons.vectors).argmax(1) == moons.labels).float().mean()) > 0.8


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_steps(pictures: ImageSet) -> None:
    run = run_on(pictures, given_labels(pictures), train=replace(TRAIN, lr=1e30))
    with pytest.raises(DivergedError, match=r"at step \d"):
        list(train(run))


def test_no_label_at_all_is_refused(pictures: ImageSet) -> None:
    with pytest.raises(InputError, match="every label is -1"):
        run_on(pictures, torch.full((120,), -1))


def test_a_checkpoint_of_another_run_is_refused_with_what_differs(pictures: ImageSet, tmp_path: Path) -> None:
    run = run_on(pictures, given_labels(pictures))
    *_, last = train(run, monitor=StopAfter(3))
    save_checkpoint(tmp_path / "checkpoint", run.learner, last.position, identity={"seed": 0, "data": "x"})
    with pytest.raises(InputError, match="its seed is 0, this run's is 1"):
        load_checkpoint(tmp_path / "checkpoint", run.learner, identity={"seed": 1, "data": "x"})


def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_used(pictures: ImageSet, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    run = run_on(pictures, given_labels(pictures))
    with pytest.raises(InputError, match="no checkpoint there"):
        load_checkpoint(folder, run.learner, identity={})
    *_, last = train(run, monitor=StopAfter(3))
    save_checkpoint(folder, run.learner, last.position, identity={})
    shard = next(folder.glob("state-*.safetensors"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        load_checkpoint(folder, run.learner, identity={})
    good = folder.with_name("checkpoint.old")
    folder.rename(good)
    shard = next(good.glob("state-*.safetensors"))
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    assert load_checkpoint(folder, run.learner, identity={}).step == 3
