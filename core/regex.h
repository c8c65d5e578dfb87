/* regex.h - regular expressions: PCRE2, compiled to machine code where that is possible, ended by a budget.
 *
 * A pattern is compiled for one of two questions: whether it matches a whole text, or where it is found in one.
 * Bytes that are no UTF-8 match nothing, not even '.'. A subject that costs more than MG_REGEX_STEPS_MAX steps is an
 * error, never a wait. Nothing is allocated by a match, but once the deeper stack of a pattern that asks for it.
 * Thread: built on one, used by one. */
#pragma once

#include <stddef.h>

enum { MG_REGEX_PATTERN_BYTES_MAX = 8192, MG_REGEX_STEPS_MAX = 1000000, MG_REGEX_STACK_BYTES_MAX = 512 * 1024 };

struct mg_regex;

#pragma GCC visibility push(default) /* filters use them (lua/moongate_ffi.h) */

/** Compiles pattern (borrowed). whole: it must match a text from end to end. On failure NULL, with what is wrong and
 * where in error (of error_size bytes, always ended by a NUL). Ends with mg_regex_release. */
struct mg_regex *mg_regex_new(const char *pattern, size_t len, int whole, char *error, size_t error_size);
void mg_regex_release(struct mg_regex *regex); /* NULL is let pass */

/** 1 if it matches text (a whole one) or is found in it at or after from; 0 if not; MG_EREGEX over budget. from is a
 * byte offset at which a character begins. */
int mg_regex_test(struct mg_regex *regex, const char *text, size_t len, size_t from);

/** Where group (0: the whole match) of the last successful test begins and ends, as byte offsets; -1 when it took no
 * part. */
int mg_regex_group_start(const struct mg_regex *regex, unsigned group);
int mg_regex_group_end(const struct mg_regex *regex, unsigned group);

/** How many groups the pattern has besides group 0. */
int mg_regex_group_count(const struct mg_regex *regex);
/** The number of a named group, or -1. */
int mg_regex_group_number(const struct mg_regex *regex, const char *name, size_t len);

/** Replaces every match in text by replacement, in which ${n} stands for a group (nothing, where it took no part)
 * and $$ for a '$'. The number of replacements, with the result in *out (*out_len bytes, the regex's, until its
 * next call); 0 leaves *out as it is. MG_EREGEX over budget, or where the result would have more than 64 MB;
 * MG_EINTERNAL for a replacement that is none. */
int mg_regex_replace(struct mg_regex *regex, const char *text, size_t len, const char *replacement,
                     size_t replacement_len, const char **out, size_t *out_len);

#pragma GCC visibility pop
