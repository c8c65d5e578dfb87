/* api_meter.c - whose turn it is in a chain of filters: where the chain notes it, and the mark between two filters whose
 * time is taken.
 * Owns: nothing.   May call: exchange, meter.   Never: call Lua (an FFI call must not come back).   Thread: the
 * loop's. */
#include "api_private.h"

struct mg_turn *mg_filter_turn(void)
{
  struct mg_gateway *gateway = mg_api_gateway();
  return gateway ? &gateway->turn : NULL;
}

int mg_filter_next(const void *handle, unsigned index)
{
  const struct mg_gateway *gateway = mg_api_gateway();
  struct mg_exchange *ex = gateway ? gateway->running : NULL; /* it is the one that runs: no handle to check */
  (void)handle;
  if (!ex || index >= ex->generation->metered_count) return 1;
  bool ends = ex->answered && ex->phase == MG_PHASE_REQUEST; /* the other phases also run for answers of filters */
  mg_exchange_meter(ex, ends ? NULL : &ex->generation->metered[index]);
  if (!ends) mg_meter_add(&ex->generation->metered[index].meter->calls, 1);
  return ends;
}
