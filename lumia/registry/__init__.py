"""A private registry: the answers of spec §13.1 from a folder of git repositories (docs/registry.md)."""
