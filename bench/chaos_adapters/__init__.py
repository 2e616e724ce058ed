"""Every adapter under faults on the wire: cut at each byte, killed around the commit, told twice (docs/chaos.md)."""
