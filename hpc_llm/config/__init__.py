"""Typed configuration and every check that needs no cluster."""
