"""The JSON Schema of what `pp1wire validate --json` prints (`pp1wire validate --schema`)."""

from __future__ import annotations

from typing import Any, Final

from pp1wire.capture.connections import MAX_CONNECTIONS_TOLD
from pp1wire.capture.events import FindingCode
from pp1wire.capture.findings import CaptureCode, ExitStatus, Severity
from pp1wire.capture.packets import SkipCode
from pp1wire.capture.result import REPORT_VERSION
from pp1wire.capture.rounds import ENDS
from pp1wire.capture.rounds import STAGES as STAGES_OF_ROUNDS
from pp1wire.capture.sources import Kind
from pp1wire.capture.summary import STAGES
from pp1wire.protocol import Direction
from pp1wire.protocol.counters import DISCARD_REASONS
from pp1wire.wire import CommitKind, DraftOrigin, HelloRole, MessageType, RejectCode, Representation, ResetReason
from pp1wire.wire._schema_v2 import MAX_DEPTH

__all__ = ["finding_codes", "report_schema"]

_Schema = dict[str, Any]
_STATUSES: Final = [status.name.lower() for status in ExitStatus]
_SEVERITIES: Final = [str(severity) for severity in Severity]
_RESETS: Final = [reason.name.lower() for reason in ResetReason]
_MESSAGES: Final = [message.name.lower() for message in MessageType]
_OFFSET: Final = (
    "Bytes from the start of that direction (below 0 where a packet claims to come before it); of the file for findings about "
    "the file."
)
_LARGE: Final = "It may exceed 2^53, so read it as an integer of 64 bits."


def finding_codes() -> list[str]:
    """Every code that a finding may have, sorted."""
    rejects = [code.name.lower() for code in RejectCode]
    return sorted({*rejects, *(str(code) for kind in (CaptureCode, FindingCode, SkipCode) for code in kind)})


