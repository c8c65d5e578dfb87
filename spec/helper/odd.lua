-- spec/helper/odd.lua - requests and answers that two readers could read differently, a row for each rule.
-- Owns: nothing.   Used by the strictness spec, which says what becomes of each, and by the differential one.

local GET = "GET / HTTP/1.1\r\nHost: a\r\n"
local POST = "POST / HTTP/1.1\r\nHost: a\r\n"
local CHUNKED = POST .. "Transfer-Encoding: chunked\r\n\r\n"


local function head(line) return GET .. line .. "\r\n\r\n" end
local function post(lines, body) return POST .. lines .. "\r\n\r\n" .. (body or "") end
local function first(line) return line .. "\r\nHost: a\r\n\r\n" end
local function path(target) return first("GET " .. target .. " HTTP/1.1") end
local function host(value) return "GET / HTTP/1.1\r\nHost: " .. value .. "\r\n\r\n" end


-- { what, bytes, status }: refused before any upstream hears of it.
local REFUSED = {
  -- framing
  { "Content-Length and chunked", post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), 400 },
  { "chunked and Content-Length", post("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n"), 400 },
  { "two different Content-Length", post("Content-Length: 3\r\nContent-Length: 4", "abcd"), 400 },
  { "two equal Content-Length", post("Content-Length: 3\r\nContent-Length: 3", "abc"), 400 },
  { "a list as Content-Length", post("Content-Length: 3, 3", "abc"), 400 },
  { "a signed Content-Length", post("Content-Length: +3", "abc"), 400 },
  { "a negative Content-Length", post("Content-Length: -0"), 400 },
  { "a hexadecimal Content-Length", post("Content-Length: 0x3", "abc"), 400 },
  { "an empty Content-Length", post("Content-Length:", "abc"), 400 },
  { "a fraction as Content-Length", post("Content-Length: 3.0", "abc"), 400 },
  { "a Content-Length past 64 bits", post("Content-Length: 18446744073709551621", "abcde"), 400 },
  { "an unknown transfer coding", post("Transfer-Encoding: gzip", "0\r\n\r\n"), 400 },
  { "two transfer codings", post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"), 400 },
  { "chunked not last", post("Transfer-Encoding: chunked, identity", "0\r\n\r\n"), 400 },
  { "chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), 400 },
  { "chunked with a parameter", post("Transfer-Encoding: chunked;q=1", "0\r\n\r\n"), 400 },
  { "chunked behind a vertical tab", post("Transfer-Encoding: \vchunked", "0\r\n\r\n"), 400 },
  { "an empty Transfer-Encoding", post("Transfer-Encoding:", "0\r\n\r\n"), 400 },
  { "chunked in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
  -- lines and names
  { "a blank before the colon", head("X-A : 1"), 400 },
  { "a blank inside a name", head("X A: 1"), 400 },
  { "no colon", head("X-A"), 400 },
  { "an empty name", head(": 1"), 400 },
  { "a NUL in a name", head("X-\0A: 1"), 400 },
  { "a delimiter in a name", head("X(A): 1"), 400 },
  { "a byte above 0x7f in a name", head("X-\133: 1"), 400 },
  { "a NUL in a value", head("X-A: 1\0"), 400 },
  { "a control byte in a value", head("X-A: \1"), 400 },
  { "DEL in a value", head("X-A: \127"), 400 },
  { "a bare CR in a value", head("X-A: 1\rX-B: 2"), 400 },
  { "a bare LF as line end", "GET / HTTP/1.1\nHost: a\n\n", 400 },
  { "a bare LF inside the head", head("X-A: 1\nX-B: 2"), 400 },
  { "a folded line", head("X-A: 1\r\n 2"), 400 },
  { "a folded first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400 },
  { "CR CR LF at the end", GET .. "\r\r\n", 400 },
  -- request line
  { "two blanks", first("GET  / HTTP/1.1"), 400 },
  { "a tab as separator", first("GET\t/ HTTP/1.1"), 400 },
  { "a blank in front", first(" GET / HTTP/1.1"), 400 },
  { "a blank in the target", first("GET /a b HTTP/1.1"), 400 },
  { "a control byte in the target", path("/\1"), 400 },
  { "a target without slash", path("index"), 400 },
  { "a fragment", path("/a#b"), 400 },
  { "an asterisk for GET", path("*"), 400 },
  { "a scheme that is not HTTP", path("ftp://a/"), 400 },
  { "an absolute target for another host", path("http://b/"), 400 },
  { "a delimiter in the method", first("GE(T / HTTP/1.1"), 400 },
  { "HTTP/0.9", "GET /\r\n\r\n", 400 },
  { "HTTP/2.0", first("GET / HTTP/2.0"), 505 },
  { "HTTP/1.10", first("GET / HTTP/1.10"), { 400, 505 } },
  { "http/1.1", first("GET / http/1.1"), { 400, 505 } },
  { "a bare CR in the request line", first("GET /\r HTTP/1.1"), 400 },
  { "a TLS greeting", "\22\3\1\2\0\1\0\1\252\3\3" .. ("\0"):rep(40), 400 },
  -- methods
  { "TRACE", first("TRACE / HTTP/1.1"), 501 },
  { "Trace in other letters", first("Trace / HTTP/1.1"), { 200, 501 } },
  { "CONNECT", first("CONNECT a:443 HTTP/1.1"), 501 },
  -- Host
  { "no Host", "GET / HTTP/1.1\r\n\r\n", 400 },
  { "two equal Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400 },
  { "two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nhOST: b\r\n\r\n", 400 },
  { "user information in Host", host("u@a"), 400 },
  { "a blank in Host", host("a b"), 400 },
  { "a path in Host", host("a/b"), 400 },
  { "a list in Host", host("a, b"), 400 },
  { "a word as port", host("a:http"), 400 },
  { "an open bracket in Host", host("[::1"), 400 },
  { "a byte above 0x7f in Host", host("a\228"), 400 },
  { "an empty Host", host(""), 400 },
  -- paths
  { "a dot-dot segment", path("/a/../b"), 400 },
  { "a dot segment", path("/a/./b"), 400 },
  { "a dot-dot segment at the end", path("/a/.."), 400 },
  { "encoded dots", path("/a/%2e%2E/b"), 400 },
  { "half encoded dots", path("/a/.%2e/b"), 400 },
  { "dots before a parameter", path("/a/..;x=1/b"), 400 },
  { "a backslash", path("/a\\b"), 400 },
  { "an encoded backslash", path("/a%5cb"), 400 },
  { "an encoded control byte", path("/a%00b"), 400 },
  { "an encoded line end", path("/a%0d%0aX: 1"), 400 },
  { "an escape that is one again", path("/a%252e%252e/b"), 400 },
  { "an escaped slash twice", path("/a%252fb"), 400 },
  -- limits
  { "a request line over its limit", path("/" .. ("x"):rep(70000)), 414 },
  { "a head over its limit", head("X-A: " .. ("x"):rep(70000)), 431 },
  { "a name over the limit", head(("x"):rep(70000) .. ": 1"), 431 },
  { "too many headers", head(("X-A: 1\r\n"):rep(300) .. "X-B: 1"), 431 },
  -- Expect
  { "another expectation", head("Expect: miracles"), 417 },
}

-- { what, bytes of the body, after CHUNKED }: the head may be out already, so what counts is that it never looks
-- complete upstream and that nothing behind it is read as a request.
local BAD_CHUNKS = {
  { "a size that is no number", "x\r\n" },
  { "a signed size", "+3\r\nabc\r\n0\r\n\r\n" },
  { "a 0x size", "0x3\r\nabc\r\n0\r\n\r\n" },
  { "an empty size", "\r\n\r\n" },
  { "a blank before the size", " 3\r\nabc\r\n0\r\n\r\n" },
  { "a size past 64 bits", "10000000000000005\r\nabcde\r\n0\r\n\r\n" },
  { "a bare LF after the size", "3\nabc\r\n0\r\n\r\n" },
  { "a bare LF after the data", "3\r\nabc\n0\r\n\r\n" },
  { "other bytes after the data", "3\r\nabcXX0\r\n\r\n" },
  { "data longer than its size", "3\r\nabcd\r\n0\r\n\r\n" },
  { "a bare LF in an extension", "3;a\nb\r\nabc\r\n0\r\n\r\n" },
  { "a NUL in an extension", "3;a=\0\r\nabc\r\n0\r\n\r\n" },
  { "a bare LF as the end", "3\r\nabc\r\n0\r\n\n" },
  { "a blank before a trailer's colon", "3\r\nabc\r\n0\r\nX : 1\r\n\r\n" },
  { "a folded trailer", "3\r\nabc\r\n0\r\nX: 1\r\n 2\r\n\r\n" },
  { "a trailer with a bare CR", "3\r\nabc\r\n0\r\nX: 1\r2\r\n\r\n" },
}

-- { what, bytes, request line that arrives, more checks }
local PASSED = {
  { "an empty line first", "\r\n" .. GET .. "\r\n", "GET / HTTP/1.1" },
  { "an absolute target", path("http://a/x?y"), "GET /x?y HTTP/1.1" },
  { "an absolute target without a path", path("http://a"), "GET / HTTP/1.1" },
  { "an encoded slash, unchanged", path("/a%2Fb"), "GET /a%2Fb HTTP/1.1" },
  { "a malformed escape", path("/a%zz"), "GET /a%zz HTTP/1.1" },
  { "encoded UTF-8", path("/%C3%A4"), "GET /%C3%A4 HTTP/1.1" },
  { "several slashes", path("//a//b"), "GET //a//b HTTP/1.1" },
  { "a lone question mark", path("/?"), "GET /? HTTP/1.1" },
  { "dots in the query", path("/?a=../.."), "GET /?a=../.. HTTP/1.1" },
  { "dots inside a name", path("/a..b/.c"), "GET /a..b/.c HTTP/1.1" },
  { "an unknown method", first("BREW / HTTP/1.1"), "BREW / HTTP/1.1" },
  { "M-SEARCH", first("M-SEARCH / HTTP/1.1"), "M-SEARCH / HTTP/1.1" },
  { "a host with port", host("a.test:8080"), "GET / HTTP/1.1", host = "a.test:8080" },
  { "an IPv6 host", host("[::1]:8080"), "GET / HTTP/1.1", host = "[::1]:8080" },
  { "HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1" },
  { "white space around a value", head("X-A: \t 1 \t "), "GET / HTTP/1.1", header = { "x-a", "1" } },
  { "an empty value", head("X-A:"), "GET / HTTP/1.1", header = { "x-a", "" } },
  { "bytes above 0x7f in a value", head("X-A: \195\164"), "GET / HTTP/1.1", header = { "x-a", "\195\164" } },
  { "white space around a length", post("Content-Length: \t3 ", "abc"), "POST / HTTP/1.1", body = "abc" },
  { "CHUNKED", post("Transfer-Encoding: CHUNKED", "0\r\n\r\n"), "POST / HTTP/1.1", body = "" },
  { "zeros in front of a size", CHUNKED .. "0003\r\nabc\r\n000\r\n\r\n", "POST / HTTP/1.1", body = "abc" },
  { "a chunk extension", CHUNKED .. "3;a=b;c=\"d\"\r\nabc\r\n0;e\r\n\r\n", "POST / HTTP/1.1", body = "abc" },
  { "chunk data that looks like an end", CHUNKED .. "9\r\n0\r\n\r\nGET \r\n0\r\n\r\n", "POST / HTTP/1.1",
    body = "0\r\n\r\nGET " },
  { "a GET with a body that looks like a request", GET .. "Content-Length: 18\r\n\r\nGET /x HTTP/1.1\r\n\r",
    "GET / HTTP/1.1", body = "GET /x HTTP/1.1\r\n\r" },
}

-- { what, answer }: a 502 that says nothing of what the upstream said.
local BAD_ANSWERS = {
  { "two different lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab" },
  { "a list as length", "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nab" },
  { "a word as length", "HTTP/1.1 200 OK\r\nContent-Length: one\r\n\r\na" },
  { "a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na" },
  { "a length past 64 bits", "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\na" },
  { "an unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx" },
  { "chunked not last", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n" },
  { "no status line", "hello\r\n\r\n" },
  { "another protocol", "ICY 200 OK\r\n\r\n" },
  { "a status of two digits", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n" },
  { "a status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n" },
  { "HTTP/2.0", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n" },
  { "a name with a blank", "HTTP/1.1 200 OK\r\nX A: 1\r\nContent-Length: 0\r\n\r\n" },
  { "a blank before the colon", "HTTP/1.1 200 OK\r\nX-A : 1\r\nContent-Length: 0\r\n\r\n" },
  { "no colon", "HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 0\r\n\r\n" },
  { "a NUL in a value", "HTTP/1.1 200 OK\r\nX-A: \0\r\nContent-Length: 0\r\n\r\n" },
  { "a folded line", "HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n" },
  { "bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n" },
  { "a head that is too large", "HTTP/1.1 200 OK\r\nX-A: " .. ("x"):rep(300000) .. "\r\nContent-Length: 0\r\n\r\n" },
  { "a 101 that nobody asked for", "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" },
  { "a close inside the head", "HTTP/1.1 200 OK\r\nContent-Le" },
}

-- { what, bytes after the head }: the answer has begun, so the client must see that it is cut.
local CUT_ANSWERS = {
  { "a chunk size that is no number", "x\r\n" },
  { "a signed chunk size", "+1\r\na\r\n0\r\n\r\n" },
  { "other bytes after chunk data", "1\r\naXX0\r\n\r\n" },
  { "a bad second chunk", "1\r\na\r\nx\r\n" },
  { "a missing last chunk", "1\r\na\r\n" },
}


return {
  GET = GET, POST = POST, CHUNKED = CHUNKED, post = post,
  REFUSED = REFUSED, BAD_CHUNKS = BAD_CHUNKS, PASSED = PASSED, BAD_ANSWERS = BAD_ANSWERS, CUT_ANSWERS = CUT_ANSWERS,
}
