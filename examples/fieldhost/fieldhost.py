#!/usr/bin/env python3
"""The reading rules of the host agent loop that is in the field, played.

That host reads a stream in its own way: it cuts lines where Python does, knows
nothing of SSE but "data:", has other names for some types, does not read while
it runs a tool, replaces all text by each whole message, and counts every kind
of failure. This is its reader, breaker and cancel check in the standard library
alone: an example of a host that must be served as it is, and what the tests of
the server end up with through its eyes.

    INNERD_URL=http://127.0.0.1:18100 ./fieldhost.py '{"messages": [{"role": "user", "content": "hello"}]}'

With --play it takes one JSON object per line from stdin, each a request to run,
tells the run's id ({"task": ...}), asks for what it needs ({"call": ...},
{"question": ...}) by a line on stdout, takes the answer from the next line of
stdin, and prints what it ended up with.
"""

import codecs
import http.client
import json
import os
import sys
import time
import urllib.parse

ALIASES = {
    "error": "session.error",
    "usage": "assistant.usage",
    "text_delta": "assistant.message_delta",
    "message_delta": "assistant.message_delta",
    "message_complete": "assistant.message",
    "content_done": "assistant.message",
    "reasoning_delta": "assistant.reasoning_delta",
    "reasoning_done": "assistant.reasoning",
}


class Breaker:
    """Five failures of any kind in a row: closed for a minute; 429 and 503: for
    five, at once. Then one try."""

    def __init__(self, clock=time.monotonic):
        self.clock, self.failures, self.until, self.probing = clock, 0, 0.0, False

    def allow(self):
        if self.clock() < self.until or self.probing:
            return False
        self.probing = self.until > 0
        return True

    def success(self):
        self.failures, self.until, self.probing = 0, 0.0, False

    def failure(self, status=None):
        self.failures += 1
        if status in (429, 503):
            self.until = self.clock() + 300
        elif self.failures >= 5 or self.probing:
            self.until = self.clock() + 60
        self.probing = False

    def state(self):
        left = max(0.0, self.until - self.clock())
        name = "open" if left > 0 else "half-open" if self.until > 0 else "closed"
        return {"state": name, "failures": self.failures, "left": round(left)}


