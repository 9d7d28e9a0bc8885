"""Circuits as files and pictures. In: a circuit, or a file of another tool. Out: the other of the two.

Start at `nnf.py`.

    nnf      c2d's and d4's text files, read and written
    sdd      files of the SDD package, read
    text     lines of such files, and the nodes they make
    packed   arrays and bytes out of .npz and .gz files, of bounded size
    drawing  pictures of small circuits
"""
