/* output_private.h - what the files that define functions of lua/output_ffi.h share. Nobody else includes it.
 *
 * Every such file includes this header first: the declarations get default visibility, so that ffi.C finds them. */
#pragma once

#pragma GCC visibility push(default)
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output_ffi.h"
#pragma GCC visibility pop

#include "output.h"

/** Fills view from exchange, whose texts it borrows. */
void mg_output_view(const struct mg_found_exchange *exchange, enum mg_incomplete incomplete,
                    struct mg_out_exchange *view);