def report_schema() -> _Schema:
    """JSON Schema, draft 2020-12. Fields are never missing: what does not apply is null."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pp1wire:validate-report:{REPORT_VERSION}",
        "title": "Report of pp1wire validate",
        **_object(
            "What judging captures came to. The same files give the same bytes, whatever the number of jobs.",
            {
                "report_version": {"const": REPORT_VERSION, "description": "Of this schema."},
                "status": _enum(_STATUSES, "Invalid before unreadable before incomplete; it is the exit status, too."),
                "counts": _object("Findings by severity, also those not listed.", _counts(_SEVERITIES)),
                "findings": {
                    "type": "array", "items": _finding(),
                    "description": "File by file, in the order of the capture; at most --max-findings of each severity.",
                },
                "findings_left_out": _count("Findings that are counted but not listed."),
                "summary": _summary(),
                "files": {"type": "array", "items": _file(), "description": "In the order given."},
                "connections": {
                    "type": "array", "items": _connection(), "maxItems": MAX_CONNECTIONS_TOLD,
                    "description": "Those that speak PP1, by file and number; the first ones.",
                },
                "connections_left_out": _count("Connections that are counted but not listed."),
                "rounds": _or_null(_rounds()),
            },
        ),
    }  # fmt: skip


def _finding() -> _Schema:
    identity = _object(
        "Of the frame.",
        {
            "session": _count(f"The session's number. {_LARGE}"),
            "generation": _count("The session's generation."),
            "round": _count("The round within the generation; 0 in a RESET."),
        },
    )
    return _object(
        "One finding.",
        {
            "id": _text(
                "What to call it: file, connection, direction, offset and code, or file, packet and code, with colons between; "
                "the same whenever the same file is judged."
            ),
            "severity": _enum(_SEVERITIES, "What it says of the traffic."),
            "code": _enum(finding_codes(), "What was found; docs/captures.md and docs/reject-codes.md explain each."),
            "message": _text("One line for people."),
            "file": _text("Its name as it was given."),
            "packet": _or_null(
                _count("Its number in the file from 1, as Wireshark counts; null where no packet shows it.")
            ),
            "time_ns": _or_null(_integer(f"The packet's time in nanoseconds since 1970. {_LARGE}")),
            "connection": _or_null(_count("Its number in the file, from 1; null for what concerns none.")),
            "endpoints": _or_null(_text("Client → server.")),
            "direction": _or_null(_enum([str(d) for d in Direction], "Who sent it.")),
            "offset": _or_null(_integer(f"{_OFFSET} {_LARGE}")),
            "length": _or_null(_count("Bytes concerned, of a gap or cut.")),
            "path": _or_null(_text("The field that is wrong.")),
            "expected": _or_null(_text("What the rule requires of it.")),
            "actual": _or_null(_text("What was found.")),
            "scope": _or_null(_enum(["connection", "proposal", "stale"], "What it costs online.")),
            "message_type": _or_null(_enum(_MESSAGES, "Of the frame.")),
            "identity": _or_null(identity),
            "uncertain": _flag("It stands behind a gap, a conflict, or a beginning that is not there."),
        },
    )


def _file() -> _Schema:
    return _object(
        "One file.",
        {
            "name": _text("As it was given."),
            "kind": _or_null(_enum([str(kind) for kind in Kind], "Null where that is not known.")),
            "bytes": _count("Read of it, as it is stored."),
            "began_ns": _or_null(_integer(f"Time of its earliest packet, in nanoseconds since 1970. {_LARGE}")),
            "ended_ns": _or_null(_integer(f"Time of its latest packet. {_LARGE}")),
            "status": _enum(_STATUSES, "What a run on this file alone would end with."),
            "findings": _object("Its findings by severity.", _counts(_SEVERITIES)),
        },
    )


def _connection() -> _Schema:
    hellos = [role.name.lower() for role in HelloRole]
    return _object(
        "One connection that speaks PP1, or one raw stream.",
        {
            "file": _text("Its name as it was given."),
            "connection": _count("Its number in the file, from 1."),
            "endpoints": _or_null(_text("Client → server; null for raw streams.")),
            "began_ns": _or_null(_integer(f"Time of its first packet with bytes, in nanoseconds since 1970. {_LARGE}")),
            "ended_ns": _or_null(_integer(f"Time of its last one. {_LARGE}")),
            "hellos": {
                "type": "array", "items": {"enum": hellos}, "uniqueItems": True, "description": "HELLOs that passed.",
            },
            "agreement": _or_null(_agreement()),
            "whole": _flag("Both directions were judged together, to their ends."),
            "bytes": _object("Of its streams, by who sent them.", _counts([str(d) for d in Direction])),
            "rounds": _count("STEPs."),
            "proposals": _count("Completed whole."),
            "commits": _count("COMMITs of proposals."),
            "tokens": _count("Ids committed, also those of the target alone."),
            "missing_bytes": _count("Of gaps and cuts, as far as their lengths are known."),
            "uncertain": _flag("Some of it stands behind a gap, a conflict, or a beginning that is not there."),
            "findings": _object("Findings about it by severity.", _counts(_SEVERITIES)),
        },
    )  # fmt: skip


def _agreement() -> _Schema:
    names = [representation.name.lower() for representation in Representation]
    origins = [origin.name.lower() for origin in DraftOrigin]
    return _object(
        "What the two HELLOs agree on; null where one of them is not there.",
        {
            "id": _text("16 hexadecimal digits."),
            "representation": _enum(names, "Of rows."),
            "vocab_size": _count("Ids of the vocabulary."),
            "padded_vocab_size": _count("Entries of a dense row."),
            "max_slots": _count("Requests in flight."),
            "max_depth": _count("Drafted tokens of a proposal."),
            "max_support": _count("Ids with weight in a row."),
            "max_prefix": _count("Ids of a RESET."),
            "q_semantic": _text("What q means."),
            "verifier_semantic": _text("How it is verified."),
            "rng_abi": _text("How randomness is made."),
            "id_map_sha256": _text("Of the global id map."),
            "draft_checkpoint_sha256": _text("Of the drafting model."),
            "draft_revision": _text("Of the drafting model."),
            "draft_origin": _enum(origins, "Of the drafting model."),
            "target_sha256": _text("Of the target model."),
        },
    )


def _rounds() -> _Schema:
    array = {"type": "array", "items": _round()}
    return _object(
        "Single rounds; null unless --rounds asks for them. Behind a gap they are followed as far as single frames show.",
        {
            "count": _count("All rounds."),
            "committed": _count("With a COMMIT."),
            "discarded": _count("Void for what the worker sent."),
            "void": _count("That a RESET came before."),
            "open": _count("Neither, where the capture, or what it shows of the connection, ends."),
            "first": {**array, "description": "The first ones by their STEPs, as many as --rounds says."},
            "failed": {**array, "description": "Of the others the first that were discarded or void, as many again."},
        },
    )


def _round() -> _Schema:
    stage = _object(
        "Where and when a frame came.",
        {
            "packet": _or_null(_count("The one that carried its first byte; null for raw streams.")),
            "time_ns": _or_null(_integer(f"When its last byte came, in nanoseconds since 1970. {_LARGE}")),
            "offset": _integer(f"Bytes from the start of its direction to it. {_LARGE}"),
        },
    )
    told = {
        "step": "The STEP.", "first_row": "The first REPLY that passed.", "completion": "The COMPLETION.",
        "end": "What ended it: the COMMIT, a frame that is wrong, a COMPLETION that is not ok, or a RESET.",
    }  # fmt: skip
    stages = {name: _or_null({**stage, "description": told[name]}) for name in STAGES_OF_ROUNDS}
    return _object(
        "One round.",
        {
            "file": _text("Its name as it was given."),
            "connection": _count("Its number in the file, from 1."),
            "slot": _count("The session's slot."),
            "session": _count(f"The session's number. {_LARGE}"),
            "generation": _count("The session's generation."),
            "round": _count("The round within the generation."),
            "depth": _count("Drafted tokens that were asked for."),
            "kind": _enum([*ENDS, "open"], "What became of it."),
            "reason": _or_null(
                _enum(sorted({*DISCARD_REASONS, *_RESETS}), "Why it was discarded, or of the RESET; null for others.")
            ),
            "accepted": _or_null(_count("Drafted tokens committed; null without a COMMIT.")),
            "commit": _or_null(_enum([kind.name.lower() for kind in CommitKind], "Kind of the COMMIT.")),
            "stages": _object("Its frames; null for what did not come.", stages),
        },
    )


def _summary() -> _Schema:
    codes = [code.name.lower() for code in RejectCode]
    return _object(
        "Totals over all files.",
        {
            "files": _count("Files."),
            "packets": _count("Packets of captures."),
            "connections": _count("Connections that speak PP1; raw streams count as one each."),
            "skipped_connections": _count("Connections of another protocol, or without bytes."),
            "skipped_packets": _some([str(code) for code in SkipCode], "Packets that cannot be read, by reason."),
            "frames": _object("By message, also those that were rejected.", _counts(_MESSAGES)),
            "unjudged_frames": _count("Of which only header and checksums, or only the header, could be judged."),
            "unjudged_bytes": _count(
                "From a fault on that ended a direction, or that no verified header accounts for."
            ),
            "rounds": _count("STEPs."),
            "proposals": _count("Completed whole."),
            "discards": _some(sorted(DISCARD_REASONS), "Rounds that are void, by reason."),
            "unanswered": _count("Rounds that a RESET or the end came before, where both directions were seen."),
            "stale": _some(codes, "Messages dropped as late, by code."),
            "faults": _some(codes, "Rejects of connection scope, by code."),
            "commits": _count("COMMITs of proposals."),
            "target_only": _count("COMMITs of a token of the target alone."),
            "tokens": _count("Ids committed by both."),
            "committed": _places("Drafted tokens committed, by place in the proposal."),
            "offered": _places("Drafted tokens of the proposals that COMMITs decided on, by place."),
            "reached": _places(
                "Those of them before which all were committed: committed / reached is the conditional acceptance."
            ),
            "rows": _count("REPLYs that passed."),
            "holes": _some([str(code) for code in FindingCode], "What the capture lacks or contradicts, by code."),
            "missing_bytes": _count("Of gaps and cuts, as far as their lengths are known."),
            "uncertain_frames": _count("Frames behind a gap, a conflict, or a beginning that is not there."),
            "uncertain_rounds": _count("STEPs among these frames; behind a gap their rounds are not counted as such."),
            "uncertain_findings": _count("Findings of which the same is true."),
            "span_ns": _count(f"Nanoseconds from the first packet of each file to its last, together. {_LARGE}"),
            "bytes": _object("Of streams, by who sent them.", _counts([str(d) for d in Direction])),
            "latencies": _object(
                "Lengths of the stages of rounds, by the capture's clock.", {stage: _times(stage) for stage in STAGES}
            ),
        },
    )


def _times(stage: str) -> _Schema:
    what = stage.replace("_", " ")
    bucket = _object(
        "Rounds that took about as long.",
        {"up_to_ns": _count("Nanoseconds: the longest that counts here."), "count": _count("How many.")},
    )
    quantiles = {
        f"p{share}_ns": _or_null(_count(f"Nanoseconds that {share} % did not exceed; at most 1 % too long."))
        for share in (50, 90, 99)
    }
    return _object(
        f"{what[0].upper()}{what[1:]}.",
        {
            "count": _count("Rounds that were measured."),
            "least_ns": _or_null(_count("The shortest.")),
            "mean_ns": _or_null(_count("Rounded down.")),
            **quantiles,
            "most_ns": _or_null(_count("The longest.")),
            "buckets": {
                "type": "array",
                "items": bucket,
                "description": "The distribution, rising; bounds are fixed, eight to each power of two, so buckets of several "
                "reports can be added up. Empty ones are left out.",
            },
        },
    )


def _object(description: str, properties: dict[str, _Schema]) -> _Schema:
    return {
        "type": "object", "description": description, "properties": properties, "required": list(properties),
        "additionalProperties": False,
    }  # fmt: skip


def _some(names: list[str], description: str) -> _Schema:
    """Counts by name, of which only those that occur are there."""
    return {
        "type": "object", "description": f"{description} Only those that occur.", "propertyNames": {"enum": names},
        "additionalProperties": {"type": "integer", "minimum": 1},
    }  # fmt: skip


def _counts(names: list[str]) -> dict[str, _Schema]:
    return {name: _count(f"Those of {name.upper() if name in _MESSAGES else name}.") for name in names}


def _places(description: str) -> _Schema:
    return {
        "type": "array", "description": description, "items": {"type": "integer", "minimum": 0},
        "minItems": MAX_DEPTH, "maxItems": MAX_DEPTH,
    }  # fmt: skip


def _integer(description: str) -> _Schema:
    return {"type": "integer", "description": description}


def _count(description: str) -> _Schema:
    return {"type": "integer", "minimum": 0, "description": description}


def _flag(description: str) -> _Schema:
    return {"type": "boolean", "description": description}


def _text(description: str) -> _Schema:
    return {"type": "string", "description": description}


def _enum(values: list[str], description: str) -> _Schema:
    return {"enum": values, "description": description}


def _or_null(schema: _Schema) -> _Schema:
    description = schema["description"]
    return {
        "anyOf": [{k: v for k, v in schema.items() if k != "description"}, {"type": "null"}],
        "description": description,
    }
