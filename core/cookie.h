/* cookie.h - pairs of Cookie lines (RFC 6265, 4.2.1). Pure. Thread: any. */
#pragma once

#include "headers.h"

/** The value of the first cookie of that name, as it stands (quotes belong to it); borrowed from the line. False if there is none. */
bool mg_cookie_get(const struct mg_headers *headers, struct mg_str name, struct mg_str *value);
