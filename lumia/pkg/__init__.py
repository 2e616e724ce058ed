"""`pkg`: plugins are found, fetched, checked, installed, upgraded, rolled back and published (spec §7, §13, §14).

The mechanism is here, its commands are in `lumia.cli.pkg`. Nothing here imports a plugin's code into this process.
"""
