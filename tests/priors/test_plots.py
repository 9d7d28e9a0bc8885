"""Every prior draws itself, and what is drawn is what the prior says."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
import torch

from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, EntropyPrior, ExclusivityPrior, PseudoLabelPrior
from dssl.priors.gaussian import GaussianPrior
from dssl.priors.plots import curves
from priors.cases import PAIRS, SPACES, make

TWO = LabelSpace.classes(["cat", "dog"])
drawn = [pair for pair in PAIRS if pair[0] in ("deterministic", "exclusivity", "goedel")]


@pytest.mark.parametrize(("prior", "space"), drawn)
def test_every_space_has_a_picture(prior, space):
    figure = make(prior, space).plot()
    file = io.BytesIO()
    figure.savefig(file, dpi=30)
    assert len(file.getvalue()) > 1000
    assert len(figure.axes) >= 2


def test_curves_are_q_log_q_and_their_derivatives():
    q, log_q, slope_q, slope = curves([DeterministicPrior(TWO, 3.0)], points=99).axes[:4]
    t = np.arange(1, 100) / 100
    expected = t**3 + (1 - t) ** 3
    derivative = 3 * t**2 - 3 * (1 - t) ** 2
    for ax, y in ((q, expected), (log_q, np.log(expected)), (slope_q, derivative), (slope, derivative / expected)):
        np.testing.assert_allclose(ax.lines[0].get_ydata(), y, rtol=1e-9, atol=1e-9)


def test_figure_3_has_all_four_relaxations():
    priors = [prior(TWO) for prior in (EntropyPrior, ExclusivityPrior, PseudoLabelPrior)]
    priors.append(DeterministicPrior(TWO, 10.0))
    figure = curves(priors)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["Entropy", "Exclusivity", "PseudoLabel", "Deterministic, T = 10"]
    with pytest.raises(DataError, match="different spaces"):
        curves([EntropyPrior(TWO), EntropyPrior(SPACES["classes"])])


@pytest.mark.parametrize("names", [["legs", "fins"], ["legs", "fins", "wings"]])
def test_figure_6_marks_the_valid_labels(names):
    figure = DeterministicPrior(LabelSpace.attributes(names, "legs -> !fins")).plot()
    titles = [ax.get_title() for ax in figure.axes]
    assert any("F:" in title for title in titles)
    assert any("R:" in title for title in titles)
    support = next(ax for ax in figure.axes if "s_R" in ax.get_title())
    marks = [text.get_text() for text in support.texts]
    assert marks.count("∞") == 3 * 2 ** (len(names) - 2)
    assert marks.count("0") == 2 ** (len(names) - 2)


def test_gaussian_picture():
    prior = GaussianPrior((0.0, 2.0), 1.0, (0.7, 0.3))
    figure = prior.plot()
    assert [ax.get_title() for ax in figure.axes] == ["classes", "θ = p(y=1 | x)", "p(θ)"]
    assert prior.means.dtype == torch.float32  # drawing leaves the prior as it was


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        DeterministicPrior(TWO).plot()
