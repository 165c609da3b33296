"""Families of networks to align."""
