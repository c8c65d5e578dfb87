/* query.h - the parameters of a query string, read and changed without touching those that are not meant.
 * Pure. Thread: any. */
#pragma once

#include "mem.h"

/** One parameter as it stands in the query: "a=b", "a=" or "a". Borrows from it. */
struct mg_query_pair {
  struct mg_str whole, name;
  struct mg_str value; /* empty without '=' */
};

/** Takes the next pair off a query string without '?'; start with *rest as the whole. Empty ones are passed over. */
bool mg_query_next(struct mg_str *rest, struct mg_query_pair *pair);

/** True if an encoded word means plain. */
bool mg_query_word_is(struct mg_str word, struct mg_str plain);

/** Decodes an encoded word into the arena: escapes, and '+' as a blank; a malformed escape stays. ptr NULL when it
 * is full. */
struct mg_str mg_query_decode(struct mg_str word, struct mg_arena *arena);

/** The decoded value of the first parameter of that name, in the arena; false when it is not there. A bare name has
 * an empty value. */
bool mg_query_get(struct mg_str query, struct mg_str name, struct mg_arena *arena, struct mg_str *value);

enum mg_query_op {
  MG_QUERY_SET,   /* value in the place of the first of that name (or at the end), further ones go */
  MG_QUERY_ADD,   /* one more at the end */
  MG_QUERY_REMOVE /* all of that name go */
};

/** The query string with one parameter changed, in the arena; name and value are plain and are encoded, what else is
 * there stays as it is. ptr NULL when the arena is full. */
struct mg_str mg_query_edit(struct mg_str query, enum mg_query_op op, struct mg_str name, struct mg_str value,
                            struct mg_arena *arena);
