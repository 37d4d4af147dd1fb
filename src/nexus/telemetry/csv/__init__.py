"""CSV files of GPU readings, long or wide, plain or gzip: from their bytes to source readings.

`files` finds them, `text` gives their bytes, `head` decides the form, `reader` reads the rows.
"""
