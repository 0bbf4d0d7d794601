"""The version of the package, as sent with claims."""

__version__ = "0.1.0"
