/* states.h - what filters of all workers share: room in the upper half of shared memory, found by name.
 *
 * A bundle's section `states` holds one line for each: a name of 64 hexadecimal digits, a blank, its size in bytes.
 * The name is made of what the state belongs to and of its settings, so that a reload that changes neither finds it as
 * it was. The master makes them before it sends the bundle; workers look them up while they build. */
#pragma once

#include "mem.h"
#include "shm.h"

/** Makes what next names (master only). With alone, no generation but the current one is in use anywhere, and what
 * neither current nor next names is given back first. 0, or MG_EINTERNAL with a sentence in error. */
int mg_states_want(struct mg_shm *shm, struct mg_str current, struct mg_str next, bool alone, struct mg_buf *error);

/** The state of that name, at least size bytes, aligned to a page; NULL when there is none. Zero bytes when it was
 * made. */
void *mg_states_find(const struct mg_shm *shm, struct mg_str name, size_t size);

/** 16 random bytes, the same in every process once there is a state: for hashes of what clients send. */
const uint64_t *mg_states_seed(const struct mg_shm *shm);
