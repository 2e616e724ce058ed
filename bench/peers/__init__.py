"""The contenders' own programs. Each but lumia_app runs in a virtual environment that has that peer and no Lumia."""
