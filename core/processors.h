/* processors.h - how many workers this machine, or the share of it that we were given, is good for. Thread: any. */
#pragma once

/** Processors this process may run on (affinity), capped by the CPU quota of its cgroups (v2 and v1) rounded down; at
 * least 1. */
unsigned mg_processors(void);

/** The quota alone, in whole processors; 0 when there is none. membership is the path of a /proc/<pid>/cgroup file,
 * root where the cgroup file systems are mounted. Every ancestor's quota counts. */
unsigned mg_processors_quota(const char *membership, const char *root);