def lines(chunks):
    """Cuts chunks of bytes into lines as str.splitlines does, which is at more
    places than an SSE reader knows: U+0085, U+2028, U+2029 and others."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    kept, after_cr = "", False
    for chunk in chunks:
        text = decoder.decode(chunk)
        if after_cr:
            text, after_cr = "\r" + text, False
        if text.endswith("\r"):  # its LF may be in the next chunk
            text, after_cr = text[:-1], True
        if not text:
            continue
        whole = text[-1] in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
        cut = text.splitlines()
        if len(cut) == 1 and not whole:
            kept += cut[0]
            continue
        if kept:
            cut, kept = [kept + cut[0]] + cut[1:], ""
        if not whole:
            kept = cut.pop()
        yield from cut
    if kept or after_cr:
        yield kept


class HungUp(Exception):
    """The host has left the stream, which is its only cancel here."""


class Reader:
    """What the host has of a run."""

    def __init__(self, call=None, question=None, heartbeat=None, started=None):
        self.call, self.question, self.heartbeat, self.started = call, question, heartbeat, started
        self.text, self.shown, self.reasoning, self.open = "", [], [], None
        self.calls, self.native, self.questions, self.usage = [], [], [], []
        self.task_id, self.beats, self.ignored, self.types = "", 0, 0, 0
        self.error = None
        self.pieces = []  # of text since the last whole message

    def read(self, chunks):
        for line in lines(chunks):
            self.line(line)
            if self.error is not None:
                break  # it reads no further
        self.close_reasoning()
        self.text += "".join(self.pieces)
        self.pieces = []
        if self.error is None and not self.text and not self.reasoning and not self.calls:
            self.error = "no text, no reasoning and no call"

    def line(self, line):
        line = line.strip()
        data = line[5:].strip() if line.startswith("data:") else line
        if not data or data == "[DONE]" or data.startswith(":"):
            return
        try:
            frame = json.loads(data)
            kind = frame["type"]
        except (ValueError, TypeError, KeyError):
            if not line.startswith(("id:", "event:", "retry:")):
                self.ignored += 1
            return
        body = frame.get("data")
        self.frame(ALIASES.get(kind, kind), body if isinstance(body, dict) else frame)

    def frame(self, kind, data):
        self.types += 1
        if kind == "heartbeat":
            self.beats += 1
            if self.heartbeat and self.heartbeat(self):
                raise HungUp
            return
        if kind == "assistant.reasoning_delta":
            self.reason(data.get("delta") or data.get("text"))
            return
        if kind == "assistant.reasoning":
            if self.open is None:
                self.reason(data.get("content") or data.get("text"))
            self.close_reasoning()
            return
        self.close_reasoning()
        self.other(kind, data)

    def other(self, kind, data):
        if kind == "session.task_id":
            self.task_id = data.get("task_id", "")
            if self.started:
                self.started(self.task_id)
        elif kind == "assistant.message_delta":
            piece = data.get("delta") or data.get("text") or ""
            self.shown.append(piece)
            self.pieces.append(piece)
        elif kind == "assistant.message":
            whole = data.get("content") or data.get("text")
            if whole:
                self.text, self.pieces = whole, []  # all that was said before in this run is gone
        elif kind == "assistant.tool_call":
            self.native.append(data.get("name"))
        elif kind == "tool.execution_request":
            call = {k: data.get(k) for k in ("tool_call_id", "tool_name", "arguments")}
            self.calls.append(call)
            if self.call:
                self.call(call)  # and reads nothing meanwhile
        elif kind == "session.input_required":
            question = {"task_id": self.task_id, "request_id": data.get("request_id"), "message": data.get("message")}
            self.questions.append(question)
            if self.question:
                self.question(question)
        elif kind == "assistant.usage":
            self.usage.append(data)
        elif kind == "session.error":
            self.error = data.get("message") or "unknown error"

    def reason(self, piece):
        if piece:
            self.open = (self.open or []) + [piece]

    def close_reasoning(self):
        if self.open is not None:
            self.reasoning.append("".join(self.open))
            self.open = None

    def result(self):
        return {
            "text": self.text, "shown": "".join(self.shown), "reasoning": self.reasoning, "calls": self.calls,
            "native": self.native, "questions": len(self.questions), "usage": self.usage, "task_id": self.task_id,
            "beats": self.beats, "ignored": self.ignored, "failed": self.error is not None, "why": self.error or "",
        }


class FieldHost:
    """The host with its one HTTP client and its breaker. It sends no key unless
    it is given one, and follows no redirect."""

    read_timeout = 120

    def __init__(self, url, key=""):
        self.url, self.breaker = urllib.parse.urlsplit(url), Breaker()
        self.headers = {"Content-Type": "application/json"}
        if key:
            self.headers["Authorization"] = "Bearer " + key

    def post(self, path, body, timeout=None):
        conn = http.client.HTTPConnection(self.url.netloc, timeout=timeout or self.read_timeout)
        conn.request("POST", self.url.path.rstrip("/") + path, json.dumps(body), self.headers)
        return conn, conn.getresponse()

    def run(self, request, call=None, question=None, heartbeat=None, started=None, hang_up_at=None):
        """Runs a request; gives what the host has at its end. A connection that
        broke, and a status, are in it as failures. hang_up_at: the type at which
        the host leaves."""
        if not self.breaker.allow():
            return {"failed": True, "why": "the breaker is open", "refused": True}
        reader, status, why = Reader(call, question, heartbeat, started), None, None
        hung_up = False
        try:
            conn, resp = self.post("/message:stream", request)
            status = resp.status
            try:
                if status != 200:
                    why = f"HTTP {status}: {resp.read(2000).decode(errors='replace')}"
                else:
                    reader.read(chunks(resp, reader, hang_up_at))
            finally:
                resp.close()  # which holds the socket open else
                conn.close()
        except HungUp:
            hung_up, why = True, "canceled"
        except (OSError, http.client.HTTPException) as error:
            why = f"the stream broke: {type(error).__name__}: {error}"
        out = reader.result()
        if why is not None:
            out["failed"], out["why"] = True, why
        if hung_up:
            self.breaker.probing = False  # a cancel says nothing
        elif out["failed"]:
            self.breaker.failure(status)
        else:
            self.breaker.success()
        out["status"], out["hung_up"] = status, hung_up
        return out


def chunks(resp, reader, hang_up_at):
    """Gives a body piece by piece, as it comes."""
    while chunk := resp.read1(65536):
        yield chunk
        if hang_up_at is not None and hang_up_at.encode() in chunk:
            raise HungUp


def play():
    """See the module's words on --play."""
    host = FieldHost(os.environ["INNERD_URL"], os.environ.get("INNERD_KEY", ""))

    def ask(what):
        print(json.dumps(what), flush=True)
        return json.loads(sys.stdin.readline() or "null")

    def call(c):
        answer = ask({"call": c})
        if answer is None:
            return  # the run was over first
        conn, resp = host.post(f"/tools/{c['tool_call_id']}/result", {"metadata": {"tool_name": c["tool_name"]}, **answer})
        resp.read()
        conn.close()

    def question(q):
        answer = ask({"question": q})
        if answer is None:
            return
        conn, resp = host.post(f"/tasks/{q['task_id']}:reply", {"request_id": q["request_id"], **answer})
        resp.read()
        conn.close()

    def started(task_id):
        print(json.dumps({"task": task_id}), flush=True)

    while line := sys.stdin.readline():
        order = json.loads(line)
        if order.get("fresh"):
            host.breaker = Breaker()
        host.url = urllib.parse.urlsplit(order.get("url") or os.environ["INNERD_URL"])
        host.read_timeout = order.get("read_timeout") or FieldHost.read_timeout
        out = host.run(order["request"], call, question, started=started, hang_up_at=order.get("hang_up_at"))
        print(json.dumps({"end": out, "breaker": host.breaker.state()}), flush=True)


def main():
    if "--play" in sys.argv:
        return play()
    host = FieldHost(os.environ["INNERD_URL"], os.environ.get("INNERD_KEY", ""))
    out = host.run(json.loads(sys.argv[1]))
    print(json.dumps({**out, "breaker": host.breaker.state()}, indent=2))
    return int(out["failed"])


if __name__ == "__main__":
    sys.exit(main())
