#!/usr/bin/env python3
"""A host of innerd in Python's standard library alone.

It posts a turn, reads its events, lends the agent a function of its own, and
goes on after a broken connection from the last event that it has seen, so that
each comes once.

    INNERD_URL=http://127.0.0.1:18100 INNERD_KEY=... ./host.py "How warm is it in Oslo?"
"""

import contextlib
import http.client
import json
import os
import random
import secrets
import sys
import threading
import time
import urllib.parse


class Failed(Exception):
    """An answer that trying again will not change."""


class Host:
    """One server. Its methods may be called from several threads."""

    read_timeout = 60  # seconds; a heartbeat comes every 15
    give_up = 300  # seconds without a new event

    def __init__(self, url, key=""):
        self.url = urllib.parse.urlsplit(url)
        self.headers = {"Content-Type": "application/json"}
        if key:
            self.headers["Authorization"] = "Bearer " + key

    def request(self, method, path, body=None, headers=()):
        """One request; gives the connection and its answer, whose status is checked."""
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        conn = kind(self.url.netloc, timeout=self.read_timeout)
        try:
            data = None if body is None else json.dumps(body)
            conn.request(method, self.url.path.rstrip("/") + path, data, {**self.headers, **dict(headers)})
            resp = conn.getresponse()
            if resp.status in (429, 500, 502, 503, 504):
                raise OSError(f"HTTP {resp.status}: {resp.read(2000).decode(errors='replace')}")
            if resp.status >= 300:
                raise Failed(f"HTTP {resp.status}: {resp.read(2000).decode(errors='replace')}")
            return conn, resp
        except BaseException:
            conn.close()
            raise

    def call(self, method, path, body=None):
        """A call with a short answer, tried until it comes: answers may be given twice."""
        for pause in (0.1, 0.5, 2, 5, None):
            try:
                conn, resp = self.request(method, path, body)
                with closing(conn, resp):
                    return json.loads(resp.read() or b"null")
            except (OSError, http.client.HTTPException):
                if pause is None:
                    raise
                time.sleep(pause * random.uniform(0.5, 1))

    def run(self, messages, tools=(), context_id="", metadata=None):
        """Starts a run and yields its events as (type, data), each once, to its end.

        tools is a list of (schema, function); each call runs in a thread of its
        own while the stream is read on. Leaving the loop early cancels the run.
        """
        task = "py-" + secrets.token_hex(12)  # ours, so that the start can be repeated
        functions = {schema["name"]: function for schema, function in tools}
        start = {
            "context_id": context_id,
            "messages": messages,
            "metadata": {**(metadata or {}), "task_id": task, "native_tool_schemas": [schema for schema, _ in tools]},
        }
        last, pause, since, over, started = 0, 0.05, time.monotonic(), False, False
        try:
            while not over:
                try:
                    if last:
                        conn, resp = self.request("GET", f"/tasks/{task}/events", None, {"Last-Event-ID": str(last)})
                    else:
                        conn, resp = self.request("POST", "/message:stream", start)
                    started = True
                    with closing(conn, resp):
                        if resp.status == 204:  # it has ended, and we have seen all of it
                            return
                        for event in frames(resp):
                            number, kind, data = event.get("id", 0), event["type"], event["data"]
                            if number and number <= last:
                                continue
                            if number:
                                last, pause, since = number, 0.05, time.monotonic()
                            if kind == "tool.execution_request":
                                threading.Thread(target=self.answer, args=(functions, data), daemon=True).start()
                            over = over or kind == "session.end"
                            yield kind, data
                    if not over:  # a run that has ended says so
                        raise OSError("the stream ended before the run")
                except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
                    if over:
                        return
                    if time.monotonic() - since > self.give_up:
                        raise
                    print(f"[resumed after event {last}: {type(error).__name__}]", file=sys.stderr)
                    time.sleep(pause * random.uniform(0.5, 1))
                    pause = min(pause * 2, 5)
        finally:
            if started and not over:
                try:
                    self.call("POST", f"/tasks/{task}:cancel", {"reason": "the host left"})
                except (OSError, http.client.HTTPException, Failed):
                    pass  # it is over, or the server is away

    def answer(self, functions, request):
        """Runs a function that the agent called, and delivers its result."""
        try:
            function = functions[request["tool_name"]]
            result = {"result": str(function(**request["arguments"]))}
        except Exception as error:  # whatever it is, the agent reads it
            result = {"result": f"{type(error).__name__}: {error}", "is_error": True}
        self.call("POST", f"/tools/{request['tool_call_id']}/result", result)


@contextlib.contextmanager
def closing(conn, resp):
    """Closes both: the socket stays open until its last holder lets go."""
    try:
        yield
    finally:
        resp.close()
        conn.close()


def frames(resp):
    """Yields the events of a body. Each is one line of ASCII, so that nothing
    more of SSE is needed than the prefix of its data."""
    while line := resp.readline():
        if not line.endswith(b"\n"):
            raise OSError("the stream was cut in a line")
        if line.startswith(b"data: ") and line != b"data: [DONE]\n":
            yield json.loads(line[6:])


WEATHER = {
    "name": "weather",
    "description": "The temperature of now",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "name of a city"}},
        "required": ["city"],
    },
}


def weather(city):
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"{len(city)} degrees in {city}"


def main():
    host = Host(os.environ["INNERD_URL"], os.environ.get("INNERD_KEY", ""))
    metadata = {"backend": os.environ["INNERD_BACKEND"]} if "INNERD_BACKEND" in os.environ else {}
    messages = [{"role": "user", "content": sys.argv[1]}]
    for kind, data in host.run(messages, [(WEATHER, weather)], "python", metadata):
        if kind == "assistant.message_delta":
            print(data["delta"], end="", flush=True)
        elif kind == "tool.execution_request":
            print(f"[{data['tool_name']} {json.dumps(data['arguments'])}]", file=sys.stderr)
        elif kind == "session.error":
            sys.exit(data["message"])
    print()


if __name__ == "__main__":
    main()
