"""The five tools behind one interface.

types(folder)                  columns in order, each with its type as named in contract.py
table(folder)                  all rows
by_file(folder, files, schema) {path: (rows, first time, last time, symbols)}, computed by the tool
repeated(folder, key)          number of duplicate keys
one_day(folder, day)           rows of the day by a condition on `date`, and the number of files that the tool read,
                               None if it does not report it
"""
