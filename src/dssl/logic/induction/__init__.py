"""Rules learned from labels. In: label columns. Out: rules, each with its support.

Start at `learning.py`.

learning     the steps below, in order: `learn_rules`
tally        labels as 0, 1 and −1, and how often literals meet
mining       sets of literals that never meet
discovery    rules made of these, the simplest first
surprise     whether chance alone would explain a rule
phrasing     rules in words of the rule language
minimal      rules that follow from others are dropped
"""
