"""The model card: what a saved model is, on one page, for whoever finds the folder."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from dssl.logic.language.variables import listed


def model_card(name: str, facts: Mapping[str, Any]) -> str:
    """The page, as Markdown, from what `model.json` holds."""
    targets, network = facts["targets"], facts["network"]
    shape = " × ".join(map(str, facts["input_shape"]))
    features = f": {_plain(listed(facts['feature_names']))}" if facts["feature_names"] else ""
    parameters = facts["parameters"]
    weight = parameters["prior_weight"]
    by = "" if weight is None else f", weight {weight:g}"
    prior = f"{parameters['prior']} prior{by}" if parameters["prior"] else "labels only"
    loading = (
        "load(path)" if network["name"] else "load(path, network=module)  # one like the module it was trained with"
    )
    how = "calibrated on labelled rows that were left out in turn" if network.get("calibrated") else "not calibrated"
    sure = f"Probabilities are the model's, conditioned on the rules; they are {how}."
    return f"""# {_plain(name)}

A classifier trained with dssl {facts["versions"]["dssl"]} on {facts["created"][:10]}.

| | |
|---|---|
| input | {shape} numbers per row{features} |
| labels | {_plain(listed(targets["classes"]["values"]))} |
| network | {network["name"] or network["class"]}, {network["weights"]:,} weights |
| trained on | {prior}, {facts["steps"]:,} steps |
{_metrics(facts["metrics"])}
## Labels it can give

Every prediction is a valid label of this space:

```
{targets["space"].rstrip()}
```

## Use

```
from dssl import load
model = {loading}
model.predict(X), model.predict_proba(X), model.violations(X)
```

Loading executes nothing from this folder. `model.json` holds checksums: changed files are refused.

## Limits

{sure} Rules hold for every prediction, right or wrong. Rows unlike those it was trained on get an answer all the same.
"""


def _plain(text: str) -> str:
    """Names from data as text: neither markup nor the end of a cell."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("`", "\\`").replace("[", "\\[")


def _metrics(metrics: Mapping[str, float]) -> str:
    if not metrics:
        return ""
    rows = "\n".join(f"| {_plain(name)} | {value:.4g} |" for name, value in metrics.items())
    return f"\n## Measured\n\n| | |\n|---|---|\n{rows}\n"
