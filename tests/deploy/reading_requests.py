# SPDX-License-Identifier: Apache-2.0
"""Raw requests that two parsers in a row may read differently. Each has an id of its own in its
first header; what stands behind it on the connection is named after it, and is the last."""
from support import raw

BODY = raw.BODY
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
IN_CHUNKS = "Transfer-Encoding: chunked"


def behind(ident):
    return raw.get("/v1", f"X-Request-Id: {ident}-behind", "Connection: close")


def head(*lines, method="POST", target="/v1/attention", version="HTTP/1.1", host="localhost",
         start=None):
    """A head as bytes, in which %ID stands for its id; `start`: another first line."""
    first = start or f"{method} {target} {version}"
    hosts = [f"Host: {host}"] if host is not None else []
    return "\r\n".join([first, "X-Request-Id: %ID", *hosts, "Content-Type: application/json",
                        *lines]).encode("latin-1") + b"\r\n\r\n"


def with_length(*lines, **words):
    return head(LENGTH, *lines, **words) + BODY


def length_of(text):
    """That as its length; the body is five bytes longer than five."""
    return head(f"Content-Length:{text}") + b"12345"


def in_chunks(text=CHUNKED, *lines, **words):
    return head(IN_CHUNKS, *lines, **words) + text


def coded(text):
    return head(f"Transfer-Encoding:{text}") + CHUNKED


def sized(text, rest=b"\r\n0\r\n\r\n"):
    """A chunk with that before its line's end."""
    return in_chunks(text % len(BODY) + b"\r\n" + BODY + rest)


def get(*lines, **words):
    return head(*lines, **{"method": "GET", "target": "/v1", **words})


def swap(text, old, new):
    assert old in text
    return text.replace(old, new)


PLAIN = with_length()
LF_HEAD = swap(head(LENGTH), b"\r\n", b"\n") + BODY

