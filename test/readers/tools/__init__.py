"""The five tools, each with the same questions, answered by its own means.

types(folder)                  columns in their order, each with its type in the words of contract.py
table(folder)                  all rows
by_file(folder, files, told)   {path: (rows, first moment, last moment, symbols)}, computed by the tool
repeated(folder, key)          how many keys stand there more than once
one_day(folder, day)           rows of the day by a condition on `date`, and how many files the tool says that it reads,
                               None where it does not say
"""
