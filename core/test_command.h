/* test_command.h - `moongate test`: busted inside this executable, so that specs run filters against its own C code.
 * Thread: the main thread. */
#pragma once

/** argv[0] is the command, the rest busted's arguments. Returns the exit code. */
int mg_test_main(int argc, char **argv);
