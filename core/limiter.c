/* limiter.c - token buckets in sets of a hashed table, each bucket one word.
 * Owns: nothing; the table is the caller's.   May call: libc.   Never: lock, allocate, read a clock.
 * Thread: any. A caller that dies between two stores leaves every bucket usable. */
#include "limiter.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { WAYS = 8, TICKS_PER_NS = 16, SET_BYTES_ALIGNED = 64, TRIES_MAX = 64, PAGE_BYTES = 4096, PAGES_AT_ONCE = 256 };

/* Keys that fall into the same set compete for its buckets. */
struct set {
  _Alignas(SET_BYTES_ALIGNED) _Atomic uint64_t keys[WAYS]; /* 0: free */
  _Atomic uint64_t full_at[WAYS];                          /* ticks; not after now: a full bucket */
  _Atomic uint32_t seen_s[WAYS];
};

struct mg_limiter_table {
  _Alignas(SET_BYTES_ALIGNED) _Atomic uint64_t rejected;
  struct set sets[];
};

bool mg_limiter_rules(struct mg_limiter_rules *rules, double capacity, double refill_tokens, double period_ms,
                      double ttl_ms, uint32_t buckets)
{
  double interval = period_ms * 1e6 * TICKS_PER_NS / refill_tokens;
  double burst = interval * capacity;
  if (!(interval >= TICKS_PER_NS) || !(burst < 0x1p62) || buckets < 1 || buckets > MG_LIMITER_BUCKETS_MAX) return false;
  rules->interval = (uint64_t)llround(interval);
  rules->burst = rules->interval * (uint64_t)capacity;
  rules->ttl_ns = (uint64_t)(fmin(ttl_ms, 1e12) * 1e6);
  rules->ways = buckets < WAYS ? buckets : WAYS;
  rules->sets = buckets <= WAYS ? 1 : (buckets + WAYS / 2 - 1) / (WAYS / 2); /* half full: few keys meet in one set */
  return true;
}

size_t mg_limiter_bytes(const struct mg_limiter_rules *rules)
{
  return sizeof(struct mg_limiter_table) + rules->sets * sizeof(struct set);
}

/* --- hashing: SipHash-2-4 (Aumasson, Bernstein 2012) -------------------------------------------------------------- */

static uint64_t rotate(uint64_t word, unsigned by)
{
  return word << by | word >> (64 - by);
}

static void mix(uint64_t v[4], unsigned rounds)
{
  while (rounds--) {
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
  }
}

uint64_t mg_limiter_hash(const uint64_t seed[2], struct mg_str key)
{
  uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du, seed[0] ^ 0x6c7967656e657261u,
                   seed[1] ^ 0x7465646279746573u};
  uint64_t word;
  size_t at = 0;
  for (; key.len - at >= 8; at += 8) {
    memcpy(&word, key.ptr + at, 8);
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
  }
  word = (uint64_t)key.len << 56;
  for (unsigned shift = 0; at < key.len; at++, shift += 8) word |= (uint64_t)(uint8_t)key.ptr[at] << shift;
  v[3] ^= word;
  mix(v, 2);
  v[0] ^= word;
  v[2] ^= 0xff;
  mix(v, 4);
  word = v[0] ^ v[1] ^ v[2] ^ v[3];
  return word ? word : 1;
}

/* --- buckets ------------------------------------------------------------------------------------------------------ */

/* The way of hash in its set. A key that stands there twice, which only two that push out others at once can bring
 * about, is always found at its first place. */
static int find_way(const struct set *set, uint32_t ways, uint64_t hash)
{
  for (uint32_t i = 0; i < ways; i++)
    if (atomic_load_explicit(&set->keys[i], memory_order_acquire) == hash) return (int)i;
  return -1;
}

/* The way to give away: a free one, else the one that is the nearest to full and has the least to forget. */
static uint32_t choose_victim(const struct set *set, uint32_t ways, uint64_t *key)
{
  uint64_t least = UINT64_MAX;
  uint32_t victim = 0;
  for (uint32_t i = 0; i < ways; i++) {
    uint64_t holder = atomic_load_explicit(&set->keys[i], memory_order_relaxed);
    uint64_t full_at = atomic_load_explicit(&set->full_at[i], memory_order_relaxed);
    if (holder && full_at >= least) continue;
    victim = i;
    *key = holder;
    if (!holder) break;
    least = full_at;
  }
  return victim;
}

