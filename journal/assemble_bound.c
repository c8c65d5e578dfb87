/* assemble_bound.c - what keeps the exchanges under way from becoming too many: age, number, memory, and the end of the
 * process that began them.
 * Owns: the order of the open exchanges, and those that were given up.   May call: assemble.   Never: let go of an
 * exchange that done has not taken.   Thread: the assembler's. */
#include "assemble_private.h"

void mg_exchange_list_add(struct mg_exchange_list *list, struct mg_found_exchange *exchange)
{
  exchange->older = list->newest;
  exchange->newer = NULL;
  if (list->newest)
    list->newest->newer = exchange;
  else
    list->oldest = exchange;
  list->newest = exchange;
}

void mg_exchange_list_remove(struct mg_exchange_list *list, struct mg_found_exchange *exchange)
{
  if (exchange->older)
    exchange->older->newer = exchange->newer;
  else
    list->oldest = exchange->newer;
  if (exchange->newer)
    exchange->newer->older = exchange->older;
  else
    list->newest = exchange->older;
}

void mg_assembler_bound(struct mg_assembler *assembler, const struct mg_assembler_bounds *bounds)
{
  assembler->bounded = true;
  assembler->bounds = *bounds;
}

void mg_assembler_resume(struct mg_assembler *assembler, unsigned shard)
{
  if (shard < MG_ASSEMBLER_SHARDS) assembler->lanes[shard].resumed = true;
}

/* Remembers an exchange that was given out, so that what comes of it later is known to belong to it. */
static void remember(struct mg_assembler *assembler, struct mg_found_exchange *exchange)
{
  mg_exchange_list_remove(&assembler->lanes[exchange->shard].open, exchange);
  assembler->open_count--;
  mg_exchange_empty(assembler, exchange);
  struct mg_found_exchange kept = {.shard = exchange->shard,
                                   .epoch = exchange->epoch,
                                   .number = exchange->number,
                                   .start_us = exchange->start_us,
                                   .given_up = true,
                                   .arena = exchange->arena,
                                   .next = exchange->next};
  memcpy(kept.id, exchange->id, sizeof kept.id);
  *exchange = kept;
  mg_exchange_list_add(&assembler->given_up, exchange);
  assembler->given_up_count++;
  if (assembler->given_up_count > MG_GIVEN_UP_MAX) mg_assembler_drop(assembler, assembler->given_up.oldest);
}

/* False when done has stopped. What has no START has no id by which it could be known again. */
static bool give_up(struct mg_assembler *assembler, struct mg_found_exchange *exchange, enum mg_incomplete why)
{
  if (exchange->started && !mg_assembler_give(assembler, exchange, why)) return false;
  if (exchange->started && why != MG_NO_END)
    remember(assembler, exchange);
  else
    mg_assembler_drop(assembler, exchange);
  return true;
}

static struct mg_found_exchange *oldest_of_all(const struct mg_assembler *assembler)
{
  struct mg_found_exchange *oldest = NULL;
  for (unsigned i = 0; i < MG_ASSEMBLER_SHARDS; i++) {
    struct mg_found_exchange *one = assembler->lanes[i].open.oldest;
    if (one && (!oldest || one->start_us < oldest->start_us)) oldest = one;
  }
  return oldest;
}

bool mg_assembler_make_room(struct mg_assembler *assembler, struct mg_lane *lane, uint32_t epoch)
{
  if (!assembler->bounded) return true;
  while (lane->epoch != epoch && lane->open.oldest && lane->open.oldest->epoch < epoch)
    if (!give_up(assembler, lane->open.oldest, MG_NO_END)) return false;
  lane->epoch = epoch;
  while (assembler->open_count >= assembler->bounds.open_max ||
         (assembler->held > assembler->bounds.bytes_max && assembler->open_count > 1)) {
    struct mg_found_exchange *oldest = oldest_of_all(assembler);
    if (!oldest) break;
    if (!give_up(assembler, oldest, MG_CAPACITY_EVICTED)) return false;
  }
  return true;
}

bool mg_assembler_expire(struct mg_assembler *assembler, uint64_t now_us)
{
  for (unsigned i = 0; i < MG_ASSEMBLER_SHARDS; i++) {
    struct mg_lane *lane = &assembler->lanes[i];
    uint64_t time_us = lane->time_us > now_us ? lane->time_us : now_us;
    for (struct mg_found_exchange *oldest; (oldest = lane->open.oldest);) {
      if (oldest->start_us + assembler->bounds.age_us > time_us) break;
      if (!give_up(assembler, oldest, MG_TIMED_OUT)) return false;
    }
  }
  return true;
}

const struct mg_found_exchange *mg_assembler_oldest(const struct mg_assembler *assembler, unsigned shard)
{
  return shard < MG_ASSEMBLER_SHARDS ? assembler->lanes[shard].open.oldest : NULL;
}

uint64_t mg_assembler_open(const struct mg_assembler *assembler)
{
  return assembler->open_count;
}

void mg_assembler_each_given_up(const struct mg_assembler *assembler,
                                void (*each)(void *context, const struct mg_given_up *given), void *context)
{
  for (const struct mg_found_exchange *one = assembler->given_up.oldest; one; one = one->newer) {
    struct mg_given_up given = {
        .shard = one->shard, .epoch = one->epoch, .number = one->number, .start_us = one->start_us};
    memcpy(given.id, one->id, sizeof given.id);
    each(context, &given);
  }
}

void mg_assembler_restore_given_up(struct mg_assembler *assembler, const struct mg_given_up *given)
{
  struct mg_found_exchange **at = mg_assembler_place(assembler, given->shard, given->epoch, given->number);
  if (*at || given->shard >= MG_ASSEMBLER_SHARDS) return;
  struct mg_found_exchange *exchange = mg_assembler_add(assembler, at, given->shard, given->epoch, given->number);
  exchange->start_us = given->start_us;
  memcpy(exchange->id, given->id, sizeof exchange->id);
  mg_exchange_list_add(&assembler->lanes[given->shard].open, exchange);
  assembler->open_count++;
  remember(assembler, exchange);
}
