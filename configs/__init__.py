"""YAML recipes, one a file, each runnable: `rlvr train NAME`."""
