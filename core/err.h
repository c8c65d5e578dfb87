/* err.h - the one list of outcomes: name, HTTP status, word for counters and logs, sentence for the client.
 *
 * A function that can fail returns int: 0 (or a count) or one of these, which are all negative.
 * Status 0 marks an outcome that never becomes an answer of its own (the connection ends instead). */
#pragma once

#define MG_ERR_MAP(X)                                                                                                 \
  /* the client's fault, refused before routing */                                                                    \
  X(EBADLINE, 400, "bad_request_line", "The request line is not valid HTTP/1.1.")                                     \
  X(EBADVERSION, 505, "bad_version", "Only HTTP/1.0 and HTTP/1.1 are spoken here.")                                   \
  X(EBADHEADER, 400, "bad_header", "A header line is malformed.")                                                     \
  X(EFOLD, 400, "folded_header", "Folded header lines are refused.")                                                  \
  X(ELINEEND, 400, "bad_line_end", "A line does not end with CR LF.")                                                 \
  X(EBADHOST, 400, "bad_host", "The Host header is missing, repeated or malformed.")                                  \
  X(EHOSTMISMATCH, 400, "host_mismatch", "The request target names another host than Host does.")                     \
  X(EBADTARGET, 400, "bad_target", "The request target is malformed.")                                                \
  X(EBADPATH, 400, "ambiguous_path", "The path could be read in more than one way.")                                  \
  X(EBADLENGTH, 400, "bad_content_length", "Content-Length is malformed or repeated.")                                \
  X(EBADTE, 400, "transfer_encoding", "Transfer-Encoding may only be one chunked.")                                   \
  X(ECLTE, 400, "length_and_chunked", "Content-Length and Transfer-Encoding exclude each other.")                     \
  X(EBADCHUNK, 400, "bad_chunk", "The chunked body is malformed.")                                                    \
  X(EBADTRAILER, 400, "bad_trailer", "A trailer line is malformed.")                                                  \
  X(EBODYHELD, 413, "held_body_too_large", "The body is larger than limits.max_held_body, which its filters need.")   \
  X(EBODYSHORT, 400, "body_truncated", "The request body ended early.")                                               \
  X(EBADEXPECT, 417, "bad_expect", "That expectation cannot be met.")                                                 \
  X(EMETHOD, 501, "method", "That method is not supported.")                                                          \
  X(ETRACE, 501, "trace", "TRACE is not supported.")                                                                  \
  X(ECONNECT, 501, "connect", "CONNECT is not supported.")                                                            \
  X(ELINELONG, 414, "uri_too_long", "The request line is too long.")                                                  \
  X(EHEADLARGE, 431, "head_too_large", "The request head is too large.")                                              \
  X(EHEADCOUNT, 431, "too_many_headers", "The request has too many headers.")                                         \
  X(EBODYLARGE, 413, "body_too_large", "The request body is too large.")                                              \
  X(EHEADSLOW, 408, "head_timeout", "The request head did not arrive in time.")                                       \
  X(EBODYSLOW, 408, "body_timeout", "The request body did not arrive in time.")                                       \
  /* routing and scripts */                                                                                           \
  X(ENOROUTE, 404, "no_route", "No route matches this request.")                                                      \
  X(ESCRIPT, 500, "filter_failed", "A filter failed.")                                                                \
  X(EREGEX, 500, "regex_budget", "A regular expression took too long.")                                               \
  X(ENOMEM, 500, "out_of_memory", "The request needs more memory than it may use.")                                   \
  X(EINTERNAL, 500, "internal", "The gateway failed.")                                                                \
  /* the upstream's fault */                                                                                          \
  X(ENOJOURNAL, 503, "journal_unavailable", "The request cannot be recorded.")                                        \
  X(ENOUPSTREAM, 503, "no_upstream", "No upstream is available.")                                                     \
  X(EQUEUEFULL, 503, "upstream_queue_full", "The upstream is busy.")                                                  \
  X(EOVERLOAD, 503, "overload", "The gateway is at its connection limit.")                                            \
  X(EDRAINING, 503, "draining", "The gateway is stopping.")                                                           \
  X(ECONNREFUSED, 502, "upstream_connect", "The upstream cannot be reached.")                                         \
  X(ECONNTIMEOUT, 504, "upstream_connect_timeout", "The upstream did not accept in time.")                            \
  X(EUPCLOSED, 502, "upstream_closed", "The upstream closed before it answered.")                                     \
  X(EUPBAD, 502, "upstream_bad_response", "The upstream's answer is not valid HTTP/1.1.")                             \
  X(EUPHEADLARGE, 502, "upstream_head_too_large", "The head of the upstream's answer is too large.")                  \
  X(EUPHELD, 502, "held_answer_too_large", "The answer is larger than limits.max_held_body, which its filters need.") \
  X(EUPSWITCH, 502, "upstream_unasked_101", "The upstream switched protocols unasked.")                               \
  X(EUPTIMEOUT, 504, "upstream_timeout", "The upstream did not answer in time.")                                      \
  /* ends of a connection; no answer goes with them */                                                                \
  X(ECLOSED, 0, "closed", "The peer closed the connection.")                                                          \
  X(ERESET, 0, "reset", "The peer reset the connection.")                                                             \
  X(ETRUNCATED, 0, "truncated", "The message ended before it was complete.")                                          \
  X(EIDLE, 0, "idle_timeout", "Nothing happened for too long.")                                                       \
  X(EAGAIN_LATER, 0, "again", "Not yet.")

enum mg_err {
  MG_OK = 0,
  MG_E_BASE = -1000,
#define X(name, status, word, sentence) MG_##name,
  MG_ERR_MAP(X)
#undef X
      MG_E_END
};

enum { MG_ERR_COUNT = MG_E_END - MG_E_BASE - 1 };

/** The HTTP status that stands for err; 0 where no answer goes with it. */
int mg_err_status(int err);

/** The short word for err ("bad_host"), for logs, counters and the journal. Static. */
const char *mg_err_word(int err);

/** One sentence for the client. Static. */
const char *mg_err_sentence(int err);

/** err as an index from 0 to MG_ERR_COUNT - 1, for arrays of counters. */
static inline unsigned mg_err_index(int err)
{
  return (unsigned)(err - MG_E_BASE - 1);
}
