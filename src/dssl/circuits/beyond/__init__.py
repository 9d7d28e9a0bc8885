"""Beyond circuits: answers about rules that do not compile. In: a LabelSpace. Out: who answers for its rules.

Start at `ladder.py`.

ladder    which step a space stands on: a circuit, a cascade or a superset
cascade   implications, decided from the top down, without a circuit
closures  the heaviest labels that obey implications
superset  some rules in a circuit, all of them in every label
"""
