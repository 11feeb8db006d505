"""`pydp verify`: prove on one device that pydp is right, safe and fast there, and write a file that says everything.

A stage is a list of checks; a check is a function that returns its figures as a dict, or raises. Checks run in a
process of their own under a watchdog, and the report file is written after each check. See :mod:`pydp.verify.run`.
"""
