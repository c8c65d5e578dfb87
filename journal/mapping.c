/* mapping.c - SIGBUS in a mapped file becomes a flag.
 * Owns: the table of guarded mappings, the SIGBUS handler once something is mapped.   May call: libc.   Never: take a
 * lock or allocate, for the handler uses the table.   Thread: any. */
#include "mapping.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAPPINGS_MAX = 256 };

/* A signal handler is told nothing but an address, so what it looks it up in stands at file scope. `from` is stored
 * last and cleared first: whatever has one can be used. */
static struct guarded {
  _Atomic uintptr_t from; /* 0: free; 1: being filled in */
  _Atomic size_t size;
  _Atomic int protection;
  _Atomic bool lost;
} guarded_mappings[MAPPINGS_MAX];
static struct sigaction handled_before;
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

static struct guarded *find(uintptr_t address)
{
  for (int i = 0; i < MAPPINGS_MAX; i++) {
    struct guarded *at = &guarded_mappings[i];
    uintptr_t from = atomic_load(&at->from);
    if (from > 1 && address >= from && address - from < atomic_load(&at->size)) return at;
  }
  return NULL;
}

/* Returning from here repeats the access: on the replaced page, or, when the address is none of ours, with whatever
 * handled the signal before. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
  int saved = errno;
  struct guarded *at = find((uintptr_t)info->si_addr);
  (void)context;
  if (at) {
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)info->si_addr & ~(uintptr_t)(page_bytes - 1));
    atomic_store(&at->lost, true);
    if (mmap(page, page_bytes, atomic_load(&at->protection), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
      at = NULL;
  }
  if (!at) sigaction(number, &handled_before, NULL);
  errno = saved;
}

/* A forked child has none of the mappings (MADV_DONTFORK); what it maps in their place is its own business. */
static void forget_in_child(void)
{
  for (int i = 0; i < MAPPINGS_MAX; i++) atomic_store(&guarded_mappings[i].from, 0);
}

static void install_handler(void)
{
  struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &handled_before);
  pthread_atfork(NULL, NULL, forget_in_child);
}

static struct guarded *take_place(void)
{
  for (int i = 0; i < MAPPINGS_MAX; i++) {
    uintptr_t none = 0;
    if (atomic_compare_exchange_strong(&guarded_mappings[i].from, &none, 1)) return &guarded_mappings[i];
  }
  return NULL;
}

int mg_mapping_make(int fd, size_t size, int protection, uint8_t **map)
{
  pthread_once(&handler_once, install_handler);
  struct guarded *place = take_place();
  if (!place) return -ENOMEM;
  void *at = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    int error = errno;
    atomic_store(&place->from, 0);
    return -error;
  }
  madvise(at, size, MADV_DONTFORK);
  atomic_store(&place->size, size);
  atomic_store(&place->protection, protection);
  atomic_store(&place->lost, false);
  atomic_store(&place->from, (uintptr_t)at);
  *map = at;
  return 0;
}

void mg_mapping_end(uint8_t *map, size_t size)
{
  struct guarded *place = find((uintptr_t)map);
  if (place) atomic_store(&place->from, 0);
  munmap(map, size);
}

const _Atomic bool *mg_mapping_lost(const uint8_t *map)
{
  static const _Atomic bool not_guarded = false;
  struct guarded *place = find((uintptr_t)map);
  return place ? &place->lost : &not_guarded;
}
