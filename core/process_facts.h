/* process_facts.h - what the kernel says of one of our processes.   Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mg_process_facts {
  uint64_t open_fds;
  uint64_t max_fds;
  uint64_t resident_bytes;
  double cpu_seconds;
};

/** False when pid is gone or cannot be looked at. */
bool mg_process_facts(pid_t pid, struct mg_process_facts *facts);
