"""Rates of weights, on paper and measured."""
