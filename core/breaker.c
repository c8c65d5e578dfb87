/* breaker.c - the transitions of a breaker's word.
 * Owns: nothing; the cell is the caller's.   May call: libc.   Never: lock, read a clock, ask the system.
 * Thread: any. Every transition is one compare-and-swap, so a caller that dies leaves a valid word. */
#include "breaker.h"

/* CLOSED: failures. OPEN: until, ms. HALF_OPEN: the probe's process (22 bits, all that Linux uses) and its end, ms (40
 * bits). */
enum { STATE_SHIFT = 62, PID_SHIFT = 40 };

static const uint64_t value_mask = ((uint64_t)1 << STATE_SHIFT) - 1;
static const uint64_t end_mask = ((uint64_t)1 << PID_SHIFT) - 1;
static const uint32_t pid_mask = (1u << (STATE_SHIFT - PID_SHIFT)) - 1;

static enum mg_breaker_state state_of(uint64_t word)
{
  return (enum mg_breaker_state)(word >> STATE_SHIFT);
}

static uint64_t make(enum mg_breaker_state state, uint64_t value)
{
  return (uint64_t)state << STATE_SHIFT | (value & value_mask);
}

static uint64_t make_probe(const struct mg_breaker_rules *rules, uint64_t now_ms, uint32_t pid)
{
  return make(MG_BREAKER_HALF_OPEN, (uint64_t)(pid & pid_mask) << PID_SHIFT | ((now_ms + rules->probe_ms) & end_mask));
}

/* True if a caller may become the probe. */
static bool is_due(uint64_t word, uint64_t now_ms, bool (*alive)(uint32_t pid))
{
  if (state_of(word) == MG_BREAKER_OPEN) return now_ms >= (word & value_mask);
  return now_ms >= (word & end_mask) || !alive((uint32_t)(word >> PID_SHIFT) & pid_mask);
}

bool mg_breaker_enter(struct mg_breaker_cell *cell, const struct mg_breaker_rules *rules, uint64_t now_ms, uint32_t pid,
                      bool (*alive)(uint32_t pid), struct mg_breaker_pass *pass)
{
  uint64_t word = atomic_load_explicit(&cell->word, memory_order_relaxed);
  *pass = (struct mg_breaker_pass){0};
  if (state_of(word) == MG_BREAKER_CLOSED) return true;
  if (is_due(word, now_ms, alive)) {
    uint64_t probe = make_probe(rules, now_ms, pid);
    pass->probe = probe;
    if (probe != word && atomic_compare_exchange_strong(&cell->word, &word, probe)) return true;
    pass->probe = 0;
    if (state_of(word) == MG_BREAKER_CLOSED) return true; /* the other probe was quick */
  }
  atomic_fetch_add_explicit(&cell->rejected, 1, memory_order_relaxed);
  return false;
}

static void leave_probe(struct mg_breaker_cell *cell, const struct mg_breaker_rules *rules, uint64_t now_ms,
                        uint64_t probe, enum mg_breaker_outcome outcome)
{
  static const uint64_t closed = 0;
  uint64_t next = outcome == MG_BREAKER_SUCCESS   ? closed
                  : outcome == MG_BREAKER_FAILURE ? make(MG_BREAKER_OPEN, now_ms + rules->cooldown_ms)
                                                  : make(MG_BREAKER_OPEN, now_ms);
  atomic_compare_exchange_strong(&cell->word, &probe, next); /* fails when it had expired and another one took over */
}

void mg_breaker_leave(struct mg_breaker_cell *cell, const struct mg_breaker_rules *rules, uint64_t now_ms,
                      struct mg_breaker_pass pass, enum mg_breaker_outcome outcome)
{
  if (pass.probe) {
    leave_probe(cell, rules, now_ms, pass.probe, outcome);
    return;
  }
  if (outcome == MG_BREAKER_UNKNOWN) return;
  uint64_t word = atomic_load_explicit(&cell->word, memory_order_relaxed), next;
  do {
    if (state_of(word) != MG_BREAKER_CLOSED) return;
    if (outcome == MG_BREAKER_SUCCESS && word == 0) return; /* the usual case writes nothing */
    if (outcome == MG_BREAKER_SUCCESS)
      next = 0;
    else
      next = word + 1 >= rules->failures_max ? make(MG_BREAKER_OPEN, now_ms + rules->cooldown_ms) : word + 1;
  } while (!atomic_compare_exchange_weak(&cell->word, &word, next));
}

uint64_t mg_breaker_until(const struct mg_breaker_cell *cell)
{
  uint64_t word = atomic_load_explicit(&cell->word, memory_order_relaxed);
  return state_of(word) == MG_BREAKER_OPEN ? word & value_mask : 0;
}

enum mg_breaker_state mg_breaker_state(const struct mg_breaker_cell *cell, uint32_t *failures)
{
  uint64_t word = atomic_load_explicit(&cell->word, memory_order_relaxed);
  enum mg_breaker_state state = state_of(word);
  *failures = state == MG_BREAKER_CLOSED ? (uint32_t)word : 0;
  return state;
}
