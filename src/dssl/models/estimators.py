"""DSSLClassifier: the scikit-learn estimator, from arrays and rules to a model whose predictions never break one."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, validate_data
from torch import nn

from dssl.circuits.beyond.cascade import Cascade
from dssl.circuits.beyond.ladder import Step, climb
from dssl.data.features import distinct
from dssl.data.mending import completed, mend
from dssl.data.rows import Data
from dssl.data.stored.surveys import Survey, survey
from dssl.data.targets import Targets
from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.models.answering import Answering
from dssl.models.auto.beginning import new_network, outputs_of
from dssl.models.auto.calibration import calibration_rows, cross_fitted, fold_steps, joined, parts, uncalibrated
from dssl.models.auto.committee import Committee
from dssl.models.auto.elements import Elements, find_elements, network_name, standardiser_of, with_tokens
from dssl.models.auto.ground import Ground
from dssl.models.auto.plan import Plan, are_images, are_texts, is_wide, make_plan
from dssl.models.auto.scales import judge_scales
from dssl.models.decoding import Decoder
from dssl.models.files.described import refuse_unsaved
from dssl.models.fitting.large import set_names, space_of_data, weights_of
from dssl.models.fitting.lessons import Lesson, held_out
from dssl.models.fitting.losses import Asked, make_objective, told
from dssl.models.fitting.pace import Course, Pace
from dssl.models.fitting.variety import CollapseWarning, warn_if_collapsed
from dssl.models.inference import Resident, Validation, device_to_predict_on, features_of, taken
from dssl.models.parameters import CONSTRAINTS, GONE, PLACES, checked_weight, loop_settings, objective_options
from dssl.priors import Prior
from dssl.priors.predictive import Answers
from dssl.spellings import refuse_gone, says_where
from dssl.training.loop import History, train
from dssl.training.objective import Objective


class DSSLClassifier(Answering):
    """Classifier that learns from labelled rows, unlabelled rows and rules about labels.

    >>> import numpy as np
    >>> X = np.array([[0.0, 0.1], [0.2, 0.0], [3.0, 3.1], [3.2, 2.9]] * 5)
    >>> y = np.array(["near", None, "far", None] * 5)
    >>> DSSLClassifier(steps=50, random_state=0).fit(X, y).predict([[0.1, 0.1], [3.0, 3.0]]).tolist()
    ['near', 'far']

    **Labels.** A vector of classes, with −1, None or NaN where the class is unknown; a matrix of 0 and 1 with NaN where
    an entry is unknown; or, with `rules`, whatever `LabelSpace.encode` reads. Predictions come in the same form.

    **Parameters**

    * `rules`: what labels can look like. Rule text, a path to it, a `LabelSpace`, or, if y is a frame or records,
      formulas about its columns. Without rules: classes, or independent labels.
    * `prior`: "auto"; "deterministic", "entropy", "exclusivity", "pseudo-label", "null-category"; "learned", with
      the label probabilities that `learn_prior` finds; a `Prior`, which needs no space of its own, as in
      ``DeterministicPrior(power=10)``, or a function from a space to a prior; None to learn from labels only.
      `prior_weight` is its weight λ, by default as planned, or .3.
    * `network`: "auto" ("mlp", or "cnn" for images), "linear", "mlp", "cnn", "wrn-28-2" or a torch module. For elements
      also "sequence" (convolutions along the row; "auto" for tokens) and "transformer".
    * `elements`: what the parts of a row (n, parts, …) show, if one network is to read each of them with the same
      weights: the name of an array of the rules, or names of variables. "auto": the one array that has as many
      elements as rows have parts. None: a row is read as a whole. `plan_` says which.
    * `consistency`: predictions should stay as they are under small changes of x. "vat", "mean-teacher", "pi-model",
      "temporal-ensembling", "neighbours", "fixmatch", "mixmatch", "remixmatch", "mixup", "ladder", "m2"; a term of
      `dssl.training.terms`; a list of those; None. "auto": as planned. Labels decide whether near rows agree
      (`neighbours`), whether another model can teach, or whether unlabelled rows are best left alone; `plan_` says what
      was decided and why. What you name is used in any case.
    * `augment`: which changes of x leave labels as they are. "image", "digits" (no mirroring), "table", a function of
      standardised rows, a pair of a weak and a strong one, or None. Labels are learned on weak views. "auto": for
      images, those changes under which left-out labels are predicted better; `plan_` has the figures.
    * `objective`: a dict of what else the loss is made of. `labelled_prior_weight` (0): the prior's weight on labelled
      rows. `constrained` (as planned): the likelihood of a label is taken given that labels are valid. `balance` (1):
      how strongly the mean prediction is held to label frequencies, against collapse. `consistency_weight` (1): μ.
      `ramp` (.4): the share of training in which the weights of prior, balance and consistency rise from 0, or a
      function from the step to a factor; if `rising` (True), T of a deterministic prior rises from 1 meanwhile.
      Unlabelled rows count in proportion to their share: few of them say little. `class_weight`: how much labelled
      rows count by their class, "balanced" or a dict of weights; by variable, where there are several.
      `frequencies` ("auto"): what `balance` holds predictions to: "labels", those of the labels given; "uniform";
      numbers, one per column or by variable; "unknown" for no balance. `components` ("auto", 1): of how
      many predictions, each with a weight, the model is a mixture, for labels with correlations that rules do not
      explain; see `dssl.priors.mixture`. Consistency terms, teachers and calibration are for one component only.
    * `decision`: which valid label `predict` gives. "most probable", right if a label counts only as a whole;
      "marginals", the one with the most entries right in expectation; "f1", the one with the largest expected F1 of the
      columns that hold, for labels of many rare columns.
    * `calibrate`: how sure predictions are is set by labelled rows that are left out in turn. "auto": if there are 20
      of them and three of each class, no rule is soft, most columns are not rare, and the network is not your own
      module. It takes about as long as training once more. True or False.
    * `steps` of training, by default 400, or ten passes over the labelled rows if that is more; `learning_rate`, by
      default .002; `batch_size`, of labelled rows, by default 64. Labels with many rare columns are learned in batches
      of 128 and at least forty passes (twenty for texts), and, from labels alone, at a rate
      of .004 and by two networks.
    * `settings`: a dict of what else belongs to the loop, by the names of `Settings`: `unlabelled_batch` (256),
      `weight_decay`, `ema`, `schedule`, `devices`, `accelerator`, `checkpoint`, `log`, `progress`, … With
      `patience` training stops when a held-out `validation_fraction` (.2) of the labelled rows no longer gets better.
      With `standardise` (True) features are first brought to mean 0 and a common scale.
    * `unlabelled`: what stands for an unknown class, besides None and NaN.
    * `on_violation`: labels that break a rule are an "error", or "warn", "drop" the label, "repair" it.
    * `warm_start`: `fit` continues from the last model. `random_state`: seed.

    **Attributes**: `classes_`, `space_`, `network_`, `prior_`, `plan_`, `history_`, `n_steps_`, `n_features_in_`,
    `feature_names_in_`.

    Threads may share a fitted one for predictions. `fit` and `partial_fit` belong to one thread, while no
    other thread predicts.
    """

    n_steps_: int
    network_: nn.Module
    prior_: Prior | None
    input_shape_: tuple[int, ...]
    elements_: Elements | None
    _in_fold = False  # whether it is one of those that calibration trains, and learns as the one that is calibrated

    _parameter_constraints: ClassVar[dict[str, Any]] = CONSTRAINTS

    @says_where(GONE)
    def __init__(
        self,
        rules: Any = None,
        prior: Any = "auto",
        network: str | nn.Module = "auto",
        *,
        elements: Any = "auto",
        prior_weight: float | None = None,
        consistency: Any = "auto",
        augment: Any = None,
        objective: dict[str, Any] | None = None,
        decision: str = "most probable",
        calibrate: str | bool = "auto",
        steps: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        settings: dict[str, Any] | None = None,
        unlabelled: Any = -1,
        on_violation: str = "error",
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.rules, self.prior, self.network, self.elements = rules, prior, network, elements
        self.prior_weight, self.consistency, self.augment = prior_weight, consistency, augment
        self.objective, self.decision, self.calibrate = objective, decision, calibrate
        self.steps, self.learning_rate, self.batch_size = steps, learning_rate, batch_size
        self.settings, self.unlabelled, self.on_violation = settings, unlabelled, on_violation
        self.warm_start, self.random_state = warm_start, random_state

    def set_params(self, **params: Any) -> Self:
        """Parameters by name, as scikit-learn does it."""
        refuse_gone(type(self).__name__, params, GONE, ValueError)
        return super().set_params(**params)

    def _validate_params(self) -> None:
        refuse_unsaved(self.get_params(deep=False))
        super()._validate_params()
        objective_options(self.objective)
        loop_settings(self.settings)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags

    # ---- fitting ----

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, extra_labels: Any = None, watched: Any = None
    ) -> DSSLClassifier:
        """Learn from rows X (n, features), images (n, c, h, w) or a frame, and labels y, most of them unknown.

        Or from a `Data` object, which has its own labels and may be larger than memory: its batches are streamed, and
        what is decided before training is decided on a sample of up to 10,000 labelled and 10,000 unlabelled rows.

        A row of `sample_weight` w counts as w rows. `extra_labels`: labels like y that come without rows. They show how
        frequent labels are, which `balance` and the "learned" prior use. `watched`: (X, y) of other rows, whose
        accuracy is in the log, as `watched`; nothing is learned from them, and they decide nothing.
        """
        goes_on = self.warm_start and hasattr(self, "network_")
        if isinstance(X, Data):
            return self._fit_data(X, watched, y, sample_weight, extra_labels)
        x, columns, weight = self._read(X, y, sample_weight, None if goes_on else {})
        course = Course(self._pace(x).whole(columns))
        return self._learn(x, columns, weight, course, extra=self._extra(extra_labels), watched=watched)

    def _fit_data(self, data: Data, watched: Any, *more: Any) -> DSSLClassifier:
        self._validate_params()
        if self.warm_start or any(given is not None for given in more):
            raise DataError(
                "a Data object has its own labels and weights\nLeave out y, weights, extra labels, warm_start."
            )
        self.targets_ = Targets.of_space(space_of_data(data, self.rules))
        self.space_, self.classes_ = self.targets_.space, self.targets_.classes
        self._step = climb(self.space_) if self.space_.rules else None
        self.__dict__.pop("network_", None)
        found = survey(
            data, lambda y: completed(self.space_, mend(self.space_, y, self.on_violation, self._circuit)), 0
        )
        set_names(self, found.x, data.names)
        elements = find_elements(self.space_, found.x.shape[1:], self.elements, self.network)
        self.elements_ = with_tokens(elements, found.x, self.network)
        scaled = loop_settings(self.settings)[1].standardise
        by_sample = standardiser_of(found.x, found.counts, elements, self.network, scaled)
        self.standardiser_ = found.standardiser if scaled and elements is None and not by_sample.whole else by_sample
        x = self.standardiser_(found.x)
        course = Course(self._pace(x).whole(found.known))
        return self._learn(x, found.columns, found.counts, course, large=found, watched=watched)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> DSSLClassifier:
        """Learn a little more, from one pass over these rows. The first call fixes classes and standardisation.

        The optimiser's state and the averaged weights are kept from call to call.
        """
        first = not hasattr(self, "network_")
        x, columns, weight = self._read(X, y, sample_weight, {"classes": classes} if first else None)
        course = Course(self._pace(x).once(columns), 0 if first else self.n_steps_, whole=False)
        return self._learn(x, columns, weight, course)

    def _extra(self, labels: Any) -> Columns | None:
        if labels is None:
            return None
        if self.prior is None:
            raise DataError("extra_labels say nothing without a prior\nGive one, as in prior='learned'.")
        return self._mended(labels)

    def _mended(self, y: Any) -> Columns:
        """Labels as columns that obey the rules, with what follows filled in."""
        return completed(self.space_, mend(self.space_, self.targets_.encode(y), self.on_violation, self._circuit))

    @property
    def _circuit(self) -> Answers | None:
        """Who answers for the rules: as decided before training, or as loaded."""
        step: Step | None = self.__dict__.get("_step")
        return step.answers if step is not None else self.decoder_.circuit if hasattr(self, "decoder_") else None

    @property
    def _wide(self) -> bool:
        in_elements = self.elements_ is not None
        return is_wide(self.space_, in_elements=in_elements) or isinstance(self._circuit, Cascade)

    def _pace(self, x: Any) -> Pace:
        texts = self.elements_ is None and are_texts(self.space_, x)
        told = (self.steps, self.batch_size, self.learning_rate, self.settings)
        return Pace(
            *told,
            wide=self._wide,
            texts=texts,
            images=self.augment == "auto" and self.elements_ is None and are_images(x),
            parts=len(self.elements_ or "1"),
        )

    def _read(
        self, X: Any, y: Any, sample_weight: Any, new: dict[str, Any] | None
    ) -> tuple[Any, Columns, NDArray[np.float64]]:
        """Users' data as distinct rows x, label columns and weights; `new` holds what a first reading is told."""
        self._validate_params()
        x, y, weight = self._weighed(X, y, sample_weight, reset=new is not None)
        if new is not None:
            self.targets_ = Targets.of(y, self.rules, self.unlabelled, **new)
            self.space_, self.classes_ = self.targets_.space, self.targets_.classes
            self._step = climb(self.space_) if self.space_.rules else None
        columns = self._mended(y)
        if np.isnan(columns).all():
            raise DataError(f"none of the {len(columns)} rows is labelled\nLabel some rows of each class.")
        rows, weight = distinct(x, columns, weight)
        x, columns = x[rows], columns[rows]
        if new is not None:
            self._scale_by(x, columns, weight)
        return self.standardiser_(x), columns, weight

    def _weighed(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, Any, NDArray[np.float64]]:
        """Features, labels and weights, without the rows of weight 0."""
        if y is None:
            validate_data(self, X, y=None)  # says so in scikit-learn's words
        x = features_of(self, X, reset=reset)
        check_consistent_length(x, y)
        weight = checked_weight(sample_weight, x)
        if weight.all():
            return x, y, weight
        kept = np.flatnonzero(weight)
        return x[kept], taken(y, kept), weight[kept]

    def _scale_by(self, x: Any, columns: Columns, weight: NDArray[np.float64]) -> None:
        """Fixes what the parts of rows are and how they are brought to one scale, for a new network."""
        found = find_elements(self.space_, x.shape[1:], self.elements, self.network)
        self.elements_ = with_tokens(found, x, self.network)
        scaled = loop_settings(self.settings)[1].standardise
        by_spread = standardiser_of(x, weight, found, self.network, scaled)
        self.standardiser_, self._scales = by_spread, None
        if scaled and found is None and not by_spread.whole:
            self.standardiser_, self._scales = judge_scales(x, columns, weight, by_spread)
        self.__dict__.pop("network_", None)

    def _learn(
        self,
        x: Any,
        columns: Columns,
        weight: NDArray[np.float64],
        course: Course,
        *,
        extra: Columns | None = None,
        ground: Ground | None = None,
        large: Survey | None = None,
        watched: Any = None,
    ) -> DSSLClassifier:
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        past, carry = self._goes_on()
        lesson = self._lesson(x, columns, weight, random)
        self.plan_ = self._plan(lesson, seed, whole=course.whole, more=extra is not None, ground=ground)
        if large is not None:
            self.plan_ = self.plan_.for_stream(len(large.data), len(large.rows))
        new = "network_" not in self.__dict__  # a fit that fails leaves none behind
        network = new_network(self.network, self.elements_, lesson, self.plan_, seed) if new else self.network_
        asked = self._asked(lesson, course)
        objective = make_objective(lesson, asked, self.plan_, extra)
        self.prior_, self.plan_ = objective.prior, told(self.plan_, asked, objective)
        decoder = Decoder(self.space_, self._circuit, components=self.plan_.components)
        history = self._trained(network, objective, lesson, course, seed, decoder, carry, large, watched)
        self.network_, self.history_ = history.network.cpu().eval(), history.rows
        if course.whole and history.stopped != "interrupted":
            if new and self.plan_.members > 1:
                self._join_others(lesson, course, seed)
            if self._calibrates(lesson):
                self._calibrate(lesson, course, seed)
        self._resident = Resident(self.network_, device_to_predict_on(self.settings))
        if not course.whole:
            self._carry = history.carry
        if self.prior_ is not None:
            self.prior_.cpu()
        self.decoder_ = Decoder(self.space_, decoder.circuit, self.decision, components=decoder.components)
        self.n_steps_, self.plan_ = past + history.steps_done, replace(self.plan_, beside=None, ground=None)
        if self.plan_.uses_unlabelled:
            warn_if_collapsed(lesson, self.network_, self.plan_.components, above=2)
        return self

    def _goes_on(self) -> tuple[int, Any]:
        """Steps that the last network was trained for, and what its loop left; it is stripped of its calibration."""
        carry = self.__dict__.pop("_carry", None)
        if "network_" not in self.__dict__:
            return 0, carry
        self.network_ = uncalibrated(self.network_)
        return self.n_steps_, carry

    def _lesson(self, x: Any, columns: Columns, weight: NDArray[np.float64], random: Any) -> Lesson:
        told, around = loop_settings(self.settings)
        stops = told.get("patience") is not None
        held = held_out(columns, around.validation_fraction, random) if stops else np.arange(0)
        return Lesson(self.space_, x, columns, weight, held, self._circuit)

    def _trained(
        self,
        network: nn.Module,
        objective: Objective,
        lesson: Lesson,
        course: Course,
        seed: int,
        decoder: Decoder,
        carry: Any,
        large: Survey | None = None,
        watched: Any = None,
    ) -> History:
        """What the loop makes of a network; a part of training goes on from what the last part left."""
        held = lesson.held
        validate = Validation(decoder, lesson.x[held], lesson.columns[held], lesson.weight[held]) if len(held) else None
        alone = objective.prior is None and not objective.consistency
        settings = self._pace(lesson.x).settings(course, seed, alone=alone)
        by_class = objective_options(self.objective).get("class_weight")
        data: Data = lesson.data(by_class)
        if large is not None:
            data = large.stream(self.standardiser_, held, weights_of(self.space_, large, by_class))
        carry = None if course.whole else carry
        watch = None if watched is None else self._watch(decoder, *watched)
        return train(network, objective, data, settings, validate=validate, carry=carry, watch=watch)

    def _watch(self, decoder: Decoder, X: Any, y: Any) -> Validation:
        """Accuracy on rows that are not learned from, as `score` has it."""
        columns = self.targets_.encode(y)
        x = self.standardiser_(features_of(self, X))
        check_consistent_length(x, columns)
        return Validation(decoder, x, columns, np.ones(len(columns)))

    def _join_others(self, lesson: Lesson, course: Course, seed: int) -> None:
        """Trains further networks in the same way, from other first weights, and lets all answer together."""
        core, *behind = parts(self.network_)
        others = [self._without(lesson, course, seed + i, np.arange(0)) for i in range(1, self.plan_.members)]
        self.network_ = joined(Committee(core, *others), *behind).eval()

    def _calibrates(self, lesson: Lesson) -> bool:
        own = isinstance(self.network, nn.Module) and self.calibrate == "auto"  # network_ stays what was given
        one = objective_options(self.objective).get("components", "auto") in ("auto", 1)
        rows = calibration_rows(self.calibrate, lesson, in_elements=self.elements_ is not None)
        return not own and one and rows is not None

    def _calibrate(self, lesson: Lesson, course: Course, seed: int) -> None:
        """Makes predictions as sharp as those of networks that have not seen some labels should have been."""
        judged = self.plan_.beside if self.network == "auto" else None
        steps = fold_steps(course.steps, in_full=judged is not None and not self.plan_.uses_unlabelled)
        fold = partial(self._without, lesson, Course(steps), seed)
        network, found = cross_fitted(lesson, self.network_, outputs_of(lesson, self.plan_), judged, seed, fold)
        self.network_ = network.eval()
        self.plan_ = self.plan_.with_decision("calibration", *found.said())

    def _without(self, lesson: Lesson, course: Course, seed: int, hidden: NDArray[np.int64]) -> nn.Module:
        """A network trained in the same way, without the labels of the hidden rows."""
        other = copy.copy(self)
        other.__dict__.pop("network_")
        other.calibrate, other.random_state, other._in_fold = False, seed, True
        other.augment = self.plan_.views  # what they are was judged once
        other.settings = {name: value for name, value in (self.settings or {}).items() if name not in PLACES}
        columns = lesson.columns.copy()
        columns[hidden] = np.nan
        ground = None if len(lesson.held) else self.plan_.ground  # other rows are held out in a fold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            other._learn(lesson.x, columns, lesson.weight, course, ground=ground)
        return parts(other.network_)[0]

    # ---- what "auto" comes to ----

    def _plan(self, lesson: Lesson, seed: int, *, whole: bool, more: bool, ground: Ground | None) -> Plan:
        """How to use unlabelled rows: as was asked for, or as labels say; not by a few rows of many."""
        asked = (
            self._asked(lesson, Course(0)).wants_prior or self.consistency not in ("auto", None) or more or not whole
        )
        nothing = self.prior is None and self.consistency in ("auto", None)
        elements = None
        if self.elements_ is not None:
            named = "module" if isinstance(self.network, nn.Module) else self.network
            elements = self.elements_.said(self.space_, network_name(named, self.elements_, lesson.x.shape[1:]))
        plan = make_plan(
            self.space_,
            lesson.x[lesson.kept][..., None] if lesson.x.dtype.kind == "i" else lesson.x[lesson.kept],  # no table
            lesson.columns[lesson.kept],
            lesson.weight[lesson.kept],
            rows=self._open_in_a_batch(lesson),
            seed=seed,
            asked="it was asked for" if asked else "",
            alone="neither a prior nor a consistency term was asked for" if nothing else "",
            judges=whole and self.consistency == "auto",
            components=self._components(),
            augment=self.augment if whole or self.augment != "auto" else None,
            several=whole and self.network == "auto" and not self._in_fold and "network_" not in self.__dict__,
            calibrated=(whole and self._calibrates(lesson)) or self._in_fold,
            ground=ground,
            circuit=lesson.circuit,
            elements=elements,
            anchored=self.elements_ is not None
            and self.elements_.anchored(self.space_, lesson.columns[lesson.kept[lesson.counting[lesson.kept]]]),
        )
        scales: tuple[str, str] | None = self.__dict__.get("_scales")
        plan = plan if scales is None else plan.with_decision("scales", *scales)
        step: Step | None = self.__dict__.get("_step")
        return plan if step is None else plan.with_decision("rules", step.value, step.reason)

    def _components(self) -> int:
        """As asked for; a network that goes on learning keeps those it has."""
        told = objective_options(self.objective).get("components", "auto")
        asked = 1 if told == "auto" else int(told)
        if asked > 1 and self.calibrate is True:
            raise ValueError(
                f"calibrate=True is for one component, and there are {asked}: one scale would blur them together\n"
                "Leave out calibrate=True, or 'components' of the objective."
            )
        if "network_" not in self.__dict__ or self.decoder_.components == asked:
            return asked
        raise ValueError(
            f"the model has {self.decoder_.components} components and cannot continue with {asked}\n"
            "Fit a new model, or leave out warm_start."
        )

    def _open_in_a_batch(self, lesson: Lesson) -> int:
        pace = self._pace(lesson.x)
        return lesson.open_in_a_batch(pace.batch, pace.unlabelled_batch)

    def _asked(self, lesson: Lesson, course: Course) -> Asked:
        """What this fit is told about its loss, whose weights rise over all of training."""
        steps = course.steps if course.whole else self._pace(lesson.x).whole(lesson.columns)
        return Asked(
            self.prior, self.prior_weight, self.consistency, objective_options(self.objective),
            self.on_violation, self._open_in_a_batch(lesson), steps, course.done,
        )  # fmt: skip
