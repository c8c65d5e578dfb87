/* shm.c - the shared memory of shm.h: a header, one cell per worker slot, tables of targets and of routes, tallies.
 * Owns: the mapping and its descriptor.   May call: err, mem, tally, libc.   Never: lock, free a cell, store a pointer.
 * Thread: any; mg_shm_target, mg_shm_add_route and mg_target_publish only in the master, on one thread. */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

enum {
  SHM_BYTES = 1 << 30,  /* sparse: only what is touched takes memory */
  HALF_BYTES = 1 << 29, /* the upper half is states.c's */
  TARGETS_MAX = 1 << 15,
  TARGET_SLOTS = 1 << 16, /* a power of two, at least twice TARGETS_MAX, so that probing is short and ends */
  ROUTES_MAX = 1 << 15,
  ROUTE_SLOTS = 1 << 16,
  READ_TRIES_MAX = 10000
};

static const uint64_t layout_magic = 0x336d68732d676d01; /* "\1mg-shm3", changed with the layout */

struct route {
  char id[256];
  uint64_t offset; /* of its tallies */
  uint32_t workers;
};

/* The whole layout. Zero bytes, which a fresh memfd holds, are its valid empty state. */
struct layout {
  uint64_t magic;
  uint64_t size; /* of this struct: two builds that disagree do not share */
  uint32_t target_count;
  _Atomic uint32_t
      slots[TARGET_SLOTS]; /* target number + 1, 0 for empty; stored with release once the key is written */
  _Atomic uint32_t listeners_shared;
  uint32_t first_slot;
  struct mg_worker_cell workers[MG_WORKERS_MAX + 1];
  struct mg_target_cell targets[TARGETS_MAX];
  uint32_t route_count;
  _Atomic uint32_t route_slots[ROUTE_SLOTS]; /* as slots, for routes */
  struct route routes[ROUTES_MAX];
  struct mg_meters meters[MG_WORKERS_MAX];
  uint64_t tallies_used; /* bytes behind this struct */
};

_Static_assert(sizeof(struct layout) <= HALF_BYTES, "the layout fits its half of the mapping");
_Static_assert(sizeof(struct sockaddr_storage) % sizeof(uint64_t) == 0, "addresses are copied by words");

static struct layout *layout_of(const struct mg_shm *shm)
{
  return (struct layout *)(void *)shm->base;
}

static int map(struct mg_shm *shm, int fd)
{
  void *base = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return MG_EINTERNAL;
  *shm = (struct mg_shm){.base = base, .fd = fd};
  return 0;
}

int mg_shm_create(struct mg_shm *shm)
{
  int fd = memfd_create("moongate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return MG_EINTERNAL;
  /* Sealed in size: a worker that went wrong cannot shrink it under the others' feet. */
  if (ftruncate(fd, SHM_BYTES) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
      map(shm, fd) < 0) {
    int why = errno;
    close(fd);
    errno = why;
    return MG_EINTERNAL;
  }
  struct layout *layout = layout_of(shm);
  layout->magic = layout_magic;
  layout->size = sizeof *layout;
  return 0;
}

int mg_shm_attach(struct mg_shm *shm, int fd)
{
  struct stat facts;
  if (fstat(fd, &facts) < 0) return MG_EINTERNAL;
  if (facts.st_size != SHM_BYTES) {
    errno = EINVAL;
    return MG_EINTERNAL;
  }
  if (map(shm, fd) < 0) return MG_EINTERNAL;
  const struct layout *layout = layout_of(shm);
  if (layout->magic == layout_magic && layout->size == sizeof *layout) return 0;
  munmap(shm->base, SHM_BYTES);
  *shm = (struct mg_shm){.fd = -1};
  errno = EINVAL;
  return MG_EINTERNAL;
}

void mg_shm_detach(struct mg_shm *shm)
{
  if (!shm->base) return;
  munmap(shm->base, SHM_BYTES);
  close(shm->fd);
  *shm = (struct mg_shm){.fd = -1};
}

struct mg_meters *mg_shm_meters(const struct mg_shm *shm, unsigned slot)
{
  MG_ASSERT(slot < MG_WORKERS_MAX);
  return &layout_of(shm)->meters[slot];
}

void mg_shm_share_listeners(struct mg_shm *shm, bool shared)
{
  atomic_store(&layout_of(shm)->listeners_shared, shared);
}

bool mg_shm_listeners_shared(const struct mg_shm *shm)
{
  return atomic_load(&layout_of(shm)->listeners_shared) != 0;
}

void mg_shm_set_first_slot(struct mg_shm *shm, unsigned first_slot)
{
  layout_of(shm)->first_slot = first_slot;
}

unsigned mg_shm_first_slot(const struct mg_shm *shm)
{
  return layout_of(shm)->first_slot;
}

struct mg_worker_cell *mg_shm_worker(const struct mg_shm *shm, unsigned slot)
{
  MG_ASSERT(slot <= MG_WORKERS_MAX);
  return &layout_of(shm)->workers[slot];
}

static uint32_t key_hash(struct mg_str key)
{
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < key.len; i++) hash = (hash ^ (uint8_t)key.ptr[i]) * 16777619u;
  return hash;
}

/* Walks the key's probe sequence to its cell, or to the empty slot where it belongs (*slot). */
static struct mg_target_cell *probe(const struct mg_shm *shm, struct mg_str key, uint32_t *slot)
{
  struct layout *layout = layout_of(shm);
  for (*slot = key_hash(key) % TARGET_SLOTS;; *slot = (*slot + 1) % TARGET_SLOTS) {
    uint32_t number = atomic_load_explicit(&layout->slots[*slot], memory_order_acquire);
    if (!number) return NULL;
    MG_ASSERT(number <= TARGETS_MAX);
    struct mg_target_cell *cell = &layout->targets[number - 1];
    if (strlen(cell->key) == key.len && memcmp(cell->key, key.ptr, key.len) == 0) return cell;
  }
}

