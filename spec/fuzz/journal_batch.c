/* journal_batch.c - a batch and its entries from any bytes: nothing is read outside it, references stay inside it.
 * The first byte chooses: the rest is a whole batch, or the plain entries of one whose header is right. */
#include "fuzz.h"

#include "entry.h"

static void read_entries(struct mg_unpacker *unpacker, const struct mg_batch *batch)
{
  struct mg_scope scope = {0};
  struct mg_plain_entry plain;
  struct mg_entry entry;
  volatile size_t seen = 0;
  mg_scope_start(&scope, batch);
  while (mg_unpack_next(unpacker, &plain) == 1 && mg_entry_decode(&scope, &plain, &entry)) {
    seen += entry.line.len + entry.content.len + entry.route.len;
    for (size_t i = 0; i < entry.content.len; i += 97) seen += (unsigned char)entry.content.ptr[i];
    for (int k = 0; k < MG_MESSAGES; k++)
      for (uint32_t i = 0; i < entry.block[k].count; i++) {
        struct mg_str line = mg_scope_line(&scope, entry.block[k], i);
        MUST(line.ptr || !line.len);
        if (line.len) seen += (unsigned char)line.ptr[line.len - 1];
      }
  }
  mg_scope_free(&scope);
}

static void fuzz_one(const uint8_t *bytes, size_t len)
{
  static uint8_t whole[MG_BATCH_HEADER_BYTES + MG_BATCH_PLAIN_MAX];
  struct mg_unpacker *unpacker = mg_unpacker_new();
  struct mg_batch batch;
  if (len && bytes[0] % 2 && len - 1 <= MG_BATCH_PLAIN_MAX && len > 1) {
    const struct mg_batch made = {
        .base_lsn = 1, .count = 1, .plain_len = (uint32_t)len - 1, .coded_len = (uint32_t)len - 1};
    mg_batch_write(&made, whole);
    memcpy(whole + MG_BATCH_HEADER_BYTES, bytes + 1, len - 1);
    MUST(mg_unpack(unpacker, whole, MG_BATCH_HEADER_BYTES + len - 1, &batch));
    read_entries(unpacker, &batch);
  } else if (len && mg_unpack(unpacker, bytes + 1, len - 1, &batch)) {
    read_entries(unpacker, &batch);
  }
  mg_unpacker_free(&unpacker);
}
