"""Vega-Lite charts; each function returns a figure, or None where there is nothing to draw."""
