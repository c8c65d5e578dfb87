/* master.h - `moongate run`: the process that owns the sockets and starts, watches and ends everything else.
 *
 * It never holds a lua_State. Thread: the main thread is the loop. */
#pragma once

/** Runs until a signal or `moongate stop`. argv[0] is "run". Returns the exit code: 0 after a clean drain, 1 when it
 * could not start or had to cut exchanges, 2 for wrong usage. */
int mg_master_main(int argc, char **argv);
