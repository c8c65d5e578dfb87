/* output_command.c - what --format means to `moongate journal`.
 * Owns: nothing.   May call: output, the journal's tool.   Never: read a journal itself.   Thread: the main thread. */
#include "output_command.h"

#include "output.h"
#include "tool.h"

static void *open_form(const char *name, const char *to, struct mg_buf *why)
{
  struct mg_buf config = {0};
  mg_outputs_config(name, to, &config);
  struct mg_outputs *outputs = mg_outputs_open(config.ptr, NULL, MG_OUTPUTS_AT_ONCE, why);
  mg_buf_free(&config);
  return outputs;
}

static bool want_bodies(const void *form)
{
  return mg_outputs_want_bodies(form);
}

static bool write_form(void *form, const struct mg_found_exchange *exchange, struct mg_buf *why)
{
  return mg_outputs_write(form, exchange, MG_COMPLETE, why);
}

static void close_form(void *form, struct mg_buf *why)
{
  struct mg_outputs *outputs = form;
  mg_outputs_close(&outputs, why);
}

int mg_output_journal_main(int argc, char **argv)
{
  static const struct mg_journal_formats formats = {open_form, want_bodies, write_form, close_form};
  return mg_journal_main(argc, argv, &formats);
}
