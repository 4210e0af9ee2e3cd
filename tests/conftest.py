import os

# As the command line does: threads that spin while they wait make a test many times as slow on a busy machine.
# Read when torch loads, so it stands before any import of it.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
