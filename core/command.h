/* command.h - `moongate status`, `reload` and `stop`: the client side of the control socket.
 * Thread: the main thread. */
#pragma once

/** argv[0] is the command. Prints the gateway's answer (stdout) or its refusal (stderr) and returns the exit code.
 * `stop` returns once the gateway's process is gone. */
int mg_command_main(int argc, char **argv);
