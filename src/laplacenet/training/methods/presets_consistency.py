"""Settings of the consistency and graph methods: their authors' own, and those of a comparison on equal terms.

`original` is each paper's setting for CIFAR-10 (`presets.py` has what differs on CIFAR-100); an epoch of n images is
counted in steps of our batches. What the engine does not have is left out: ZCA whitening, dropout, mean-only batch
normalization, the fall of Adam's β1 at the end. So is weight normalization: the Π-model, temporal ensembling, SNTG and
the original Mean Teacher have it with mean-only batch normalization; LP, MT-LP, fast-SWA, Dual Student, ICT and
PL-Mixup with the usual one, on the classifier too. `model.weight_norm` has it for convolutions. On CIFAR-100 Mean
Teacher's settings are its authors' for CIFAR-10; the published numbers there are those of the SGD version by Iscen et
al., for which `n_heads`, `head_distance` and `labeled_loss_over` are settings. A cosine that its authors lay
over 210 epochs and leave after 180 (ICT: 450 and 400) goes to its end here. `equal` is the protocol of LaplaceNet's
Table IV: the network and the steps of the recipe, its optimizer and schedule, and RandAugment's views for every method.
"""

Overrides = dict[str, object]

SGD: Overrides = {"train.optimizer": "sgd", "train.schedule": "cosine", "train.momentum": 0.9}
ADAM: Overrides = {"train.optimizer": "adamw", "train.weight_decay": 0.0}
WEAK: Overrides = {"model.name": "13-cnn", "method.strength": "weak"}
SAME: Overrides = {**SGD, "train.lr": 0.03, "train.weight_decay": 5e-4}
EQUAL: Overrides = {**SAME, "method.strength": "strong"}

# 300 epochs of 500 steps; a batch of 100 drawn from all 50 000 images has 8 of 4 000 labeled ones
LAINE: Overrides = {
    **WEAK,
    **ADAM,
    "augment.pad": 2,
    "train.schedule": "rise-and-fall",
    "train.lr": 0.003,
    "train.steps": 150_000,
    "train.batch_size": 100,
    "train.labeled_batch_size": 8,
    "method.ramp_up": 80 / 300,
    "method.noise": 0.15,
}
# 50 labeled of 100; an epoch over 46 000 unlabeled images has 920 steps
ISCEN: Overrides = {
    **WEAK,
    **SGD,
    "train.lr": 0.05,
    "train.weight_decay": 2e-4,
    "train.batch_size": 100,
    "train.labeled_batch_size": 50,
}
ISCEN_GRAPH: Overrides = {"graph.k": 50, "graph.mu": 1 / 0.99 - 1, "graph.max_iterations": 20, "graph.tol": 1e-6}
ISCEN_TEACHER: Overrides = {
    "method.consistency": 100.0,
    "method.ema_decay": 0.97,
    "method.n_heads": 2,
    "method.head_distance": 0.01,
    "method.labeled_loss_over": "batch",
}

PRESETS: dict[str, dict[str, Overrides]] = {
    "pi-model": {
        "original": {**LAINE, "method.consistency": 100.0},
        "equal": EQUAL,
    },
    "temporal-ensembling": {
        "original": {**LAINE, "method.consistency": 30.0, "method.output_decay": 0.6},
        "equal": EQUAL,
    },
    "mean-teacher": {
        "original": {
            **LAINE,
            "method.consistency": 100.0,
            "method.ramp_up": 40_000 / 150_000,
            "method.ema_decay": 0.999,
        },
        "equal": EQUAL,
    },
    "vat": {
        "original": {  # 500 epochs of 400 steps; the radius is that of the runs with shifts and flips
            **WEAK,
            **ADAM,
            "augment.pad": 2,
            "train.schedule": "late-linear",
            "train.lr": 1e-3,
            "train.steps": 200_000,
            "train.batch_size": 160,
            "train.labeled_batch_size": 32,
            "method.radius": 8.0,
            "method.adversarial_weight": 1.0,
        },
        "equal": EQUAL,
    },
    "lp": {
        # 180 epochs of 40 steps over 4 000 labeled images, then 180 of 920
        "original": {**ISCEN, **ISCEN_GRAPH, "train.steps": 172_800, "method.first_stage": 1 / 24},
        "equal": EQUAL,
    },
    "mt-lp": {
        "original": {
            **ISCEN,
            **ISCEN_GRAPH,
            **ISCEN_TEACHER,
            "train.steps": 331_200,
            "method.ramp_up": 5 / 360,
            "method.first_stage": 0.5,
        },
        "equal": EQUAL,
    },
    "sntg": {
        "original": {  # on temporal ensembling, as the published numbers for 1 000 and 2 000 labels
            **LAINE,
            "method.base": "temporal-ensembling",
            "method.consistency": 30.0,
            "method.neighbor_weight": 0.4,
            "method.margin": 1.0,
        },
        "equal": EQUAL,
    },
    "fast-swa": {
        "original": {  # 180 epochs of 920 steps, then 34 cycles of 30: the 1 200 epochs of the authors' script
            **ISCEN,
            **ISCEN_TEACHER,
            "train.lr": 0.1,
            "train.weight_decay": 1e-4,
            "train.steps": 1_104_000,
            "method.ramp_up": 5 / 1200,
            "method.cycle": 30 / 1200,
            "method.n_cycles": 34,
        },
        "equal": EQUAL,
    },
    "ict": {
        "original": {  # 400 epochs of 460 steps
            **WEAK,
            **SGD,
            "augment.pad": 2,
            "train.lr": 0.1,
            "train.weight_decay": 1e-4,
            "train.steps": 184_000,
            "train.batch_size": 200,
            "train.labeled_batch_size": 100,
            "method.consistency": 100.0,
            "method.ramp_up": 0.25,
            "method.ema_decay": 0.999,
        },
        "equal": EQUAL,
    },
    "dual-student": {
        "original": {  # 300 epochs of 920 steps
            **ISCEN,
            "train.lr": 0.1,
            "train.weight_decay": 1e-4,
            "train.steps": 276_000,
            "method.consistency": 10.0,
            "method.stabilization": 100.0,
            "method.threshold": 0.8,
            "method.ramp_up": 5 / 300,
            "method.n_heads": 2,
            "method.head_distance": 0.01,
            "method.labeled_loss_over": "batch",
        },
        "equal": EQUAL,
    },
    # their authors' settings are not known
    "tssdl": {"equal": EQUAL},
    "dag": {"equal": EQUAL},
}
