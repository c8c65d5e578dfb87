/* output.h - exchanges of the journal on their way out: JSON lines, WARC files and whatever else a Lua module makes.
 *
 * A set of outputs takes exchanges one by one and all of it or nothing: what was not taken is to be offered again,
 * so that nothing is skipped and, after a fault, something may arrive twice (its id tells). Outputs are modules in
 * Lua (journal/README.md, "Outputs") in a lua_State of their own.
 * Thread: one per set. */
#pragma once

#include "assemble.h"

struct mg_outputs;

/* How a set is used. BIT_BY_BIT: flushed durably as it goes, so that an output whose file is nothing before it is closed
 * (har) is refused. */
enum mg_outputs_use { MG_OUTPUTS_AT_ONCE, MG_OUTPUTS_BIT_BY_BIT };

/** Opens a set. config is JSON, a list of outputs with options as one would write them in YAML:
 *    [{"output": "warc", "options": {"output_dir": "/warc"}}, {"output": "json", "options": {"output": "stdout"}}]
 * NAME is a built-in output (json, warc, combined, har, curl, raw), outputs/NAME.lua in folder (NULL: the current
 * one), or the Lua module moongate.outputs.NAME. An output that archives (warc) is served before those that only
 * tell, whatever the order. Files that an earlier run left open are made whole first: a torn end is cut off, the rest
 * is sealed. From here on SIGPIPE is ignored in this process. NULL, with one message appended to why, when a name is
 * unknown, an option is refused or a file cannot be made. */
struct mg_outputs *mg_outputs_open(const char *config, const char *folder, enum mg_outputs_use use, struct mg_buf *why);

/** Whether some output wants the bodies of exchanges (mg_assembler_new). */
bool mg_outputs_want_bodies(const struct mg_outputs *outputs);

/** Offers an exchange; borrowed. True: every output has taken it, though it may still be in a buffer (mg_outputs_flush).
 * False, with the message of the first that failed appended to why: it was not taken, what earlier outputs had made
 * of it was taken back where they can, and it must be offered again. An exchange that has not ended is incomplete
 * whatever is said. */
bool mg_outputs_write(struct mg_outputs *outputs, const struct mg_found_exchange *exchange,
                      enum mg_incomplete incomplete, struct mg_buf *why);

/** Hands everything that was taken to the system, so that readers of the files and pipes have it; with durable also
 * to the disk (fsync). Only when a durable flush returns true may a checkpoint move past what was written before.
 * Also begins new files where the old ones are too old: to be called now and then when nothing is written. False, with
 * a message appended to why: nothing is lost, but not delivered; call again. */
bool mg_outputs_flush(struct mg_outputs *outputs, bool durable, struct mg_buf *why);

/** True once a pipe's reader is gone (`| head -1`): nothing more is taken, mg_outputs_write and _flush return false
 * without a message, and it is no failure: end with exit code 0. */
bool mg_outputs_ended(const struct mg_outputs *outputs);

/** Flushes durably, seals files (renames them to their final names) and frees. False, with a message appended to
 * why, when that failed: what was not delivered is then still only in the journal. */
bool mg_outputs_close(struct mg_outputs **outputs, struct mg_buf *why);

/** `--format NAME[:OPTION=VALUE,...]`: the JSON for mg_outputs_open of one output that writes to `to` (NULL: what its
 * options say), appended to config as a NUL-terminated text. An option without a value is true. */
void mg_outputs_config(const char *name, const char *to, struct mg_buf *config);
