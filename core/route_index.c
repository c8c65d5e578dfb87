/* route_index.c - routes by their literals: a radix tree for path prefixes, one hash table for everything else.
 * Owns: buckets, postings, tree.   May call: mem, log.   Never: allocate in gather, decide a match.
 * Thread: built on one, read by one. */
#include "route_index.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

static const uint64_t HASH_FACTOR = 0x9e3779b97f4a7c15;
static const uint64_t FOLD = 0x2020202020202020; /* makes letters of either case hash alike; comparison decides */

struct bucket { /* one distinct literal */
  struct mg_str name, value;
  uint64_t hash;
  uint32_t sharing;      /* routes that hold the literal anywhere */
  uint32_t last_route;   /* + 1, while counting */
  uint32_t first, count; /* the routes filed here: a run of postings */
  uint8_t kind;
};

struct posting { /* before sealing */
  uint32_t bucket, route;
};

struct node { /* of the radix tree; label stands on the edge that leads here */
  struct mg_str label;
  uint32_t bucket; /* 0 for none */
};

struct edge {   /* open addressing by key */
  uint64_t key; /* (parent + 1) << 8 | first byte of the child's label; 0 for empty */
  uint32_t child;
};

struct mg_route_index {
  struct mg_buf buckets, filed, nodes;
  uint32_t *postings;
  uint32_t *slots; /* bucket by hash, open addressing, 0 for empty: bucket 0 is MG_ROUTE_KEY_ALWAYS and in no slot */
  uint32_t slot_mask;
  struct edge *edges;
  uint32_t edge_mask;
  uint64_t name_lengths; /* bit (length % 64) of every header name that has routes filed under it */
  uint32_t name_letters; /* bit (first byte % 32) of the same */
  unsigned used_kinds;   /* bit per literal kind that has routes filed under it */
  bool has_wildcards;
  bool sealed;
};

static struct bucket *bucket_at(const struct mg_route_index *index, uint32_t number)
{
  return &((struct bucket *)(void *)index->buckets.ptr)[number];
}

static uint32_t bucket_count(const struct mg_route_index *index)
{
  return (uint32_t)(index->buckets.len / sizeof(struct bucket));
}

static struct node *node_at(const struct mg_route_index *index, uint32_t number)
{
  return &((struct node *)(void *)index->nodes.ptr)[number];
}

static uint32_t add_node(struct mg_route_index *index, struct mg_str label)
{
  struct node node = {.label = label};
  mg_buf_append(&index->nodes, &node, sizeof node);
  return (uint32_t)(index->nodes.len / sizeof node) - 1;
}

struct mg_route_index *mg_route_index_new(void)
{
  struct mg_route_index *index = mg_calloc(1, sizeof *index);
  struct bucket always = {.kind = MG_PREDICATE_OPAQUE};
  mg_buf_append(&index->buckets, &always, sizeof always);
  index->slot_mask = 63;
  index->slots = mg_calloc(index->slot_mask + 1, sizeof *index->slots);
  return index;
}

void mg_route_index_free(struct mg_route_index **index)
{
  struct mg_route_index *old = *index;
  if (!old) return;
  *index = NULL;
  mg_buf_free(&old->buckets);
  mg_buf_free(&old->filed);
  mg_buf_free(&old->nodes);
  free(old->postings);
  free(old->slots);
  free(old->edges);
  free(old);
}

/* ---- literals by hash ---- */

static uint64_t hash_bytes(uint64_t hash, struct mg_str bytes, uint64_t fold)
{
  uint64_t word;
  size_t len = bytes.len;
  const char *at = bytes.ptr;
  hash ^= len;
  for (; len >= 8; at += 8, len -= 8) {
    memcpy(&word, at, 8);
    hash = (hash ^ (word | fold)) * HASH_FACTOR;
    hash ^= hash >> 32;
  }
  word = 0;
  for (size_t i = 0; i < len; i++) word |= (uint64_t)((uint8_t)at[i] | (uint8_t)fold) << (8 * i);
  hash = (hash ^ word) * HASH_FACTOR;
  return hash ^ (hash >> 29);
}

