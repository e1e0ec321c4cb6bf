"""Entry point of old-style installs; everything is declared in pyproject.toml."""

from setuptools import setup

setup()
