/* cookie.h - pairs of Cookie lines (RFC 6265, 4.2.1). Pure. Thread: any. */
#pragma once

#include "headers.h"

/** Takes the next pair off a Cookie line; start with *rest as the whole value. What has no '=' is passed over,
 * quotes belong to a value. False when nothing is left. Both borrow from the line. */
bool mg_cookie_next(struct mg_str *rest, struct mg_str *name, struct mg_str *value);

/** The value of the first cookie of that name, as it stands; borrowed from the line. False if there is none. */
bool mg_cookie_get(const struct mg_headers *headers, struct mg_str name, struct mg_str *value);

/** True if name can stand in a Cookie line: neither empty nor with control characters, blanks, '=', ';' or ','. */
bool mg_cookie_name_ok(struct mg_str name);
/** True if value can: no control characters but TAB, no ';'. */
bool mg_cookie_value_ok(struct mg_str value);

/** Changes the Cookie lines of list: value takes the place of the first pair of that name (or comes last), further
 * ones go; with value NULL all go. A line that has nothing left goes too. Copies; 0 or MG_ENOMEM. */
int mg_cookie_set(struct mg_headers *list, struct mg_str name, const struct mg_str *value);
