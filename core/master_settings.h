/* master_settings.h - the settings of a gateway as its master finds them, and as text for its workers.
 * Thread: the loop thread, at start. */
#pragma once

#include "cli.h"
#include "mem.h"
#include "settings.h"

/** Fills settings with what a bundle's section says, then the environment, then the command line, and text (empty at
 * first) with the same as key=value lines for the workers. 0, or -1 with a sentence in error. */
int mg_master_settings(struct mg_settings *settings, struct mg_buf *text, const struct mg_options *options,
                       struct mg_str section, struct mg_buf *error);

/** Makes sure that the access log, which the workers open themselves, can be opened. As above. */
int mg_master_check_access_log(const struct mg_settings *settings, struct mg_buf *error);

/** Changes one value in both. */
void mg_master_override(struct mg_settings *settings, struct mg_buf *text, const char *key, const char *value);
void mg_master_override_number(struct mg_settings *settings, struct mg_buf *text, const char *key, unsigned long value);
