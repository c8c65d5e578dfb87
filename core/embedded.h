/* embedded.h - files that are part of the executable.   Thread: any. */
#pragma once

#include "mem.h"

/** The bytes of a file by its path in the source tree ("lua/check.lua"); ptr NULL when there is none. Static. */
struct mg_str mg_embedded(const char *name);
