"""A model on OpenAI's Responses wire that calls one tool of an MCP server and then ends; it prints its port, and later what
the client gave back for the call.

`calling_model.py NAMESPACE TOOL ARGUMENTS`
"""
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

NAMESPACE, TOOL, ARGUMENTS = sys.argv[1:4]
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "namespace": NAMESPACE, "name": TOOL, "arguments": ARGUMENTS}
DONE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
         "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, media_type, body):
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(404, "text/plain", b"")

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        given = [item["output"] for item in request["input"] if item.get("type") == "function_call_output"]
        if given:
            print(json.dumps(given[-1]), flush=True)
        item = DONE if given else CALL
        response = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": USAGE}
        events = [
            ("response.created", {"response": dict(response, status="in_progress", output=[])}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": response}),
        ]
        lines = ["event: %s\ndata: %s\n\n" % (name, json.dumps(dict(data, type=name))) for name, data in events]
        self.answer(200, "text/event-stream", "".join(lines).encode())


server = HTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
