/* regex.c - regular expressions through PCRE2.
 * Owns: the compiled pattern, room for one match, the text of the last replacement.   May call: mem, err, pcre2.
 * Never: run without a budget, know a request.   Thread: built on one, used by one. */
#include "regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

#include "err.h"
#include "mem.h"

enum {
  STACK_BYTES_FIRST = 32 * 1024, /* PCRE2 takes as much of the machine's stack where it is given none */
  HEAP_KIB_MAX = 2048,           /* of a pattern that could not be compiled to machine code */
  REPLACED_MAX = 64 << 20,       /* bytes of a text after its matches were replaced */
  KEPT_MAX = 1 << 20             /* of them, until the next time */
};

struct mg_regex {
  pcre2_code *code;
  pcre2_match_data *match;
  pcre2_match_context *limits;
  pcre2_jit_stack *stack; /* NULL until a match needed more than the machine's */
  struct mg_buf replaced;
};

static pcre2_code *compile(const char *pattern, size_t len, bool whole, int *error, PCRE2_SIZE *at)
{
  uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
  if (whole) options |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (!context) return NULL;
  pcre2_set_max_pattern_length(context, MG_REGEX_PATTERN_BYTES_MAX);
  pcre2_set_newline(context, PCRE2_NEWLINE_ANYCRLF);
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, len, options, error, at, context);
  pcre2_compile_context_free(context);
  return code;
}

struct mg_regex *mg_regex_new(const char *pattern, size_t len, int whole, char *error, size_t error_size)
{
  int code = 0;
  PCRE2_SIZE at = 0;
  struct mg_regex *regex = mg_calloc(1, sizeof *regex);
  regex->code = compile(pattern, len, whole, &code, &at);
  if (!regex->code) {
    char why[160];
    if (pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why) < 0) snprintf(why, sizeof why, "error %d", code);
    snprintf(error, error_size, "%s at character %zu", why, (size_t)at + 1);
    mg_regex_release(regex);
    return NULL;
  }
  pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE); /* without it a match is slower, and under the same budget */
  regex->match = pcre2_match_data_create_from_pattern(regex->code, NULL);
  regex->limits = pcre2_match_context_create(NULL);
  if (!regex->match || !regex->limits) {
    snprintf(error, error_size, "out of memory");
    mg_regex_release(regex);
    return NULL;
  }
  pcre2_set_match_limit(regex->limits, MG_REGEX_STEPS_MAX);
  pcre2_set_heap_limit(regex->limits, HEAP_KIB_MAX);
  return regex;
}

void mg_regex_release(struct mg_regex *regex)
{
  if (!regex) return;
  pcre2_match_data_free(regex->match);
  pcre2_match_context_free(regex->limits);
  if (regex->stack) pcre2_jit_stack_free(regex->stack);
  pcre2_code_free(regex->code);
  mg_buf_free(&regex->replaced);
  free(regex);
}

/* Gives a pattern that has used up the machine's share of stack one of its own; false if it has one already. */
static bool deepen_stack(struct mg_regex *regex)
{
  if (regex->stack) return false;
  regex->stack = pcre2_jit_stack_create(STACK_BYTES_FIRST, MG_REGEX_STACK_BYTES_MAX, NULL);
  if (regex->stack) pcre2_jit_stack_assign(regex->limits, NULL, regex->stack);
  return regex->stack != NULL;
}

int mg_regex_test(struct mg_regex *regex, const char *text, size_t len, size_t from)
{
  int result;
  if (!regex || from > len) return 0;
  do {
    result = pcre2_match(regex->code, (PCRE2_SPTR)text, len, from, 0, regex->match, regex->limits);
  } while (result == PCRE2_ERROR_JIT_STACKLIMIT && deepen_stack(regex));
  if (result == PCRE2_ERROR_NOMATCH) return 0;
  return result < 0 ? MG_EREGEX : 1;
}

static int edge(const struct mg_regex *regex, unsigned group, bool end)
{
  if (!regex || group >= pcre2_get_ovector_count(regex->match)) return -1;
  PCRE2_SIZE at = pcre2_get_ovector_pointer(regex->match)[2 * group + end];
  return at == PCRE2_UNSET ? -1 : (int)at;
}

int mg_regex_group_start(const struct mg_regex *regex, unsigned group)
{
  return edge(regex, group, false);
}

int mg_regex_group_end(const struct mg_regex *regex, unsigned group)
{
  return edge(regex, group, true);
}

int mg_regex_group_count(const struct mg_regex *regex)
{
  uint32_t count = 0;
  if (regex) pcre2_pattern_info(regex->code, PCRE2_INFO_CAPTURECOUNT, &count);
  return (int)count;
}

int mg_regex_group_number(const struct mg_regex *regex, const char *name, size_t len)
{
  char text[33]; /* PCRE2's names have at most 32 characters */
  if (!regex || len >= sizeof text) return -1;
  memcpy(text, name, len);
  text[len] = '\0';
  int number = pcre2_substring_number_from_name(regex->code, (PCRE2_SPTR)text);
  return number < 0 ? -1 : number;
}

int mg_regex_replace(struct mg_regex *regex, const char *text, size_t len, const char *replacement,
                     size_t replacement_len, const char **out, size_t *out_len)
{
  const uint32_t options = PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_UNSET_EMPTY | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH;
  PCRE2_SIZE room = len + replacement_len + 64;
  int count;
  if (!regex) return MG_EINTERNAL;
  if (regex->replaced.capacity > KEPT_MAX) mg_buf_free(&regex->replaced);
  do { /* twice at most for room: the first time it says how much it needs */
    regex->replaced.len = 0;
    mg_buf_reserve(&regex->replaced, room);
    room = regex->replaced.capacity;
    count = pcre2_substitute(regex->code, (PCRE2_SPTR)text, len, 0, options, regex->match, regex->limits,
                             (PCRE2_SPTR)replacement, replacement_len, (PCRE2_UCHAR *)regex->replaced.ptr, &room);
    if (count == PCRE2_ERROR_NOMEMORY && room > REPLACED_MAX) return MG_EREGEX;
  } while (count == PCRE2_ERROR_NOMEMORY || (count == PCRE2_ERROR_JIT_STACKLIMIT && deepen_stack(regex)));
  if (count > 0) {
    *out = regex->replaced.ptr;
    *out_len = regex->replaced.len = room;
  }
  if (count >= 0) return count;
  bool over = count == PCRE2_ERROR_MATCHLIMIT || count == PCRE2_ERROR_DEPTHLIMIT || count == PCRE2_ERROR_HEAPLIMIT ||
              count == PCRE2_ERROR_JIT_STACKLIMIT;
  return over ? MG_EREGEX : MG_EINTERNAL;
}
