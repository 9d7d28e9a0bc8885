"""Words: what the numbers of a program's stream mean, for those that write and run it.

Each node is one stretch of 32-bit words: the factors of its first product, of its second, and so on, then
the slot its value goes to, flagged ``LAST`` where its mantissa must be brought back into [1, 2): products and sums
leave it longer, and it may grow to 2^120 (see `lowering`). A factor is a slot number and flags:

* ``LAST``: the last factor of a product, ``FIRST``: its first; a product of one factor has both;
* on the last factor, ``HEAD``: this product is the first of its node, ``TAIL``: it is the last;
* ``TOUCH``: no later word names this value. The backward pass meets it first here, and stores instead of adding.

A sum p₁ + p₂ + … is formed from left to right; each addition p = a + b logs its *bias* a / p. The backward pass takes
the biases from the end of the log: a part ``1 − bias`` of the flow goes to b, the rest is passed on to a. The same
stretch thus serves sums, maxima (bias 0 or 1), expectations and samples (a coin with that bias).
"""

from __future__ import annotations

LAST, FIRST, TAIL, HEAD, TOUCH = (1 << bit for bit in (31, 30, 29, 28, 27))
SLOT = TOUCH - 1
END, LOGGED = range(2)  # of the ends of nodes
