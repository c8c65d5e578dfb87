/* space.h - room on the disk that the journal is on.   Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Bytes that may still be written below folder. False when it is not there: nothing is recorded, then. */
bool mg_space_left(const char *folder, uint64_t *bytes);
