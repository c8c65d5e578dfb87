/* err.c - the outcomes of err.h as tables.
 * Owns: nothing.   May call: nothing.   Never: fail.   Thread: any. */
#include "err.h"

static const struct {
  int status;
  const char *word;
  const char *sentence;
} outcomes[] = {
#define X(name, status, word, sentence) {status, word, sentence},
    MG_ERR_MAP(X)
#undef X
};

static int known(int err)
{
  return err > MG_E_BASE && err < MG_E_END;
}

int mg_err_status(int err)
{
  return known(err) ? outcomes[mg_err_index(err)].status : 0;
}

const char *mg_err_word(int err)
{
  return err == MG_OK ? "ok" : known(err) ? outcomes[mg_err_index(err)].word : "unknown";
}

const char *mg_err_sentence(int err)
{
  return err == MG_OK ? "Done." : known(err) ? outcomes[mg_err_index(err)].sentence : "Unknown failure.";
}
