/* json.h - the few things of JSON that take care to write.   Thread: any. */
#pragma once

#include "mem.h"

/** Appends text as a JSON string, quotes included. Bytes from 0x80 on pass as they are. */
void mg_json_string(struct mg_buf *out, struct mg_str text);
/** Appends `"name":"text",` or, with text NULL, `"name":null,`. */
void mg_json_field(struct mg_buf *out, const char *name, const char *text);
/** Appends `"name":number,`. */
void mg_json_number(struct mg_buf *out, const char *name, uint64_t number);
/** Takes a comma off the end, if there is one, and appends close ("}", "]"). */
void mg_json_close(struct mg_buf *out, const char *close);
