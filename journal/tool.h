/* tool.h - `moongate journal`: ls, show, find, verify, cat. */
#pragma once

#include "assemble.h"

/** What --format NAME means is for the layers above to say. */
struct mg_journal_formats {
  /* Opens a form by its name; to: a file or folder, NULL: the standard output. NULL with a message in why. */
  void *(*open)(const char *name, const char *to, struct mg_buf *why);
  bool (*want_bodies)(const void *form);
  /* False when no more is taken, with a message in why unless its reader has gone. */
  bool (*write)(void *form, const struct mg_found_exchange *exchange, struct mg_buf *why);
  /* Finishes and frees; a message in why when something is not written. */
  void (*close)(void *form, struct mg_buf *why);
};

/** argv[0] is "journal". Data on stdout, messages on stderr; exit codes as of every command. */
int mg_journal_main(int argc, char **argv, const struct mg_journal_formats *formats);
