/* core_json.c - strings that need escapes, and closing what may be empty. */
#include "json.h"

#include "t.h"

TEST(strings)
{
  struct mg_buf out = {0};
  mg_json_string(&out, mg_str("a\"b\\c\n\x01\xc3\xa9", 9));
  CHECK_STR(mg_str(out.ptr, out.len), "\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa9\"");
  mg_buf_free(&out);
  mg_json_string(&out, mg_str(NULL, 0));
  CHECK_STR(mg_str(out.ptr, out.len), "\"\"");
  mg_buf_free(&out);
}

TEST(members)
{
  struct mg_buf out = {0};
  mg_buf_append(&out, "{", 1);
  mg_json_field(&out, "a", "x");
  mg_json_field(&out, "b", NULL);
  mg_json_number(&out, "c", UINT64_MAX);
  mg_buf_printf(&out, "\"d\":[");
  mg_json_close(&out, "]}");
  CHECK_STR(mg_str(out.ptr, out.len), "{\"a\":\"x\",\"b\":null,\"c\":18446744073709551615,\"d\":[]}");
  mg_json_close(&out, "");
  mg_json_number(&out, "e", 1);
  mg_json_close(&out, "!");
  CHECK_STR(mg_str(out.ptr + out.len - 6, 6), "\"e\":1!");
  mg_buf_free(&out);
}

RUN_TESTS({"strings", strings}, {"members", members})