GROUPS = {
    "lengths": {
        "two different": head("Content-Length: 5", LENGTH) + BODY,
        "two different, the longer first": head(LENGTH, "Content-Length: 5") + BODY,
        "two equal": head(LENGTH, LENGTH) + BODY,
        "list of equal": length_of(" 5, 5"),
        "list of different": length_of(" 5, 6"),
        "plus": length_of(" +5"), "minus": length_of(" -1"), "hexadecimal": length_of(" 0x5"),
        "word": length_of(" five"), "empty": length_of(""), "with a tail": length_of(" 5 5"),
        "decimal point": length_of(" 5.0"), "exponent": length_of(" 5e0"),
        "underscore": length_of(" 5_0"), "beyond 64 bits": length_of(" 18446744073709551621"),
        "beyond 2^63": length_of(" 9223372036854775813"),
        "zeros before": length_of(" 0005"), "tab before": length_of("\t5"),
        "blanks around": length_of("  5  "), "no blank before": length_of("5"),
        "vertical tab before": length_of("\x0b5"), "form feed before": length_of("\x0c5"),
        "no-break space before": length_of("\xa05"),
        "space before the colon": head("Content-Length : 5") + b"12345",
        "tab before the colon": head("Content-Length\t: 5") + b"12345",
        "underscore in the name": head("Content_Length: 5") + BODY,
        "in capitals": head(LENGTH.upper()) + BODY,
        "NUL behind it": length_of(" 5\0"),
        "shorter than the body": length_of(" 5") + b"surplus",
        "longer than what comes": head("Content-Length: 5000") + BODY,
    },
    "codings": {
        "with a length": head(LENGTH, IN_CHUNKS) + CHUNKED,
        "before a length": head(IN_CHUNKS, LENGTH) + CHUNKED,
        "with a length of 0": head("Content-Length: 0", IN_CHUNKS) + CHUNKED,
        "twice": head(IN_CHUNKS, IN_CHUNKS) + CHUNKED,
        "identity, then chunked": head("Transfer-Encoding: identity", IN_CHUNKS) + CHUNKED,
        "chunked, then identity": head(IN_CHUNKS, "Transfer-Encoding: identity") + CHUNKED,
        "unknown": coded(" xchunked"), "gzip": coded(" gzip"), "identity": coded(" identity"),
        "gzip, chunked": coded(" gzip, chunked"), "chunked, gzip": coded(" chunked, gzip"),
        "chunked, chunked": coded(" chunked, chunked"), "chunked and a comma": coded(" chunked,"),
        "chunked with a parameter": coded(" chunked;a=b"), "quoted": coded(' "chunked"'),
        "empty": coded(""), "in capitals": coded(" CHUNKED"), "tab before": coded("\tchunked"),
        "blanks around": coded("  chunked  "), "vertical tab before": coded(" \x0bchunked"),
        "NUL behind it": coded(" chunked\0"),
        "space before the colon": head("Transfer-Encoding : chunked") + CHUNKED,
        "underscore in the name": head("Transfer_Encoding: chunked", LENGTH) + BODY,
        "in 1.0": in_chunks(version="HTTP/1.0"),
        "in 1.0, connection kept": in_chunks(CHUNKED, "Connection: keep-alive",
                                             version="HTTP/1.0"),
        "named by Connection": in_chunks(CHUNKED, "Connection: Transfer-Encoding"),
    },
    "folds": {
        "of another header": with_length("X-A: b", " c"),
        "with a tab": with_length("X-A: b", "\tc"),
        "of what looks like a length": head("X-A: b", " Content-Length: 5") + b"12345",
        "of the length": head("Content-Length:", " 5") + b"12345",
        "of the coding": head("Transfer-Encoding:", " chunked") + CHUNKED,
        "before the first header": swap(PLAIN, b"X-Request", b" X-Fold: a\r\nX-Request"),
    },
    "chunks": {
        "plain": in_chunks(), "capitals in a size": sized(b"%X"), "zeros before": sized(b"000%x"),
        "extension": sized(b"%x;a=b"), "extension behind a blank": sized(b"%x ;a=b"),
        "quoted extension": sized(b'%x;a="b;c"'), "blank behind": sized(b"%x "),
        "tab behind": sized(b"%x\t"), "blank before": sized(b" %x"), "0x": sized(b"0x%x"),
        "plus": sized(b"+%x"), "minus": sized(b"-%x"), "underscore": sized(b"0_%x"),
        "word": sized(b"zz%x"), "empty size": in_chunks(b"\r\n" + CHUNKED),
        "beyond 64 bits": in_chunks(b"1%016x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n"),
        "beyond 32 bits": in_chunks(b"1%08x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n"),
        "LF alone behind the size": swap(in_chunks(), b"%x\r\n{" % len(BODY), b"%x\n{" % len(BODY)),
        "LF alone behind the data": sized(b"%x", b"\n0\r\n\r\n"),
        "CR alone behind the size": swap(in_chunks(), b"%x\r\n{" % len(BODY), b"%x\r{" % len(BODY)),
        "nothing behind the data": sized(b"%x", b"0\r\n\r\n"),
        "two bytes too many": sized(b"%x", b"XX\r\n0\r\n\r\n"),
        "LF in an extension": sized(b"%x;a\nb"), "CR in an extension": sized(b"%x;a\rb"),
        "NUL in an extension": sized(b"%x;a\0b"),
        "trailer": sized(b"%x", b"\r\n0\r\nX-A: b\r\n\r\n"),
        "length as a trailer": sized(b"%x", b"\r\n0\r\nContent-Length: 5\r\n\r\n"),
        "trailer without a colon": sized(b"%x", b"\r\n0\r\nX-A\r\n\r\n"),
        "LFs alone at the end": sized(b"%x", b"\r\n0\n\n"),
        "extension of the last": sized(b"%x", b"\r\n0;a=b\r\n\r\n"),
        "last of several zeros": sized(b"%x", b"\r\n000\r\n\r\n"),
        "no last": sized(b"%x", b"\r\n"),
    },
    "lines": {
        "LF alone": LF_HEAD,
        "LF alone behind a header": swap(PLAIN, b"localhost\r\n", b"localhost\n"),
        "CR alone behind a header": swap(PLAIN, b"localhost\r\n", b"localhost\r"),
        "CR in a value": with_length("X-A: b\rc"),
        "CR twice": swap(PLAIN, b"localhost\r\n", b"localhost\r\r\n"),
        "header hidden by a CR": with_length("X-A: b\rContent-Length: 5"),
        "empty line first": b"\r\n" + PLAIN, "two empty lines first": b"\r\n\r\n" + PLAIN,
        "LF first": b"\n" + PLAIN, "blank first": b" " + PLAIN,
        "end by LF and CRLF": swap(PLAIN, b"json\r\n", b"json\n"),
        "end by CRLF and LF": head(LENGTH)[:-2] + b"\n" + BODY,
    },
    "headers": {
        "no colon": with_length("X-A"), "no name": with_length(": b"),
        "blank in a name": with_length("X A: b"), "NUL in a name": with_length("X-\0A: b"),
        "control byte in a name": with_length("X-\x01A: b"),
        "byte above 127 in a name": with_length("X-\xe4: b"),
        "parenthesis in a name": with_length("X-(A): b"), "empty value": with_length("X-A:"),
        "NUL in a value": with_length("X-A: b\0c"),
        "control byte in a value": with_length("X-A: b\x01c"),
        "DEL in a value": with_length("X-A: b\x7fc"),
        "byte above 127 in a value": with_length("X-A: \xe4"),
        "length named by Connection": with_length("Connection: Content-Length"),
        "the group named by Connection": with_length("Connection: X-Session-Group"),
        "close": with_length("Connection: close"),
        "upgrade to h2c": get("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings",
                              "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
        "upgrade to websocket": get("Upgrade: websocket", "Connection: Upgrade",
                                    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                                    "Sec-WebSocket-Version: 13"),
        "100-continue": with_length("Expect: 100-continue"),
        "unknown expectation": with_length("Expect: teapot"),
        "two Hosts": with_length("Host: elsewhere"),
        "two equal Hosts": with_length("Host: localhost"), "no Host": with_length(host=None),
        "empty Host": with_length(host=""), "list in Host": with_length(host="localhost, other"),
        "name and password in Host": with_length(host="a@localhost"),
        "path in Host": with_length(host="localhost/v1"),
        "blank in Host": with_length(host="local host"),
        "port that is none": with_length(host="localhost:http"),
        "200 headers": with_length(*(f"X-{number}: a" for number in range(200))),
    },
    "first lines": {
        "two blanks": with_length(start="POST  /v1/attention  HTTP/1.1"),
        "tabs": with_length(start="POST\t/v1/attention\tHTTP/1.1"),
        "blank behind": with_length(start="POST /v1/attention HTTP/1.1 "),
        "blank in the target": with_length(target="/v1/attention /v1"),
        "no version": with_length(start="POST /v1/attention"), "0.9": get(start="GET /v1"),
        "1.0": with_length(version="HTTP/1.0"), "1.2": with_length(version="HTTP/1.2"),
        "2.0": with_length(version="HTTP/2.0"), "1.10": with_length(version="HTTP/1.10"),
        "01.1": with_length(version="HTTP/01.1"), "small letters": with_length(version="http/1.1"),
        "another protocol": with_length(version="ICAP/1.0"),
        "parenthesis in the method": get(method="GE(T"), "control byte in the method":
            get(method="GE\x01T"), "method in small letters": get(method="get"),
        "unknown method": get(method="BREW"), "NUL in the method": get(method="GE\0T"),
        "NUL in the target": get(target="/v1\0"), "%00 in the target": get(target="/v1%00"),
        "control byte in the target": get(target="/v1\x01"),
        "byte above 127 in the target": get(target="/v1\xe4"), "fragment": get(target="/v1#a"),
        "no slash": get(target="v1"), "question mark alone": get(target="?a"),
        "absolute": get(target="http://localhost/v1"),
        "absolute, of another host": get(target="http://elsewhere/v1"),
        "absolute, of another scheme": get(target="ftp://localhost/v1"),
        "asterisk": get(method="OPTIONS", target="*"), "asterisk of a GET": get(target="*"),
        "CONNECT": get(method="CONNECT", target="localhost:80"),
        "CONNECT to a path": get(method="CONNECT"), "TRACE": get(method="TRACE"),
        "PRI": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    },
    "bodies": {
        "of a GET": get(LENGTH) + BODY, "of a GET, in chunks": get(IN_CHUNKS) + CHUNKED,
        "of a HEAD": get(LENGTH, method="HEAD") + BODY,
        "of an OPTIONS": get(LENGTH, method="OPTIONS") + BODY,
        "of a DELETE": get(LENGTH, method="DELETE", target="/v1/sessions/a") + BODY,
        "of a TRACE": get(LENGTH, method="TRACE") + BODY,
        "of a POST, of no length": head(), "of a POST, none in 1.0": head(version="HTTP/1.0"),
        "of an unknown method": get(LENGTH, method="BREW") + BODY,
        "of what is not found": head(LENGTH, target="/none") + BODY,
        "of what is not found, in chunks": head(IN_CHUNKS, target="/none") + CHUNKED,
        "more than was said": PLAIN + b"surplus",
        "plain": PLAIN,
    },
}


def cases():
    """{(group, name): the id, and the bytes with what stands behind them}"""
    found = {}
    for group, rows in GROUPS.items():
        for name, text in rows.items():
            ident = f"case-{len(found)}"
            found[group, name] = ident, text.replace(b"%ID", ident.encode()) + behind(ident)
    return found
