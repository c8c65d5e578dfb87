/* protocol.c - every interleaving of the journal's protocol at small bounds: model.protocol.
 *
 * What must hold after each step, whatever recovery finds then: the entries of the segments and of the stage are LSN 1
 * to n in order, each once, with its own bytes, and n is not less than the last one that was acknowledged.
 * Owns: the set of states.   May call: libc.   Never: the journal's code.   Thread: one. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2, ENTRIES = 2, LSN_MAX = 8, KILLS_MAX = 3, RECORDED_MAX = 16, STATES_MAX = 1 << 20 };

enum mutant { NONE, RETIRE_BEFORE_PLACE, ANY_GENERATION, NO_LSN_COMPARISON, COMMIT_BEFORE_BODY, MUTANTS };

enum word { EMPTY, ENTRY, END };
enum producer { NO_SLOT, HEADER_WRITTEN, FILLING, ENTRY_BEGUN };
enum drainer { IDLE, BATCH_PACKED, TAIL_WRITTEN, BATCH_PLACED };
enum recovery { RUNNING, DEAD, RECOVERY_SCANNED, RECOVERY_PLACED };

struct slot {
  uint8_t gen, base, whole; /* whole: base and generation belong together (the header's checksum) */
  struct {
    uint8_t word, tag, body; /* body: the LSN that its bytes belong to */
  } at[ENTRIES + 1];
};

struct state {
  /* what a kill leaves */
  struct slot slots[SLOTS];
  uint8_t recorded[RECORDED_MAX][2]; /* LSN and body of what is in segments */
  uint8_t recorded_count, acknowledged, kills;
  /* what it takes */
  uint8_t recovery, scanned;
  uint8_t producer, gen, filled, next_lsn, closed;
  uint8_t drainer, drained, batch_gen, batch_count, batch[ENTRIES][2];
};

struct space {
  enum mutant mutant;
  struct state *states;
  uint32_t count, *index;
  const char *fault;
};

static struct slot *slot_of(struct state *s, unsigned gen)
{
  return &s->slots[(gen - 1) % SLOTS];
}

/* Entries of a slot as a reader follows them. */
static unsigned follow(const struct space *space, const struct slot *slot, uint8_t out[ENTRIES][2])
{
  unsigned count = 0;
  if (!slot->gen || !slot->whole) return 0;
  while (count < ENTRIES && slot->at[count].word == ENTRY &&
         (slot->at[count].tag == slot->gen || space->mutant == ANY_GENERATION)) {
    out[count][0] = (uint8_t)(slot->base + count);
    out[count][1] = slot->at[count].body;
    count++;
  }
  return count;
}

static void record(struct state *s, uint8_t entries[ENTRIES][2], unsigned count)
{
  for (unsigned i = 0; i < count && s->recorded_count < RECORDED_MAX; i++) {
    memcpy(s->recorded[s->recorded_count], entries[i], 2);
    s->recorded_count++;
  }
}

static uint8_t last_recorded(const struct state *s)
{
  return s->recorded_count ? s->recorded[s->recorded_count - 1][0] : 0;
}

/* Places the first slot that holds something behind the last LSN; false when there is none. */
static bool recover_one(const struct space *space, struct state *s)
{
  int best = -1;
  uint8_t entries[ENTRIES][2];
  for (int i = 0; i < SLOTS; i++) {
    unsigned count = follow(space, &s->slots[i], entries);
    bool wanted = count && (space->mutant == NO_LSN_COMPARISON || entries[count - 1][0] > last_recorded(s));
    if (space->mutant == NO_LSN_COMPARISON && s->scanned >> i & 1) wanted = false; /* each slot once */
    if (wanted && (best < 0 || s->slots[i].base < s->slots[best].base)) best = i;
  }
  if (best < 0) return false;
  record(s, entries, follow(space, &s->slots[best], entries));
  s->scanned |= (uint8_t)(1 << best);
  return true;
}

static const char *judge(const struct space *space, const struct state *state)
{
  struct state s = *state;
  if (s.recovery == RUNNING || s.recovery == DEAD) s.scanned = 0;
  while (s.recorded_count < RECORDED_MAX && recover_one(space, &s)) continue;
  for (unsigned i = 0; i < s.recorded_count; i++) {
    if (s.recorded[i][0] <= i) return "an entry is there twice";
    if (s.recorded[i][0] != i + 1) return "an entry is missing in between";
    if (s.recorded[i][1] != s.recorded[i][0]) return "an entry has the bytes of another";
  }
  return s.recorded_count < s.acknowledged ? "an acknowledged entry is lost" : NULL;
}

/* --- steps: each returns whether it could be taken ---------------------------------------------------------------- */

static bool step_producer(const struct space *space, struct state *s)
{
  struct slot *slot = slot_of(s, s->gen + (s->producer == NO_SLOT));
  switch (s->producer) {
  case NO_SLOT:
    if (s->next_lsn > LSN_MAX || s->gen + 1 > s->drained + SLOTS) return false;
    slot->base = s->next_lsn;
    slot->whole = 0;
    s->gen++;
    s->filled = 0;
    s->producer = HEADER_WRITTEN;
    return true;
  case HEADER_WRITTEN:
    slot->gen = s->gen;
    slot->whole = 1;
    s->producer = FILLING;
    return true;
  case FILLING:
    if (s->filled == ENTRIES || s->next_lsn > LSN_MAX) return false;
    if (space->mutant == COMMIT_BEFORE_BODY)
      slot->at[s->filled].word = ENTRY, slot->at[s->filled].tag = s->gen;
    else
      slot->at[s->filled].body = s->next_lsn;
    s->producer = ENTRY_BEGUN;
    return true;
  default: /* the commit word, and with it the acknowledgement */
    slot->at[s->filled].body = s->next_lsn;
    slot->at[s->filled].word = ENTRY;
    slot->at[s->filled].tag = s->gen;
    s->acknowledged = s->next_lsn++;
    s->filled++;
    s->producer = FILLING;
    return true;
  }
}

