/* lookup.h - the child process that looks into a journal for the management port.
 *
 * moongate lookup find FOLDER QUERY          QUERY: id, path, status, route, since, limit as in a URL
 * moongate lookup show FOLDER ID [bodies]
 *
 * One JSON object on standard output and exit code MG_SEARCH_DONE, or a sentence and another code of
 * enum mg_search_result. */
#pragma once

int mg_lookup_main(int argc, char **argv);
