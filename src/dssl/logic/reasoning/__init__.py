"""What rules say together. In: variables and formulas. Out: constraints in normal form, and a SAT solver over them.

Start at `constraints.py`.

constraints    the normal form
normalisation  formulas → the normal form
walks          automata and graphs in it
solver         a SAT solver over it, with rules switched on and off
sat            how the SAT solver is asked, so that Ctrl-C is heard
implications   rules that need no solver: what follows in linear time
diagnosis      what rules say that their author may not have meant
"""
