/* sieve.h - which bodies are worth a compressor's time.
 *
 * Most of what compressing costs goes into bodies, and many of them do not pay: pictures and archives not at all, ids
 * and numbers without a pattern little. A body of each kind is tried now and then, against the one tried before it,
 * since what bodies of a kind have in common counts as well; the rest of the kind goes by the verdict. Thread: one. */
#pragma once

#include "mem.h"

struct mg_sieve;

/** level as of zstd. */
struct mg_sieve *mg_sieve_new(int level);
void mg_sieve_free(struct mg_sieve **sieve);

/** Whether a body that begins with bytes is better kept as it is. kind: any number that bodies alike have in common. */
bool mg_sieve_keeps_apart(struct mg_sieve *sieve, uint64_t kind, struct mg_str bytes);