struct mg_target_cell *mg_shm_find_target(const struct mg_shm *shm, struct mg_str key)
{
  uint32_t slot;
  return probe(shm, key, &slot);
}

struct mg_target_cell *mg_shm_target(struct mg_shm *shm, struct mg_str key)
{
  struct layout *layout = layout_of(shm);
  uint32_t slot;
  struct mg_target_cell *cell = probe(shm, key, &slot);
  if (cell) return cell;
  if (layout->target_count == TARGETS_MAX || key.len >= sizeof cell->key) return NULL;
  cell = &layout->targets[layout->target_count++];
  memcpy(cell->key, key.ptr, key.len);
  atomic_store_explicit(&layout->slots[slot], layout->target_count, memory_order_release);
  return cell;
}

/* The words of an address list, as both sides of the seqlock copy them: release and acquire on each keep them between
 * the two looks at the version without a fence. */
typedef uint64_t __attribute__((may_alias)) word;

void mg_target_publish(struct mg_target_cell *cell, const struct sockaddr_storage *addresses, unsigned count)
{
  if (count > MG_TARGET_ADDRESSES_MAX) count = MG_TARGET_ADDRESSES_MAX;
  uint32_t version =
      atomic_load_explicit(&cell->version, memory_order_relaxed) | 1; /* a writer that died left it odd */
  atomic_store_explicit(&cell->version, version, memory_order_relaxed);
  __atomic_store_n(&cell->address_count, count, __ATOMIC_RELEASE);
  const word *from = (const word *)(const void *)addresses;
  word *to = (word *)(void *)cell->addresses;
  for (size_t i = 0; i < count * sizeof *addresses / sizeof(word); i++)
    __atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE);
  atomic_store_explicit(&cell->version, version + 1, memory_order_release);
}

unsigned mg_target_addresses(const struct mg_target_cell *cell, struct sockaddr_storage out[MG_TARGET_ADDRESSES_MAX])
{
  const word *from = (const word *)(const void *)cell->addresses;
  word *to = (word *)(void *)out;
  for (int tries = 0; tries < READ_TRIES_MAX; tries++) {
    uint32_t version = atomic_load_explicit(&cell->version, memory_order_acquire);
    unsigned count = __atomic_load_n(&cell->address_count, __ATOMIC_ACQUIRE);
    if (version % 2 == 0 && count <= MG_TARGET_ADDRESSES_MAX) {
      for (size_t i = 0; i < count * sizeof *out / sizeof(word); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
      if (atomic_load_explicit(&cell->version, memory_order_relaxed) == version) return count;
    }
    sched_yield(); /* the master was interrupted while writing */
  }
  return 0; /* it died while writing; so will this worker, soon */
}

/* --- routes --- */

static struct route *probe_route(const struct mg_shm *shm, struct mg_str id, uint32_t *slot)
{
  struct layout *layout = layout_of(shm);
  for (*slot = key_hash(id) % ROUTE_SLOTS;; *slot = (*slot + 1) % ROUTE_SLOTS) {
    uint32_t number = atomic_load_explicit(&layout->route_slots[*slot], memory_order_acquire);
    if (!number) return NULL;
    MG_ASSERT(number <= ROUTES_MAX);
    struct route *route = &layout->routes[number - 1];
    if (strlen(route->id) == id.len && memcmp(route->id, id.ptr, id.len) == 0) return route;
  }
}

bool mg_shm_add_route(struct mg_shm *shm, struct mg_str id, unsigned workers)
{
  static const uint64_t first = (sizeof(struct layout) + MG_CACHE_LINE - 1) / MG_CACHE_LINE * MG_CACHE_LINE;
  struct layout *layout = layout_of(shm);
  uint32_t slot;
  if (probe_route(shm, id, &slot)) return true;
  uint64_t size = workers * sizeof(struct mg_tally), offset = first + layout->tallies_used;
  if (layout->route_count == ROUTES_MAX || id.len >= sizeof layout->routes[0].id || offset + size > HALF_BYTES)
    return false;
  struct route *route = &layout->routes[layout->route_count++];
  memcpy(route->id, id.ptr, id.len);
  route->offset = offset;
  route->workers = workers;
  layout->tallies_used += size;
  atomic_store_explicit(&layout->route_slots[slot], layout->route_count, memory_order_release);
  return true;
}

static struct mg_tally *tally_of(const struct mg_shm *shm, const struct route *route, unsigned slot)
{
  if (slot >= route->workers) return NULL;
  return (struct mg_tally *)(void *)(shm->base + route->offset) + slot;
}

struct mg_tally *mg_shm_tally(const struct mg_shm *shm, struct mg_str id, unsigned slot)
{
  uint32_t unused;
  const struct route *route = probe_route(shm, id, &unused);
  return route ? tally_of(shm, route, slot) : NULL;
}

void mg_shm_reset_gauges(struct mg_shm *shm, unsigned slot)
{
  struct layout *layout = layout_of(shm);
  for (uint32_t i = 0; i < layout->route_count; i++) {
    struct mg_tally *tally = tally_of(shm, &layout->routes[i], slot);
    if (!tally) continue;
    atomic_store_explicit(&tally->active, 0, memory_order_relaxed);
    atomic_store_explicit(&tally->tunnels, 0, memory_order_relaxed);
  }
}
