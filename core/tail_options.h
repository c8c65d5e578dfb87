/* tail_options.h - the command line of `moongate tail`, and tailer.yaml.   Thread: the main thread, at start. */
#pragma once

#include "select.h"

enum mg_tail_from { MG_FROM_CHECKPOINT, MG_FROM_START, MG_FROM_END };

struct mg_tail_options {
  char folder[4096];
  char checkpoint[4096]; /* its folder; empty: none */
  char status[4096];     /* of the file that says how far it is; empty: none */
  enum mg_tail_from from;
  bool follow;
  bool to_stdout; /* a reader of the standard output that goes away ends the tailer */
  struct mg_selection wanted;
  struct mg_assembler_bounds bounds;
  uint64_t poll_ms;
  struct mg_buf outputs; /* for mg_outputs_open, with a NUL */
};

/** Reads argv, and the file that --config names. MG_EXIT_DONE, or another exit code after a message on stderr. */
int mg_tail_parse(struct mg_tail_options *options, int argc, char **argv);

/** Prints how it is used. */
void mg_tail_usage(void);
