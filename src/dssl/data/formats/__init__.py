"""Formats that no library reads as carefully as we must. In: a file. Out: its arrays. Start at `arff.py`.

arff         ARFF, the table format of Weka, with hierarchies of classes
matlab       numeric arrays of Matlab files of version 5
"""
