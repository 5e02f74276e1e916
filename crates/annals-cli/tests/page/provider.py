"""A provider of chat completions that says what a test wants, when the test wants it: a pause lasts until it is released,
however slow the machine is. It outlives the server that asks it, as a real one does."""

import http.server
import json
import threading

WAIT_SECONDS = 120


class Pause:
    """Holds an answer in the middle until `release`. `reached` is set once the words before it are sent."""

    def __init__(self):
        self.reached, self.released = threading.Event(), threading.Event()

    def release(self):
        self.released.set()

    def wait(self):
        self.reached.set()
        self.released.wait(WAIT_SECONDS)


def calls(*given: tuple[str, dict]) -> dict:
    """An answer that calls tools."""
    return {"calls": given}


class Provider:
    """Answers the n-th request with the n-th of `answers`: a text, a list of texts and pauses, or calls."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0
        self.lock = threading.Lock()
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    provider.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the one who asked is gone

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def options(self) -> list[str]:
        """How `annals` is told to ask it."""
        return ["--model", "openai:stand-in", "--base-url", f"http://127.0.0.1:{self.http.server_port}/v1"]

    def answer(self, handler):
        with self.lock:
            answer = self.answers[min(self.asked, len(self.answers) - 1)]
            self.asked += 1
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()

        def send(**delta):
            chunk = {"id": "x", "object": "chat.completion.chunk", "model": "stand-in", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            handler.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            handler.wfile.flush()

        reason = "stop"
        if isinstance(answer, dict):
            reason = "tool_calls"
            for at, (name, arguments) in enumerate(answer["calls"]):
                function = {"name": name.replace(".", "__"), "arguments": json.dumps(arguments)}
                send(tool_calls=[{"index": at, "id": f"call_{self.asked}_{at}", "type": "function", "function": function}])
        else:
            for piece in [answer] if isinstance(answer, str) else answer:
                piece.wait() if isinstance(piece, Pause) else send(content=piece)
        usage = {"prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 0}}
        end = {"id": "x", "object": "chat.completion.chunk", "model": "stand-in", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
        handler.wfile.write(f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode())
        handler.close_connection = True

    def stop(self):
        for answer in self.answers:
            for piece in answer if isinstance(answer, list) else []:
                if isinstance(piece, Pause):
                    piece.release()
        self.http.shutdown()
