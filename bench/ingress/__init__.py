"""How many posts one gateway accepts, beside a bare ASGI handler that does one XADD (docs/performance.md)."""
