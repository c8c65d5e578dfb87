/* micro_record.h - what recording one exchange takes, from its heads to the bytes of a segment: redacting, staging,
 * packing, framing. Thread: one. */
#pragma once

#include "mem.h"

struct bench_record;

/** Exchanges of the get workload, at one level (enum mg_level) in both directions; vary: ids, tokens and bodies of 512
 * kinds differ from one to the next. */
struct bench_record *bench_record_new(unsigned level, bool vary);
void bench_record_free(struct bench_record **record);
/** Records one, and places what has become full. */
void bench_record_one(struct bench_record *record);
/** Bytes of a segment per exchange so far. */
double bench_record_bytes(const struct bench_record *record);
