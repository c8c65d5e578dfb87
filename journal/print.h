/* print.h - an exchange of the journal as a line of JSON, or as text for people. Pure. Thread: any. */
#pragma once

#include "assemble.h"

/** One JSON object without a line end. Texts, which are ISO-8859-1, become UTF-8; bodies that are no text are
 * base64. */
void mg_print_json(const struct mg_found_exchange *exchange, struct mg_buf *out);
/** As mg_print_json, but only what tells exchanges apart: no headers, no bodies, a long request line cut. */
void mg_print_json_brief(const struct mg_found_exchange *exchange, struct mg_buf *out);
/** Several lines. */
void mg_print_text(const struct mg_found_exchange *exchange, struct mg_buf *out);
/** One line: time, status, duration, route, request line. */
void mg_print_brief(const struct mg_found_exchange *exchange, struct mg_buf *out);
/** "2026-11-30T21:00:00.123456Z" */
void mg_print_time(uint64_t us, struct mg_buf *out);