static bool step_close(struct state *s)
{
  if (s->producer != FILLING || !s->filled) return false;
  slot_of(s, s->gen)->at[s->filled].word = END;
  slot_of(s, s->gen)->at[s->filled].tag = s->gen;
  s->closed = s->gen;
  s->producer = NO_SLOT;
  return true;
}

static bool step_drainer(const struct space *space, struct state *s)
{
  switch (s->drainer) {
  case IDLE:
    if (s->drained == s->closed) return false;
    s->batch_gen = s->drained + 1;
    s->batch_count = (uint8_t)follow(space, slot_of(s, s->batch_gen), s->batch);
    if (space->mutant == RETIRE_BEFORE_PLACE) s->drained = s->batch_gen;
    s->drainer = BATCH_PACKED;
    return true;
  case BATCH_PACKED: /* all but the first magic: nothing that a reader takes */
    s->drainer = TAIL_WRITTEN;
    return true;
  case TAIL_WRITTEN:
    record(s, s->batch, s->batch_count);
    s->drainer = BATCH_PLACED;
    return true;
  default: /* SLOT_RETIRED */
    s->drained = s->batch_gen;
    s->batch_gen = s->batch_count = 0;
    memset(s->batch, 0, sizeof s->batch);
    s->drainer = IDLE;
    return true;
  }
}

static bool step_kill(struct state *s)
{
  if (s->kills == KILLS_MAX || s->recovery == DEAD) return false;
  struct state left = {.acknowledged = s->acknowledged, .recorded_count = s->recorded_count, .recovery = DEAD};
  memcpy(left.slots, s->slots, sizeof left.slots);
  memcpy(left.recorded, s->recorded, sizeof left.recorded);
  left.kills = (uint8_t)(s->kills + 1);
  *s = left;
  return true;
}

static void step_recover(const struct space *space, struct state *s)
{
  if (s->recovery == DEAD) {
    s->recovery = RECOVERY_SCANNED;
  } else if (recover_one(space, s)) {
    s->recovery = RECOVERY_PLACED;
  } else { /* EPOCH_WRITTEN: a new stage under the name of the old one */
    memset(s->slots, 0, sizeof s->slots);
    s->recovery = RUNNING;
    s->scanned = 0;
    s->next_lsn = (uint8_t)(last_recorded(s) + 1);
  }
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static uint32_t hash(const struct state *s)
{
  const uint8_t *bytes = (const uint8_t *)s;
  uint64_t value = 14695981039346656037u;
  for (size_t i = 0; i < sizeof *s; i++) value = (value ^ bytes[i]) * 1099511628211u;
  return (uint32_t)(value >> 20);
}

static void visit(struct space *space, const struct state *s)
{
  uint32_t at = hash(s) % (2 * STATES_MAX);
  while (space->index[at] && memcmp(&space->states[space->index[at] - 1], s, sizeof *s) != 0)
    at = (at + 1) % (2 * STATES_MAX);
  if (space->index[at] || space->fault) return;
  space->fault = space->count == STATES_MAX ? "too many states" : judge(space, s);
  if (space->count == STATES_MAX) return;
  space->states[space->count++] = *s;
  space->index[at] = space->count;
}

static void expand(struct space *space, const struct state *s)
{
  struct state next = *s;
  if (step_kill(&next)) visit(space, &next);
  next = *s;
  if (s->recovery != RUNNING) {
    step_recover(space, &next);
    visit(space, &next);
    return;
  }
  if (step_producer(space, &next)) visit(space, &next);
  next = *s;
  if (step_close(&next)) visit(space, &next);
  next = *s;
  if (step_drainer(space, &next)) visit(space, &next);
}

static const char *explore(enum mutant mutant, uint32_t *count)
{
  struct space space = {.mutant = mutant};
  struct state first;
  space.states = malloc(STATES_MAX * sizeof *space.states);
  space.index = calloc(2 * STATES_MAX, sizeof *space.index);
  memset(&first, 0, sizeof first);
  first.next_lsn = 1;
  visit(&space, &first);
  for (uint32_t i = 0; i < space.count && !space.fault; i++) expand(&space, &space.states[i]);
  *count = space.count;
  free(space.states);
  free(space.index);
  return space.fault;
}

int main(void)
{
  static const char *const names[] = {"the protocol", "retired before it is placed", "any generation is taken",
                                      "LSNs are not compared", "committed before its bytes are there"};
  int wrong = 0;
  for (int mutant = NONE; mutant < MUTANTS; mutant++) {
    uint32_t count;
    const char *fault = explore((enum mutant)mutant, &count);
    printf("%-36s %8u states: %s\n", names[mutant], count, fault ? fault : "holds");
    wrong += (fault != NULL) != (mutant != NONE);
  }
  return wrong != 0;
}
