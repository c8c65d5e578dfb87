/* left_stage.h - the stage that a process left behind, read for recovery.   Thread: one per object. */
#pragma once

#include "stage.h"

struct mg_left_slot {
  const uint8_t *bytes;
  uint64_t base_lsn;
  uint64_t count; /* entries whose checksums are right, from the first on */
};

struct mg_left_stage {
  struct mg_stage_header header; /* epoch 0: there is none */
  struct mg_left_slot *slots;    /* those with entries, by LSN */
  size_t count;
  unsigned damages; /* committed entries with a wrong checksum: their slots end there */
  uint8_t *copy;
};

/** Reads the file at path. 0; -ENOENT; -EBADMSG when it is no stage of this version; -errno. */
int mg_left_stage_load(struct mg_left_stage *stage, const struct mg_file_ops *ops, const char *path);
void mg_left_stage_free(struct mg_left_stage *stage);

/** Whether it holds that entry. */
bool mg_left_stage_has(const struct mg_left_stage *stage, uint64_t lsn);
