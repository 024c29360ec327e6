"""What two HELLOs settle, and [downgrade] that nothing in them can be changed without changing the agreement."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import Agreed, ConnectionState, Ended, Refused, Verifier, Worker, agree, answer_to
from pp1wire.protocol.negotiation import check_own, possible_agreements, representation_bit
from pp1wire.wire import (
    DraftOrigin,
    HelloRole,
    HelloStatus,
    RefusalReason,
    RejectCode,
    RemoteProtocolError,
    Representation,
    encode,
)
from tests.protocol.util import PADDED, VOCAB, answer, offer, sha

C, R = RejectCode, RefusalReason
SPARSE, DENSE = Representation.SPARSE, Representation.DENSE

IDENTITIES = [
    # field, another value, code, refusal
    ("q_semantic", "dyadic24-standard-v2", C.Q_SEMANTIC_MISMATCH, R.Q_SEMANTIC),
    ("verifier_semantic", "typical-v1", C.VERIFIER_SEMANTIC_MISMATCH, R.VERIFIER_SEMANTIC),
    ("rng_abi", "philox4x32-10/pp1-v2", C.RNG_ABI_MISMATCH, R.RNG_ABI),
    ("precision", 2, C.PRECISION_MISMATCH, R.PRECISION),
    ("vocab_size", VOCAB - 1, C.VOCAB_SIZE_MISMATCH, R.VOCABULARY),
    ("padded_vocab_size", PADDED - 1, C.PADDED_VOCAB_SIZE_MISMATCH, R.VOCABULARY),
    ("id_map_sha256", sha(99), C.ID_MAP_MISMATCH, R.ID_MAP),
    ("draft_checkpoint_sha256", sha(99), C.DRAFT_CHECKPOINT_MISMATCH, R.DRAFT),
    ("draft_revision", "r2", C.DRAFT_REVISION_MISMATCH, R.DRAFT),
    ("draft_origin", DraftOrigin.ADAPTED, C.DRAFT_ORIGIN_MISMATCH, R.DRAFT),
    ("target_sha256", sha(99), C.TARGET_MISMATCH, R.TARGET),
    ("features", 1, C.UNKNOWN_FEATURES, R.FEATURES),
]
BOUND = {"q_semantic", "verifier_semantic", "rng_abi", "precision", "features"}


def sparse_answer(**changes):
    return answer(**({"representations": (SPARSE,)} | changes))


def code_of(*hellos):
    with pytest.raises(RemoteProtocolError) as error:
        agree(*hellos)
    assert error.value.scope == "connection"
    return error.value.code


def test_capacities_become_the_minimum_and_the_answer_names_the_representation():
    a = agree(
        offer(max_slots=4, max_depth=3, max_support=8, max_prefix=100),
        sparse_answer(max_slots=2, max_depth=5, max_support=16, max_prefix=50),
    )
    assert (a.max_slots, a.max_depth, a.max_support, a.max_prefix) == (2, 3, 8, 50)
    assert (a.representation, a.vocab_size, a.padded_vocab_size) == (SPARSE, VOCAB, PADDED)
    assert agree(offer(), answer(representations=(DENSE,))).representation is DENSE


@pytest.mark.parametrize(("field", "value", "code", "refusal"), IDENTITIES)
def test_each_identity_must_be_equal(field, value, code, refusal):
    assert code_of(offer(), replace(sparse_answer(), **{field: value})) is code
    other = replace(offer(), **{field: value})
    assert code_of(other, sparse_answer()) is code
    # The worker that sees the difference first refuses with the reason, and closes.
    worker = Worker(answer())
    assert worker.receive(encode(other, None, 0)) == [Refused(refusal)]
    assert worker.state is ConnectionState.ENDED
    verifier = Verifier(offer())
    verifier.start(0.0)
    with pytest.raises(RemoteProtocolError) as error:
        verifier.receive(worker.data_to_send(), 0.0)
    assert error.value.code is C.HELLO_REFUSED
    assert refusal.name.lower() in str(error.value)
    assert verifier.state is ConnectionState.FAILED


@pytest.mark.parametrize("field", sorted(BOUND))
def test_agreeing_on_what_this_version_does_not_have_is_refused_too(field):
    value = next(v for name, v, _, _ in IDENTITIES if name == field)
    code = next(c for name, _, c, _ in IDENTITIES if name == field)
    assert code_of(replace(offer(), **{field: value}), replace(sparse_answer(), **{field: value})) is code
    with pytest.raises(LocalProtocolError, match=field):
        Verifier(replace(offer(), **{field: value}))
    with pytest.raises(LocalProtocolError, match=field):
        Worker(replace(answer(), **{field: value}))


def test_the_first_mismatch_is_told_in_a_fixed_order():
    broken = sparse_answer()
    for field, value, code, _ in reversed(IDENTITIES):
        broken = replace(broken, **{field: value})
        if field != "padded_vocab_size":
            assert code_of(offer(), broken) is code
    assert code_of(offer(), replace(broken, status=HelloStatus.REFUSED, refusal=R.DRAINING)) is C.HELLO_REFUSED
    assert code_of(offer(), replace(broken, nonce=offer().nonce)) is C.NONCE_NOT_FRESH
    assert code_of(answer(), broken) is C.WRONG_ROLE
    assert code_of(offer(), replace(offer(), nonce=bytes([9] * 16))) is C.WRONG_ROLE
    assert code_of(offer(), replace(broken, nonce=bytes(16))) is C.NONCE_NOT_FRESH


def test_the_answer_names_exactly_one_offered_representation():
    both = answer()
    assert code_of(offer(), both) is C.REPRESENTATION_NOT_OFFERED
    dense_only = offer(representations=(DENSE,))
    assert code_of(dense_only, sparse_answer()) is C.REPRESENTATION_NOT_OFFERED


@pytest.mark.parametrize("representation", Representation)
def test_replies_must_fit_both_sides(representation):
    field = f"{representation.name.lower()}_reply_bytes"
    own = answer(representations=(representation,))
    exact = getattr(own, field)
    assert agree(offer(), own).reply_frame_bytes == exact
    assert code_of(offer(), replace(own, **{field: exact - 1})) is C.REPLY_DOES_NOT_FIT
    small = replace(offer(), **{field: exact - 1})
    assert code_of(small, own) is C.REPLY_DOES_NOT_FIT
    refused = answer_to(small, own, prefer=representation)
    assert (refused.status, refused.refusal) == (HelloStatus.REFUSED, R.CAPACITY)


def test_a_smaller_support_makes_replies_that_fit():
    own = sparse_answer(max_support=4)
    assert agree(offer(), own).reply_frame_bytes == own.sparse_reply_bytes < offer().sparse_reply_bytes


def test_answers_prefer_what_they_are_told_and_take_what_there_is():
    assert answer_to(offer(), answer()).representations == representation_bit(SPARSE)
    assert answer_to(offer(), answer(), prefer=DENSE).representations == representation_bit(DENSE)
    assert answer_to(offer(representations=(DENSE,)), answer()).representations == representation_bit(DENSE)
    refused = answer_to(offer(representations=(DENSE,)), sparse_answer())
    assert refused.refusal is R.REPRESENTATION


def test_preflight_of_real_buffers_can_refuse():
    seen = []

    def fits(agreement):
        seen.append(agreement.payload_bytes)
        return False

    assert answer_to(offer(), answer(), fits=fits).refusal is R.CAPACITY
    assert seen == [8 * 8]
    assert answer_to(offer(), answer(), fits=lambda _: True).status is HelloStatus.ACCEPTED


def test_a_draining_worker_refuses_everything():
    worker = Worker(answer(), draining=True)
    assert worker.receive(encode(offer(), None, 0)) == [Refused(R.DRAINING)]


def test_own_hellos_must_be_accepting_and_of_their_role():
    refused = replace(answer(), status=HelloStatus.REFUSED, refusal=R.DRAINING)
    for make in (
        lambda: Verifier(answer()),
        lambda: Worker(offer()),
        lambda: Worker(refused),
        lambda: check_own(refused, HelloRole.ANSWER),
        lambda: answer_to(offer(), replace(answer(), nonce=offer().nonce)),
    ):
        with pytest.raises(LocalProtocolError):
            make()


def test_an_offer_with_this_ends_own_nonce_is_an_echo():
    worker = Worker(answer())
    with pytest.raises(RemoteProtocolError) as error:
        worker.receive(encode(replace(offer(), nonce=answer().nonce), None, 0))
    assert error.value.code is C.NONCE_NOT_FRESH


def changed(hello, field):
    """`hello` with another legal value of one field."""
    value = getattr(hello, field)
    if isinstance(value, bytes):
        return replace(hello, **{field: bytes([value[0] ^ 64]) + value[1:]})
    if isinstance(value, str):
        return replace(hello, **{field: value + "x"})
    if field == "status":
        return replace(hello, status=HelloStatus.REFUSED, refusal=R.DRAINING)
    if field == "refusal":
        return replace(hello, status=HelloStatus.REFUSED, refusal=R.TARGET)
    if field == "role":
        return replace(hello, role=HelloRole.ANSWER if value is HelloRole.OFFER else HelloRole.OFFER)
    if field == "draft_origin":
        return replace(hello, draft_origin=DraftOrigin.ADAPTED)
    return replace(hello, **{field: value - 1 if field.startswith("max_") or value > 1 else value + 1})


@pytest.mark.parametrize("which", ["offer", "answer"])
@pytest.mark.parametrize("field", [f.name for f in fields(type(offer()))])
def test_downgrade_every_field_of_either_hello_changes_the_agreement(which, field):
    """A field changed on the way: the ends refuse, or they hold different agreements and understand nothing of each other."""
    first, second = offer(), sparse_answer()
    honest = agree(first, second).id
    if which == "offer":
        first = changed(first, field)
    else:
        second = changed(second, field)
    try:
        forged = agree(first, second).id
    except RemoteProtocolError:
        return
    assert forged != honest


def test_downgrade_the_ends_of_a_changed_offer_do_not_understand_each_other():
    verifier, worker = Verifier(offer()), Worker(answer())
    verifier.start(0.0)
    verifier.data_to_send()
    worker.receive(encode(replace(offer(), max_depth=3), None, 0))
    [event] = verifier.receive(worker.data_to_send(), 0.0)
    assert event.agreement.max_depth != worker.agreement.max_depth
    verifier.open([1], 2)
    with pytest.raises(RemoteProtocolError) as error:
        worker.receive(verifier.data_to_send())
    assert error.value.code is C.AGREEMENT_MISMATCH


@pytest.mark.parametrize("version", [0, 1, 3, 65535])
@pytest.mark.parametrize("end", ["verifier", "worker"])
def test_downgrade_other_versions_are_refused_at_the_version_field(version, end):
    data = b"PP1W" + version.to_bytes(2, "little")
    if end == "verifier":
        verifier = Verifier(offer())
        verifier.start(0.0)
        verifier.data_to_send()
        receive, queued = (lambda d: verifier.receive(d, 0.0)), verifier
    else:
        queued = Worker(answer())
        receive = queued.receive
    with pytest.raises(RemoteProtocolError) as error:
        receive(data)
    assert (error.value.code, error.value.offset) == (C.UNSUPPORTED_VERSION, 4)
    assert not queued.has_data_to_send


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"P\0"])
def test_other_protocols_are_closed_without_an_answer(data):
    worker = Worker(answer())
    with pytest.raises(RemoteProtocolError) as error:
        worker.receive(data)
    assert error.value.code is C.BAD_MAGIC
    assert not worker.has_data_to_send


def test_nothing_is_allocated_before_the_agreement():
    verifier = Verifier(offer())
    verifier.start(0.0)
    assert verifier._pool is None
    assert verifier.agreement is None
    assert [a.representation for a in possible_agreements(offer())] == [DENSE, SPARSE]


def test_bytes_behind_an_offer_come_too_early():
    worker = Worker(answer())
    data = encode(offer(), None, 0)
    with pytest.raises(RemoteProtocolError) as error:
        worker.receive(data + b"P")
    assert (error.value.code, error.value.offset) == (C.DATA_BEFORE_AGREEMENT, len(data))
    assert not worker.has_data_to_send


def test_the_ends_take_turns_in_greeting():
    verifier = Verifier(offer(), hello_timeout=2.0)
    with pytest.raises(LocalProtocolError):
        verifier.receive(b"", 0.0)
    verifier.start(1.0)
    with pytest.raises(LocalProtocolError):
        verifier.start(1.0)
    assert verifier.next_deadline() == 3.0
    assert verifier.check_deadlines(2.9) == []
    worker = Worker(answer())
    [event] = worker.receive(verifier.data_to_send())
    assert isinstance(event, Agreed)
    half = worker.data_to_send()
    assert verifier.receive(half[:100], 2.0) == []
    [event] = verifier.receive(half[100:], 2.5)
    assert event.agreement == worker.agreement
    assert verifier.next_deadline() is None


@pytest.mark.parametrize("way", ["timer", "data"])
def test_a_late_answer_to_the_offer_ends_the_connection(way):
    verifier, worker = Verifier(offer(), hello_timeout=2.0), Worker(answer())
    verifier.start(1.0)
    worker.receive(verifier.data_to_send())
    events = verifier.check_deadlines(3.0) if way == "timer" else verifier.receive(worker.data_to_send(), 3.0)
    assert events == [Ended("hello_deadline")]
    assert verifier.state is ConnectionState.ENDED
    assert verifier.next_deadline() is None
    with pytest.raises(LocalProtocolError):
        verifier.receive(b"x", 3.0)


def test_an_answer_to_nothing_and_an_offer_to_the_verifier_have_the_wrong_role():
    worker = Worker(answer())
    with pytest.raises(RemoteProtocolError) as error:
        worker.receive(encode(replace(sparse_answer(), nonce=bytes([7] * 16)), None, 0))
    assert error.value.code is C.WRONG_ROLE
    verifier = Verifier(offer(), hello_timeout=None)
    verifier.start(0.0)
    assert verifier.next_deadline() is None
    with pytest.raises(RemoteProtocolError) as error:
        verifier.receive(encode(replace(offer(), nonce=bytes([7] * 16)), None, 0), 0.0)
    assert error.value.code is C.WRONG_ROLE