/* name_hash stands for the name, so that one pass over it serves both header kinds. */
static uint64_t hash_key(int kind, uint64_t name_hash, struct mg_str value)
{
  return hash_bytes(name_hash + (uint64_t)kind, value, kind == MG_PREDICATE_HOST ? FOLD : 0);
}

static bool bucket_is(const struct bucket *bucket, int kind, struct mg_str name, struct mg_str value)
{
  if (bucket->kind != kind || !mg_str_equal_nocase(bucket->name, name)) return false;
  return kind == MG_PREDICATE_HOST ? mg_str_equal_nocase(bucket->value, value) : mg_str_equal(bucket->value, value);
}

/* The slot of a literal: it holds its bucket, or is the empty one where that belongs. */
static uint32_t *find_slot(const struct mg_route_index *index, int kind, uint64_t hash, struct mg_str name,
                           struct mg_str value)
{
  uint32_t at = (uint32_t)hash & index->slot_mask;
  for (; index->slots[at]; at = (at + 1) & index->slot_mask) {
    const struct bucket *bucket = bucket_at(index, index->slots[at]);
    if (bucket->hash == hash && bucket_is(bucket, kind, name, value)) break;
  }
  return &index->slots[at];
}

/* Keeps the table at most half full, so that a probe is short and always ends. */
static void grow_slots(struct mg_route_index *index)
{
  uint32_t size = (index->slot_mask + 1) * 2;
  free(index->slots);
  index->slots = mg_calloc(size, sizeof *index->slots);
  index->slot_mask = size - 1;
  for (uint32_t number = 1; number < bucket_count(index); number++) {
    uint32_t at = (uint32_t)bucket_at(index, number)->hash & index->slot_mask;
    while (index->slots[at]) at = (at + 1) & index->slot_mask;
    index->slots[at] = number;
  }
}

static bool is_header(int kind)
{
  return kind == MG_PREDICATE_HEADER || kind == MG_PREDICATE_HAS_HEADER;
}

uint32_t mg_route_index_key(struct mg_route_index *index, int kind, struct mg_str name, struct mg_str value,
                            uint32_t route)
{
  MG_ASSERT(!index->sealed && kind != MG_PREDICATE_OPAQUE);
  if (kind == MG_PREDICATE_SEGMENTS) kind = MG_PREDICATE_PREFIX;           /* filed alike, tested apart */
  if (kind == MG_PREDICATE_HOST && value.len > 2 && value.ptr[0] == '*') { /* filed under ".example.com" */
    value = mg_str(value.ptr + 1, value.len - 1);
    index->has_wildcards = true;
  }
  if (!is_header(kind)) name.len = 0;
  if (kind == MG_PREDICATE_HAS_HEADER) value.len = 0;
  uint64_t hash = hash_key(kind, hash_bytes(0, name, FOLD), value);
  uint32_t *slot = find_slot(index, kind, hash, name, value);
  uint32_t number = *slot;
  if (!number) {
    struct bucket fresh = {.name = name, .value = value, .hash = hash, .kind = (uint8_t)kind};
    *slot = number = bucket_count(index);
    mg_buf_append(&index->buckets, &fresh, sizeof fresh);
    if (number >= index->slot_mask / 2) grow_slots(index);
  }
  struct bucket *bucket = bucket_at(index, number);
  if (bucket->last_route != route + 1) bucket->sharing++;
  bucket->last_route = route + 1;
  return number;
}

uint32_t mg_route_index_sharing(const struct mg_route_index *index, uint32_t key)
{
  return bucket_at(index, key)->sharing;
}

void mg_route_index_file(struct mg_route_index *index, uint32_t key, uint32_t route)
{
  MG_ASSERT(!index->sealed && key < bucket_count(index));
  struct posting posting = {key, route};
  mg_buf_append(&index->filed, &posting, sizeof posting);
  bucket_at(index, key)->count++;
}

/* ---- prefixes by radix tree ---- */

