/* api_match.c - what filters ask of a request's headers, parameters and cookies without making strings of them.
 * Owns: nothing.   May call: exchange, predicates.   Never: call Lua (an FFI call must not come back).   Thread: the
 * loop's. */
#include "api_private.h"

#include "predicates.h"

_Static_assert((int)MG_DECIDE_FUNCTION == (int)MG_TEST_FUNCTION && (int)MG_DECIDE_CLIENT_IN == (int)MG_TEST_CLIENT_IN,
               "tests");

void mg_script_over_budget(void)
{
  struct mg_gateway *gateway = mg_api_gateway();
  if (gateway) gateway->over_budget = true;
}

/* A result of predicates.h as one for Lua. */
static int told(int result)
{
  if (result >= 0) return result;
  if (result == MG_ENOMEM) return MG_LUA_NOMEM;
  mg_script_over_budget();
  return MG_LUA_REGEX;
}

int mg_request_header_matches(struct mg_request *request, const char *name, size_t name_len, struct mg_regex *regex)
{
  struct mg_exchange *ex = find(request);
  const struct mg_value_check check = {.regex = regex};
  return ex ? told(mg_header_passes(&ex->request.headers, mg_str(name, name_len), &check)) : MG_LUA_GONE;
}

int mg_request_query_matches(struct mg_request *request, const char *name, size_t name_len, struct mg_regex *regex)
{
  struct mg_exchange *ex = find(request);
  const struct mg_value_check check = {.regex = regex};
  return ex ? told(mg_query_passes(ex->target.query, mg_str(name, name_len), &check, &ex->arena)) : MG_LUA_GONE;
}

int mg_request_cookie_matches(struct mg_request *request, const char *name, size_t name_len, struct mg_regex *regex)
{
  struct mg_exchange *ex = find(request);
  const struct mg_value_check check = {.regex = regex};
  return ex ? told(mg_cookie_passes(&ex->request.headers, mg_str(name, name_len), &check)) : MG_LUA_GONE;
}

int mg_request_has_query(struct mg_request *request, const char *name, size_t name_len)
{
  return mg_request_query_matches(request, name, name_len, NULL);
}

int mg_request_has_cookie(struct mg_request *request, const char *name, size_t name_len)
{
  return mg_request_cookie_matches(request, name, name_len, NULL);
}
