"""Conversion of a trained checkpoint to the formats that others load."""