static struct edge *find_edge(const struct mg_route_index *index, uint32_t parent, char byte)
{
  uint64_t key = (uint64_t)(parent + 1) << 8 | (uint8_t)byte;
  uint32_t at = (uint32_t)(key * HASH_FACTOR >> 32) & index->edge_mask;
  while (index->edges[at].key && index->edges[at].key != key) at = (at + 1) & index->edge_mask;
  return &index->edges[at];
}

static void set_edge(struct mg_route_index *index, uint32_t parent, char byte, uint32_t child)
{
  *find_edge(index, parent, byte) = (struct edge){(uint64_t)(parent + 1) << 8 | (uint8_t)byte, child};
}

/* Cuts the edge to child after len bytes by a new node above it, so that the child's own edges stay as they are. */
static uint32_t split(struct mg_route_index *index, uint32_t parent, uint32_t child, size_t len)
{
  struct mg_str label = node_at(index, child)->label;
  uint32_t upper = add_node(index, mg_str(label.ptr, len));
  node_at(index, child)->label = mg_str(label.ptr + len, label.len - len);
  set_edge(index, parent, label.ptr[0], upper);
  set_edge(index, upper, label.ptr[len], child);
  return upper;
}

static void insert_prefix(struct mg_route_index *index, struct mg_str prefix, uint32_t bucket)
{
  uint32_t node = 0;
  for (size_t at = 0; at < prefix.len;) {
    struct mg_str rest = mg_str(prefix.ptr + at, prefix.len - at);
    const struct edge *edge = find_edge(index, node, rest.ptr[0]);
    if (!edge->key) {
      uint32_t leaf = add_node(index, rest);
      set_edge(index, node, rest.ptr[0], leaf);
      node = leaf;
      break;
    }
    uint32_t child = edge->child;
    struct mg_str label = node_at(index, child)->label;
    size_t common = 1;
    while (common < label.len && common < rest.len && label.ptr[common] == rest.ptr[common]) common++;
    node = common < label.len ? split(index, node, child, common) : child;
    at += common;
  }
  node_at(index, node)->bucket = bucket;
}

static void build_tree(struct mg_route_index *index)
{
  uint32_t prefixes = 0, size = 4;
  for (uint32_t i = 1; i < bucket_count(index); i++)
    prefixes += bucket_at(index, i)->kind == MG_PREDICATE_PREFIX && bucket_at(index, i)->count;
  while (size < prefixes * 4) size *= 2; /* an insertion makes at most two edges */
  index->edges = mg_calloc(size, sizeof *index->edges);
  index->edge_mask = size - 1;
  add_node(index, mg_str("", 0));
  for (uint32_t i = 1; i < bucket_count(index); i++) {
    const struct bucket *bucket = bucket_at(index, i);
    if (bucket->kind == MG_PREDICATE_PREFIX && bucket->count) insert_prefix(index, bucket->value, i);
  }
}

/* ---- sealing ---- */

void mg_route_index_seal(struct mg_route_index *index)
{
  MG_ASSERT(!index->sealed);
  index->sealed = true;
  uint32_t total = 0;
  for (uint32_t i = 0; i < bucket_count(index); i++) {
    struct bucket *bucket = bucket_at(index, i);
    bucket->first = total;
    total += bucket->count;
    if (!bucket->count || i == MG_ROUTE_KEY_ALWAYS) continue;
    index->used_kinds |= 1u << bucket->kind;
    if (!is_header(bucket->kind) || !bucket->name.len) continue;
    index->name_lengths |= UINT64_C(1) << (bucket->name.len % 64);
    index->name_letters |= UINT32_C(1) << ((uint8_t)bucket->name.ptr[0] % 32);
  }
  index->postings = mg_calloc(total + 1, sizeof *index->postings);
  uint32_t *next = mg_calloc(bucket_count(index), sizeof *next);
  const struct posting *filed = (const struct posting *)(const void *)index->filed.ptr;
  for (uint32_t i = 0; i < total; i++) { /* in file order, so every run comes out ascending */
    const struct bucket *bucket = bucket_at(index, filed[i].bucket);
    index->postings[bucket->first + next[filed[i].bucket]++] = filed[i].route;
  }
  free(next);
  mg_buf_free(&index->filed);
  build_tree(index);
}

