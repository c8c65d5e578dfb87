/* upgrade_counters.c - counters as text, one a line, and back.
 * Owns: nothing.   May call: mem, err, shm, tally, inventory.   Never: touch what a worker counts.
 * Thread: the loop thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "upgrade.h"

enum { WORD_SIZE = 64 };

/* --- writing */

static uint64_t load(const _Atomic uint64_t *counter)
{
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void line(struct mg_buf *out, const char *what, const char *name, uint64_t value)
{
  if (value) mg_buf_printf(out, "%s %s %llu\n", what, name, (unsigned long long)value);
}

static void write_gateway(const struct mg_shm *shm, unsigned workers, struct mg_buf *out)
{
  uint64_t refused[MG_ERR_COUNT] = {0};
#define X(field)                                                                              \
  {                                                                                           \
    uint64_t sum = 0;                                                                         \
    for (unsigned i = 0; i <= workers; i++) sum += load(&mg_shm_worker(shm, i)->count.field); \
    line(out, "counter", #field, sum);                                                        \
  }
  MG_COUNTER_MAP(X)
#undef X
  for (unsigned i = 0; i <= workers; i++)
    for (unsigned err = 0; err < MG_ERR_COUNT; err++) refused[err] += load(&mg_shm_worker(shm, i)->refused[err]);
  for (unsigned err = 0; err < MG_ERR_COUNT; err++)
    line(out, "refused", mg_err_word(MG_E_BASE + 1 + (int)err), refused[err]);
}

static void write_by_number(struct mg_buf *out, const char *what, const uint64_t *values, unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    if (values[i]) mg_buf_printf(out, "%s %u %llu\n", what, i, (unsigned long long)values[i]);
}

static void write_route(struct mg_str id, const struct mg_tally_sum *sum, struct mg_buf *out)
{
  mg_buf_printf(out, "route %.*s\n", (int)id.len, id.ptr);
  line(out, "bytes", "in", sum->bytes_in);
  line(out, "bytes", "out", sum->bytes_out);
  line(out, "bytes", "journal", sum->journal_bytes);
  line(out, "duration", "us", sum->duration_us);
  write_by_number(out, "request", sum->requests, MG_STATUS_END);
  write_by_number(out, "upstream", sum->upstream, MG_STATUS_END);
  write_by_number(out, "bucket", sum->durations, MG_TALLY_BUCKETS);
}

void mg_counters_write(const struct mg_shm *shm, unsigned workers, const struct mg_inventory *inventory,
                       struct mg_buf *out)
{
  write_gateway(shm, workers, out);
  for (unsigned i = 0; i < inventory->route_count; i++) {
    struct mg_tally_sum sum;
    mg_inventory_sum(shm, workers, inventory->routes[i], &sum);
    write_route(inventory->routes[i], &sum, out);
  }
}

/* --- reading */

static void store(_Atomic uint64_t *counter, uint64_t value)
{
  atomic_store_explicit(counter, value, memory_order_relaxed);
}

static bool is_gauge(const char *name)
{
  const char *end = strrchr(name, '_');
  return end && (strcmp(end, "_active") == 0 || strcmp(end, "_idle") == 0);
}

static void read_gateway(struct mg_worker_cell *cell, const char *what, const char *name, uint64_t value)
{
  if (strcmp(what, "counter") == 0 && !is_gauge(name)) {
#define X(field) \
  if (strcmp(name, #field) == 0) store(&cell->count.field, value);
    MG_COUNTER_MAP(X)
#undef X
  } else if (strcmp(what, "refused") == 0) {
    for (unsigned err = 0; err < MG_ERR_COUNT; err++)
      if (strcmp(name, mg_err_word(MG_E_BASE + 1 + (int)err)) == 0) store(&cell->refused[err], value);
  }
}

static void read_route(struct mg_tally *tally, const char *what, const char *name, uint64_t value)
{
  unsigned number = (unsigned)strtoul(name, NULL, 10);
  if (strcmp(what, "bytes") == 0)
    store(strcmp(name, "in") == 0        ? &tally->bytes_in
          : strcmp(name, "journal") == 0 ? &tally->journal_bytes
                                         : &tally->bytes_out,
          value);
  else if (strcmp(what, "duration") == 0)
    store(&tally->duration_us, value);
  else if (strcmp(what, "request") == 0 && number < MG_STATUS_END)
    mg_tally_set_code(&tally->requests, number, value);
  else if (strcmp(what, "upstream") == 0 && number < MG_STATUS_END)
    mg_tally_set_code(&tally->upstream, number, value);
  else if (strcmp(what, "bucket") == 0 && number < MG_TALLY_BUCKETS)
    store(&tally->durations[number], value);
}

/* "what name value"; false if it is no such line. */
static bool split(struct mg_str text, char what[WORD_SIZE], char name[WORD_SIZE], uint64_t *value)
{
  char copy[2 * WORD_SIZE + 32];
  unsigned long long number;
  if (text.len >= sizeof copy) return false;
  memcpy(copy, text.ptr, text.len);
  copy[text.len] = '\0';
  if (sscanf(copy, "%63s %63s %llu", what, name, &number) != 3) return false;
  *value = number;
  return true;
}

void mg_counters_read(struct mg_shm *shm, unsigned workers, struct mg_str text)
{
  struct mg_tally *tally = NULL;
  bool in_route = false;
  while (text.len) {
    const char *end = memchr(text.ptr, '\n', text.len);
    struct mg_str here = mg_str(text.ptr, end ? (size_t)(end - text.ptr) : text.len);
    char what[WORD_SIZE], name[WORD_SIZE];
    uint64_t value;
    if (here.len > 6 && memcmp(here.ptr, "route ", 6) == 0) {
      in_route = true;
      tally = mg_shm_tally(shm, mg_str(here.ptr + 6, here.len - 6), workers);
    } else if (split(here, what, name, &value)) {
      if (!in_route)
        read_gateway(mg_shm_worker(shm, workers), what, name, value);
      else if (tally)
        read_route(tally, what, name, value);
    }
    size_t used = here.len + (end != NULL);
    text = mg_str(text.ptr + used, text.len - used);
  }
}
