"""Whole conversations: everything in them is legal, up to and with the last frame."""

from __future__ import annotations

from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import Conversation, Session

FILE = "conversations"


def add(vectors: Collection) -> None:
    """A request with every kind of round, one after a fault, and two requests in turn."""
    for representation in ("sparse", "dense"):
        talk = _rounds(vectors.talk("every kind of round", representation))
        vectors.valid(FILE, f"{representation}-request", talk, talk.reset("close"), "A whole request, closed.")
    talk = vectors.talk("fault and cancellation").opened().asked().drafted(1)
    talk.send(talk.completion("cancelled"))
    talk.send(talk.reset("fault")).asked()
    talk.send(talk.reset("cancel", (1, 2, 3, 4)))
    vectors.valid(FILE, "resumed", talk, talk.step(1), "A fault, then a cancellation with another prefix.")
    late = vectors.talk("an answer crosses a cancellation").opened().asked()
    row = late.reply()
    late.send(late.reset("cancel"))
    late.send(row, code="stale_generation")
    vectors.valid(FILE, "late-answer", late, late.step(), "A late answer is dropped, and nothing else happens.")
    two = vectors.talk("two requests in turn").opened().asked()
    first = two.session
    two.session = Session(number=2, slot=1)
    two.opened().asked(1).drafted(1)
    second = two.session
    two.session = first
    two.drafted(2)
    two.session = second
    two.completed()
    two.session = first
    vectors.valid(FILE, "interleaved", two, two.completion(), "The rows of two requests cross each other.")


def _rounds(talk: Conversation) -> Conversation:
    talk.opened().asked().drafted().completed()
    talk.send(talk.commit(1, "correction", 5)).asked(3).drafted(3).completed()
    talk.send(talk.commit(3, "bonus", 0)).send(talk.commit(0, "target_only", 8)).asked(1).drafted(1).completed()
    return talk.send(talk.commit(1, "none"))
