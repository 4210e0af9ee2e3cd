"""What runs inside a sandbox: sent there as source when it starts, so nothing here imports more than Python itself."""
