"""The rules of a received row that are checked on the device, as bits of its verdict."""

from __future__ import annotations

import enum

__all__ = ["Rule"]


class Rule(enum.IntFlag):
    """A row's verdict is the union of the rules it breaks; zero is a good row."""

    VALUE = 1
    """q is not a multiple of 2^-24 from 0 to 1, or is a minus zero"""
    ORDER = 2
    """used entries without mass or whose ids do not rise strictly, unused ones that are not zero, a wrong entry count"""
    BOUNDS = 4
    """an id outside the vocabulary, or mass in the padding of a dense row"""
    MASS = 8
    """counts that do not sum to 2^24"""
    TOKEN = 16
    """a token outside the vocabulary or without mass"""
    TICKET = 32
    """a token that its ticket does not draw from this row"""
