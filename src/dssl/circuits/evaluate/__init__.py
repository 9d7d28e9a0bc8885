"""From a circuit to numbers. In: a circuit and log weights of literals. Out: log WMC, means, labels, samples.

Start at `launch.py`.

    launch        a kernel run on tensors: tiles, threads, compiled once
    program       circuit → the stream of words that kernels run; lowering has its loops, words their meaning
    wmc           the kernels of log WMC and its gradient, and what all kernels share
    expectations  the kernels of entropy and covariance
    best          the kernel of the heaviest label
    heaviest      the kernel of the k heaviest labels
    samples       the kernel of exact samples
    vectors       the vector operations that kernels are made of; plain has the same on numpy arrays
    threads       threads that share the tiles of a call
    layered       the same answers in torch operations, on any device; layers has its index tensors
"""
