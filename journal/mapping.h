/* mapping.h - mapped files whose pages somebody else may take away.
 *
 * When a file is cut short while it is mapped, a page of it cannot be read, or a store needs room that the disk does
 * not have, the touch of that page is a SIGBUS, which would end the process. In mappings made here the page is
 * replaced by memory of zeros and the mapping is called lost: what stood in the page is gone, and what is stored there
 * from now on no other process will ever see. A SIGBUS anywhere else ends the process as before.
 * Thread: any. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Maps size bytes of fd, shared, with mmap's protection. 0 or -errno (-ENOMEM: too many mappings in this process). */
int mg_mapping_make(int fd, size_t size, int protection, uint8_t **map);
void mg_mapping_end(uint8_t *map, size_t size);

/** Whether a page of the mapping had to be replaced: true from the faulting access on. Never NULL; valid until the
 * mapping is ended. */
const _Atomic bool *mg_mapping_lost(const uint8_t *map);
