"""`lumia up`: the servers and processes of one bot on one machine, supervised (DESIGN §8).

One supervisor process holds the lock of a bot root, starts what is not given by URL, waits until each part answers,
restarts what dies and drains everything in order at the end. Nothing here imports celery or redis: the first line of
`lumia up` is printed before those would have loaded.
"""
