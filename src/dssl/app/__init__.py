"""What people see. In: files, models and commands. Out: text, pages and exit codes.

May use every room; nothing else may use it.
"""
