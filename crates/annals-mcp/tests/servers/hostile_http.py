"""An MCP server over streamable HTTP of one mechanism, named by its first argument; it prints its port.

Only the standard library is used: what is sent is written by hand, and most of it is wrong on purpose.
"""
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MECHANISM = sys.argv[1]
TOOL = {"name": "work", "description": "Works.", "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}
STATE = {"sessions": 0, "calls": 0, "effects": 0}
LOCK = threading.Lock()


def count(what):
    with LOCK:
        STATE[what] += 1
        return STATE[what]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def whole(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, message, **headers):
        self.whole(200, json.dumps(message).encode(), Content_Type="application/json", **headers)

    def events(self, **headers):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.close_connection = True

    def event(self, message, id=None):
        head = "id: %s\n" % id if id else ""
        self.wfile.write((head + "data: " + json.dumps(message) + "\n\n").encode())
        self.wfile.flush()

    def do_DELETE(self):
        self.whole(200)

    def do_GET(self):
        if MECHANISM == "call-stream-breaks-and-is-resumed" and self.headers.get("Last-Event-ID") == "e1":
            self.events()
            self.event({"jsonrpc": "2.0", "id": STATE["open"], "result": {"content": [{"type": "text", "text": "resumed"}]}})
            return
        self.whole(405)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        message = json.loads(body)
        method = message.get("method")
        if MECHANISM == "wants-a-token" and self.headers.get("Authorization") != "Bearer open sesame":
            return self.whole(401, b"who are you?", WWW_Authenticate="Bearer")
        if MECHANISM == "redirects":
            return self.whole(307, Location="http://127.0.0.1:9/elsewhere")
        if MECHANISM == "start-hangs":
            time.sleep(60)
        if MECHANISM == "start-is-a-page":
            return self.whole(200, b"<html>Welcome</html>", Content_Type="text/html")
        if MECHANISM == "start-fails":
            return self.whole(500, b"Traceback (most recent call last)")
        if "id" not in message:
            return self.whole(202)
        result = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "initialize":
            session = "s%d" % count("sessions")
            result["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "stranger", "version": "1"}}
            if MECHANISM == "answers-with-events":
                self.events(Mcp_Session_Id=session)
                return self.event(result)
            return self.json(result, Mcp_Session_Id=session)
        if method == "tools/list":
            result["result"] = {"tools": [TOOL]}
            return self.json(result)
        if method == "tools/call":
            return self.call(message, result)
        result["error"] = {"code": -32601, "message": "no such method"}
        return self.json(result)

    def call(self, message, result):
        name, calls = MECHANISM, count("calls")
        result["result"] = {"content": [{"type": "text", "text": "done in %s" % self.headers.get("Mcp-Session-Id")}]}
        if name == "answers-with-events":
            self.events()
            return self.event(result)
        if name == "call-session-expired" and self.headers.get("Mcp-Session-Id") == "s1":
            return self.whole(404, b"no such session")
        if name == "call-session-expires-always":
            return self.whole(404, b"no such session")
        if name == "call-hangs":
            time.sleep(60)
        if name == "call-hangs-in-a-stream":
            self.events()
            time.sleep(60)
        if name == "call-progresses-in-a-stream":
            self.events()
            token = message["params"].get("_meta", {}).get("progressToken")
            for step in range(8):
                self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
                time.sleep(0.4)
            return self.event(result)
        if name == "call-dies":
            os._exit(1)
        if name == "call-dies-in-a-stream":
            self.events()
            self.wfile.write(b"data: {\"jsonrpc\"")
            self.wfile.flush()
            os._exit(1)
        if name == "call-breaks-off":
            self.close_connection = True
            return self.connection.close()
        if name == "call-stream-ends-without-an-answer":
            return self.events()
        if name == "call-stream-breaks-and-is-resumed":
            STATE["open"] = message["id"]
            self.events()
            self.wfile.write(b"id: e1\nretry: 50\ndata: \n\n")
            return self.wfile.flush()
        if name == "call-fails":
            return self.whole(500, b"out of order")
        if name == "call-is-limited":
            return self.whole(429, b"slow down", Retry_After="60")
        if name == "call-is-not-json":
            return self.whole(200, b"{not json", Content_Type="application/json")
        if name == "call-is-a-page":
            return self.whole(200, b"<html>Please log in</html>", Content_Type="text/html")
        if name == "call-is-accepted":
            return self.whole(202)
        if name == "call-floods-events":
            self.events()
            while True:
                self.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
        if name == "call-20-mb-event":
            self.events()
            return self.event({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "x" * (20 << 20)}]}})
        if name == "call-20-mb-json":
            result["result"] = {"content": [{"type": "text", "text": "x" * (20 << 20)}]}
            return self.json(result)
        if name == "call-event-without-end":
            self.events()
            try:
                while True:
                    self.wfile.write(b"data: " + b"x" * 65536)
            except OSError:
                return None
        return self.json(result)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
