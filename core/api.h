/* api.h - ties the functions of lua/moongate_ffi.h to this process's gateway. */
#pragma once

struct mg_gateway;

/** Handles are looked up in gateway (borrowed) from now on; NULL unties. */
void mg_api_bind(struct mg_gateway *gateway);
