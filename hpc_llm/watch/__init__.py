"""Reads run folders and explains them. Imports neither torch nor numba."""
