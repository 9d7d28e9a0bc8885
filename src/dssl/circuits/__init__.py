"""Exact answers about valid labels. In: a LabelSpace and literal weights. Out: a Circuit and what it can be asked.

May use the logic room; knows nothing of networks, priors or training. Start at `circuit.py`.

    compile/      constraints → circuit, by search; and circuits built directly
    evaluate/     circuit → numbers, in compiled kernels or layers of torch operations
    beyond/       who answers where rules do not compile
    formats/      circuits as files and pictures
    circuit       the arrays; nodes has their kinds and the loops over them that several modules need
    queries       what a circuit can be asked, on batches of tensors; counting has the number of labels
    projection    the same over some variables only
    proof         that a circuit is sound, before it is asked anything; scopes has its loops
    verification  the same without a limit, with a counter-example
    branches      circuits with a probability at every branch; weighted answers for those
    relaxation    one small circuit per rule, where one for all is out of reach
    jit           how all compiled code is compiled and kept
"""
