/* group.c - which member of an upstream group comes next.
 * Owns: a group's members.   May call: upstream.   Never: open a connection.   Thread: the loop's. */
#include <math.h>
#include <stdlib.h>

#include "upstream.h"

enum { WEIGHT_SCALE = 100 };

bool mg_group_add(struct mg_group *group, struct mg_str key, struct mg_str authority, struct mg_str path_prefix,
                  unsigned weight)
{
  if (group->count == MG_GROUP_TARGETS_MAX) return false;
  group->members = mg_realloc(group->members, (group->count + 1) * sizeof *group->members);
  group->members[group->count++] =
      (struct mg_member){.key = mg_strndup(key.ptr, key.len),
                         .authority = mg_str(mg_strndup(authority.ptr, authority.len), authority.len),
                         .path_prefix = mg_str(mg_strndup(path_prefix.ptr, path_prefix.len), path_prefix.len),
                         .weight = weight ? weight : 1};
  return true;
}

void mg_group_attach(struct mg_group *group, struct mg_upstreams *upstreams)
{
  for (unsigned i = 0; i < group->count; i++) {
    struct mg_member *member = &group->members[i];
    member->target = mg_target_find(upstreams, mg_str(member->key, strlen(member->key)), group);
  }
}

void mg_group_free(struct mg_group *group)
{
  for (unsigned i = 0; i < group->count; i++) {
    free(group->members[i].key);
    free((char *)group->members[i].authority.ptr);
    free((char *)group->members[i].path_prefix.ptr);
  }
  free(group->members);
  free((char *)group->hash_name.ptr);
  group->members = NULL;
  group->count = 0;
}

static bool is_tried(const struct mg_tried *tried, unsigned index)
{
  return tried->bits[index / 64] >> (index % 64) & 1;
}

/* Weight by which a member takes part now: a target that came back lately gets a growing share. */
static int64_t weight_now(const struct mg_group *group, const struct mg_member *member)
{
  uint64_t since = group->slow_start_ms ? mg_target_up_since_ms(member->target) : 0;
  int64_t full = (int64_t)member->weight * WEIGHT_SCALE;
  if (!since) return full;
  uint64_t now = uv_hrtime() / 1000000;
  if (now - since >= group->slow_start_ms) return full;
  int64_t part = full * (int64_t)(now - since) / (int64_t)group->slow_start_ms;
  return part > 1 ? part : 1;
}

static int by_round_robin(struct mg_group *group, const bool *usable)
{
  int64_t total = 0;
  int best = -1;
  for (unsigned i = 0; i < group->count; i++) {
    if (!usable[i]) continue;
    int64_t weight = weight_now(group, &group->members[i]);
    group->members[i].current += weight;
    total += weight;
    if (best < 0 || group->members[i].current > group->members[best].current) best = (int)i;
  }
  if (best >= 0) group->members[best].current -= total;
  return best;
}

static uint64_t mix(uint64_t x) /* splitmix64's finaliser */
{
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static int nth_usable(const struct mg_group *group, const bool *usable, unsigned nth)
{
  for (unsigned i = 0; i < group->count; i++)
    if (usable[i] && nth-- == 0) return (int)i;
  return -1;
}

/* Two random members, the one with fewer requests for its weight. */
static int by_least_requests(struct mg_group *group, struct mg_upstreams *upstreams, const bool *usable,
                             unsigned usable_count)
{
  upstreams->random += 0x9e3779b97f4a7c15u;
  uint64_t random = mix(upstreams->random);
  unsigned first = (unsigned)(random & 0xffffffffu) % usable_count;
  unsigned second =
      usable_count > 1 ? (first + 1 + (unsigned)(random >> 32) % (usable_count - 1)) % usable_count : first;
  int a = nth_usable(group, usable, first), b = nth_usable(group, usable, second);
  int64_t load_a = (int64_t)(mg_target_active(group->members[a].target) + 1) * weight_now(group, &group->members[b]);
  int64_t load_b = (int64_t)(mg_target_active(group->members[b].target) + 1) * weight_now(group, &group->members[a]);
  return load_a <= load_b ? a : b;
}

/* Weighted rendezvous hashing: a member that goes moves only its own keys. */
static int by_hash(const struct mg_group *group, uint64_t hash, const bool *usable)
{
  int best = -1;
  double best_score = 0;
  for (unsigned i = 0; i < group->count; i++) {
    if (!usable[i]) continue;
    uint64_t own = hash;
    for (const char *c = group->members[i].key; *c; c++) own = (own ^ (uint8_t)*c) * 0x100000001b3u;
    double unit = ((double)(mix(own) >> 11) + 0.5) / 9007199254740992.0; /* in (0, 1) */
    double score = -(double)group->members[i].weight / log(unit);
    if (best < 0 || score > best_score) best = (int)i, best_score = score;
  }
  return best;
}

int mg_group_choose(struct mg_group *group, struct mg_upstreams *upstreams, uint64_t hash, struct mg_tried *tried)
{
  if (group->count == 1) { /* nothing to weigh */
    if (is_tried(tried, 0) || mg_target_is_down(group->members[0].target)) return -1;
    tried->bits[0] = 1;
    return 0;
  }
  bool usable[MG_GROUP_TARGETS_MAX];
  unsigned usable_count = 0;
  uint64_t now = uv_now(upstreams->net->loop);
  for (int with_resting = 0; with_resting < 2 && usable_count == 0; with_resting++) {
    for (unsigned i = 0; i < group->count; i++) {
      const struct mg_target *target = group->members[i].target;
      usable[i] = !is_tried(tried, i) && !mg_target_is_down(target) && (with_resting || !mg_target_rests(target, now));
      usable_count += usable[i];
    }
  }
  if (usable_count == 0) return -1;
  int choice = usable_count == 1                       ? nth_usable(group, usable, 0)
               : group->strategy == MG_LEAST_REQUESTS  ? by_least_requests(group, upstreams, usable, usable_count)
               : group->strategy == MG_CONSISTENT_HASH ? by_hash(group, hash, usable)
                                                       : by_round_robin(group, usable);
  tried->bits[choice / 64] |= 1ull << (choice % 64);
  return choice;
}

bool mg_group_down(const struct mg_group *group)
{
  for (unsigned i = 0; i < group->count; i++)
    if (!mg_target_is_down(group->members[i].target)) return false;
  return true;
}
