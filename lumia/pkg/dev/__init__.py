"""The author's tools behind `pkg dev`: scaffold, sandbox with a chat, tests, packing, publishing (spec §13.2).

An author's plugin runs in processes of its own, never in this one.
"""