/* The way of hash, taken from another key where need be. */
static uint32_t claim_way(struct set *set, uint32_t ways, uint64_t hash, uint32_t now_s)
{
  for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
    int found = find_way(set, ways, hash);
    if (found >= 0) return (uint32_t)found;
    uint64_t holder = 0;
    uint32_t victim = choose_victim(set, ways, &holder);
    if (holder) atomic_store_explicit(&set->full_at[victim], 0, memory_order_relaxed);
    atomic_store_explicit(&set->seen_s[victim], now_s, memory_order_relaxed);
    atomic_compare_exchange_strong(&set->keys[victim], &holder, hash); /* whoever won: the next round finds it */
  }
  return (uint32_t)(hash % ways); /* fought over without end: shares a bucket */
}

/* A key unseen for the rules' time begins anew; of several callers that notice, one word changes once. */
static void expire(struct set *set, uint32_t way, const struct mg_limiter_rules *rules, uint64_t now_ns)
{
  uint32_t now_s = (uint32_t)(now_ns / 1000000000u);
  uint64_t full_at = atomic_load_explicit(&set->full_at[way], memory_order_relaxed);
  uint32_t seen_s = atomic_load_explicit(&set->seen_s[way], memory_order_relaxed);
  if (now_s == seen_s) return;
  if (now_s > seen_s && (uint64_t)(now_s - seen_s) * 1000000000u > rules->ttl_ns)
    atomic_compare_exchange_strong_explicit(&set->full_at[way], &full_at, 0, memory_order_relaxed,
                                            memory_order_relaxed);
  atomic_store_explicit(&set->seen_s[way], now_s, memory_order_relaxed);
}

static struct set *set_of(struct mg_limiter_table *table, const struct mg_limiter_rules *rules, uint64_t hash)
{
  return &table->sets[(hash >> 32) * rules->sets >> 32];
}

struct mg_limiter_outcome mg_limiter_take(struct mg_limiter_table *table, const struct mg_limiter_rules *rules,
                                          uint64_t hash, uint64_t now_ns)
{
  struct set *set = set_of(table, rules, hash);
  uint64_t now = now_ns * TICKS_PER_NS;
  uint32_t way = claim_way(set, rules->ways, hash, (uint32_t)(now_ns / 1000000000u));
  expire(set, way, rules, now_ns);
  uint64_t before = atomic_load_explicit(&set->full_at[way], memory_order_relaxed), after;
  do {
    after = (before > now ? before : now) + rules->interval;
    if (after - now > rules->burst) {
      atomic_fetch_add_explicit(&table->rejected, 1, memory_order_relaxed);
      return (struct mg_limiter_outcome){.wait_ns = (after - now - rules->burst + TICKS_PER_NS - 1) / TICKS_PER_NS};
    }
  } while (!atomic_compare_exchange_weak_explicit(&set->full_at[way], &before, after, memory_order_relaxed,
                                                  memory_order_relaxed));
  return (struct mg_limiter_outcome){.passed = true, .remaining = (rules->burst - (after - now)) / rules->interval};
}

uint64_t mg_limiter_rejected(const struct mg_limiter_table *table)
{
  return atomic_load_explicit(&table->rejected, memory_order_relaxed);
}

static uint64_t count_tracked(const struct set *set, uint32_t ways, uint64_t now)
{
  uint64_t tracked = 0;
  for (uint32_t way = 0; way < ways; way++)
    tracked += atomic_load_explicit(&set->full_at[way], memory_order_relaxed) > now;
  return tracked;
}

/* Which of the pages from `page` on, as many as there are bits, have memory behind them: reading one that has not would
 * give it some, and most tables are nearly empty. All, where the kernel does not say. */
static void find_pages(const uint8_t *page, size_t pages, unsigned char there[PAGES_AT_ONCE])
{
  if (mincore((void *)(uintptr_t)page, pages * PAGE_BYTES, there) != 0) memset(there, 1, pages);
}

struct mg_limiter_facts mg_limiter_facts(const struct mg_limiter_table *table, const struct mg_limiter_rules *rules,
                                         uint64_t now_ns)
{
  struct mg_limiter_facts facts = {.rejected = mg_limiter_rejected(table)};
  unsigned char there[PAGES_AT_ONCE];
  uintptr_t known_from = 0, known_to = 0, end = (uintptr_t)&table->sets[rules->sets];
  for (uint32_t i = 0; i < rules->sets; i++) {
    const struct set *set = &table->sets[i];
    uintptr_t page = (uintptr_t)set->full_at / PAGE_BYTES * PAGE_BYTES;
    if (page >= known_to) {
      size_t left = (end - page + PAGE_BYTES - 1) / PAGE_BYTES, pages = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE;
      find_pages((const uint8_t *)page, pages, there);
      known_from = page;
      known_to = page + pages * PAGE_BYTES;
    }
    if (there[(page - known_from) / PAGE_BYTES] & 1)
      facts.tracked += count_tracked(set, rules->ways, now_ns * TICKS_PER_NS);
  }
  return facts;
}
