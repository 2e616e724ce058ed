"""The chaos campaign: seeded faults under load, and every message accounted for (docs/chaos.md).

plan: which fault comes when. crew, broker: the processes and what is done to them. site: Lumia under test; peer: plain
Celery beside it. load: the messages. faults: what each fault does. trace: what the handlers noted. verdict: what it
all came to. report: the table.
"""
