"""Vega-Lite charts through Altair; each function returns a figure, or None where there is nothing to draw."""
