/* worker.h - a worker process: what connects the data path (gateway.h) with the master.
 *
 * Started by the master alone, with these descriptors: 3 control pipe, 4 shared memory, 5 standard output for the
 * access log, from 6 on its listening sockets.
 * Thread: the main thread is the loop; generations are built in libuv's pool. */
#pragma once

enum { MG_WORKER_CONTROL_FD = 3, MG_WORKER_SHM_FD = 4, MG_WORKER_OUTPUT_FD = 5, MG_WORKER_LISTENER_FD = 6 };

enum { MG_HEARTBEAT_MS = 200 };

/** Runs a worker until the master says DRAIN, or is gone, and the last exchange has ended. argv: --slot N --listeners
 * N. */
int mg_worker_main(int argc, char **argv);
