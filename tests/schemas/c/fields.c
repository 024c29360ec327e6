/* Reads a frame as hex from standard input and prints its fields, one a line, through the structs of pp1_v2.h.
 *
 * fields ID_ENTRIES: the agreed entries of a REPLY's ids column, 0 for dense rows. Exit status 1 if a frame is shorter than its
 * struct. With `codes` instead of a number it prints every reject code with its scope and stage. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pp1_v2.h"

static const char *const scopes[] = {"connection", "proposal", "stale"};
static const char *const stages[] = {"magic",     "version",   "header_checksum", "size",    "identity",
                                     "body_checksum", "structure", "canonical",       "meaning", "ticket"};

static void bytes(const char *name, const uint8_t *data, size_t length) {
    printf("%s ", name);
    for (size_t i = 0; i < length; ++i) printf("%02x", data[i]);
    putchar('\n');
}

static void header(const struct pp1_header *h) {
    printf("session %" PRIu64 "\nslot %u\ngeneration %" PRIu32 "\nround %" PRIu32 "\n", h->session, h->slot, h->generation,
           h->round);
}

static void step(const struct pp1_step *s) {
    header(&s->header);
    printf("position %" PRIu32 "\ndepth %u\nsupport_policy %u\ntemperature %.17g\nproposal_seed %" PRIu64 "\n", s->position,
           s->depth, s->support_policy, s->temperature, s->proposal_seed);
    bytes("prefix_digest", s->prefix_digest, sizeof s->prefix_digest);
    printf("support %" PRIu32 "\ncontext_version %" PRIu32 "\n", s->support, s->context_version);
}

static void reply(const struct pp1_reply *r, const uint8_t *frame, uint32_t id_entries) {
    header(&r->header);
    printf("position %" PRIu32 "\ntoken %" PRId32 "\nids", r->position, r->token);
    for (uint32_t i = 0; i < r->entry_count && i < id_entries; ++i) {
        int32_t id;
        memcpy(&id, frame + PP1_REPLY_IDS_OFFSET + 4 * i, sizeof id);
        printf(" %" PRId32, id);
    }
    printf("\nq");
    for (uint32_t i = 0; i < r->entry_count; ++i) {
        float q;
        memcpy(&q, frame + PP1_REPLY_Q_OFFSET(id_entries) + 4 * i, sizeof q);
        printf(" %.9g", (double)q);
    }
    putchar('\n');
}

static void commit(const struct pp1_commit *c) {
    header(&c->header);
    printf("position %" PRIu32 "\nnew_position %" PRIu32 "\naccepted %u\nkind %u\ntokens", c->position, c->new_position,
           c->accepted, c->kind);
    for (unsigned i = 0; i < c->token_count && i < 6; ++i) printf(" %" PRId32, c->tokens[i]);
    putchar('\n');
    bytes("prefix_digest", c->prefix_digest, sizeof c->prefix_digest);
    bytes("new_digest", c->new_digest, sizeof c->new_digest);
}

static int codes(void) {
#define LINE(code, name, scope, stage) printf("%d " #name " %s %s\n", code, scopes[scope], stages[stage]);
    PP1_REJECT_CODES(LINE)
    return 0;
}

int main(int count, char **arguments) {
    static uint8_t frame[4096];
    size_t length = 0;
    unsigned byte;
    uint32_t id_entries;
    struct pp1_header head;
    if (count != 2) return 64;
    if (strcmp(arguments[1], "codes") == 0) return codes();
    id_entries = (uint32_t)strtoul(arguments[1], NULL, 10);
    while (length < sizeof frame && scanf("%2x", &byte) == 1) frame[length++] = (uint8_t)byte;
    if (length < PP1_HEADER_BYTES || memcmp(frame + PP1_HEADER_MAGIC_OFFSET, PP1_MAGIC, PP1_HEADER_MAGIC_BYTES)) return 1;
    memcpy(&head, frame, sizeof head);
    if (head.wire_version != PP1_WIRE_VERSION || length != PP1_HEADER_BYTES + head.body_length) return 1;
    switch (head.message_type) {
        case PP1_MESSAGE_TYPE_STEP: {
            struct pp1_step s;
            if (length != PP1_STEP_FRAME_BYTES) return 1;
            memcpy(&s, frame, sizeof s);
            step(&s);
            return 0;
        }
        case PP1_MESSAGE_TYPE_REPLY: {
            struct pp1_reply r;
            if (length < sizeof r) return 1;
            memcpy(&r, frame, sizeof r);
            if (length < PP1_REPLY_FRAME_BYTES(id_entries, r.entry_count)) return 1;
            reply(&r, frame, id_entries);
            return 0;
        }
        case PP1_MESSAGE_TYPE_COMMIT: {
            struct pp1_commit c;
            if (length != PP1_COMMIT_FRAME_BYTES) return 1;
            memcpy(&c, frame, sizeof c);
            commit(&c);
            return 0;
        }
        default:
            return 1;
    }
}