/* ---- looking up ---- */

struct gathering {
  struct mg_route_cursor *cursors;
  unsigned count;
  bool full;
};

static void take(const struct mg_route_index *index, struct gathering *gathering, uint32_t number)
{
  const struct bucket *bucket = bucket_at(index, number);
  if (!bucket->count) return;
  if (gathering->count == MG_ROUTE_CURSORS_MAX) {
    gathering->full = true;
    return;
  }
  const uint32_t *first = index->postings + bucket->first;
  gathering->cursors[gathering->count++] = (struct mg_route_cursor){first, first + bucket->count};
}

static void take_key(const struct mg_route_index *index, struct gathering *gathering, int kind, uint64_t name_hash,
                     struct mg_str name, struct mg_str value)
{
  uint32_t number = *find_slot(index, kind, hash_key(kind, name_hash, value), name, value);
  if (number) take(index, gathering, number);
}

static void take_value(const struct mg_route_index *index, struct gathering *gathering, int kind, struct mg_str value)
{
  if (index->used_kinds & (1u << kind))
    take_key(index, gathering, kind, hash_bytes(0, MG_STR(""), FOLD), MG_STR(""), value);
}

static void take_prefixes(const struct mg_route_index *index, struct gathering *gathering, struct mg_str path)
{
  uint32_t number = 0;
  for (size_t at = 0;;) {
    const struct node *node = node_at(index, number);
    if (node->bucket) take(index, gathering, node->bucket);
    if (at == path.len) return;
    const struct edge *edge = find_edge(index, number, path.ptr[at]);
    if (!edge->key) return;
    number = edge->child;
    struct mg_str label = node_at(index, number)->label;
    if (label.len > path.len - at || memcmp(label.ptr, path.ptr + at, label.len) != 0) return;
    at += label.len;
  }
}

static void take_hosts(const struct mg_route_index *index, struct gathering *gathering, struct mg_str host)
{
  take_value(index, gathering, MG_PREDICATE_HOST, host);
  for (size_t i = 1; index->has_wildcards && i < host.len; i++)
    if (host.ptr[i] == '.') take_value(index, gathering, MG_PREDICATE_HOST, mg_str(host.ptr + i, host.len - i));
}

static void take_headers(const struct mg_route_index *index, struct gathering *gathering,
                         const struct mg_headers *headers)
{
  for (unsigned i = 0; i < headers->count; i++) {
    const struct mg_header *line = &headers->items[i];
    if (!line->name_len || line->flags & MG_HEADER_GONE) continue;
    if (!(index->name_lengths >> (line->name_len % 64) & 1)) continue; /* most lines end here, unhashed */
    if (!(index->name_letters >> ((uint8_t)line->name[0] % 32) & 1)) continue;
    struct mg_str name = mg_str(line->name, line->name_len), value = mg_str(line->value, line->value_len);
    uint64_t name_hash = hash_bytes(0, name, FOLD);
    take_key(index, gathering, MG_PREDICATE_HAS_HEADER, name_hash, name, MG_STR(""));
    take_key(index, gathering, MG_PREDICATE_HEADER, name_hash, name, value);
  }
}

int mg_route_index_gather(const struct mg_route_index *index, const struct mg_route_query *query,
                          struct mg_route_cursor cursors[MG_ROUTE_CURSORS_MAX])
{
  MG_ASSERT(index->sealed);
  struct gathering gathering = {.cursors = cursors};
  take(index, &gathering, MG_ROUTE_KEY_ALWAYS);
  take_value(index, &gathering, MG_PREDICATE_PATH, query->path);
  if (index->used_kinds & (1u << MG_PREDICATE_PREFIX)) take_prefixes(index, &gathering, query->path);
  if (index->used_kinds & (1u << MG_PREDICATE_HOST)) take_hosts(index, &gathering, query->host);
  take_value(index, &gathering, MG_PREDICATE_METHOD, query->method);
  if (index->name_lengths && query->headers) take_headers(index, &gathering, query->headers);
  return gathering.full ? -1 : (int)gathering.count;
}
