"""Artifacts of the conversation, from inside executed code.

    from context_tools import fetch_ctx
    text = fetch_ctx("tc:turn_1.c1.result")      # a str for text, bytes for anything else
    text.mime, text.path                         # what it is, and its canonical path
"""
import base64
import errno
import json
import os
import socket
import sys
import time


class ContextError(LookupError):
    """The path names nothing, or cannot be read."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code

    def __str__(self):
        return self.args[0]


class _Content:
    def __getitem__(self, key):
        # Also readable by field: content["text"], content["mime"], content["path"].
        if isinstance(key, str):
            fields = {"path": self.path, "mime": self.mime, self._field: self._whole()}
            return fields[key]
        return super().__getitem__(key)

    def get(self, key, default=None):
        try:
            return self[key]
        except KeyError:
            return default

    def json(self):
        """The content parsed as JSON."""
        return json.loads(self)


class Text(_Content, str):
    """A text with .path and .mime."""

    _field = "text"

    def _whole(self):
        return str(self)

    text = property(_whole)


class Binary(_Content, bytes):
    """Bytes with .path and .mime."""

    _field = "bytes"

    def _whole(self):
        return bytes(self)


def _ask(request):
    """The answer to a request, as a file."""
    address, folder = os.environ.get("ANNALS_CTX_SOCKET"), os.environ.get("ANNALS_CTX_DIR")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(address)
            connection.sendall(request + b"\n")
            return connection.makefile("rb")
    if folder:
        return _ask_by_mail(folder, request)
    raise ContextError("context_not_available", "the conversation cannot be read from here")


# A request that nobody answers is written again, and given up after a while.
_AGAIN_SECONDS, _PATIENCE_SECONDS = 2, 60


def _ask_by_mail(folder, request):
    name = "%d-%s" % (os.getpid(), os.urandom(8).hex())
    line = name.encode() + b" " + base64.b64encode(request) + b"\n"
    if len(line) > 4096:
        raise ContextError("invalid_request", "the path is too long")
    answer, started, asked = os.path.join(folder, name), time.monotonic(), None
    while time.monotonic() - started < _PATIENCE_SECONDS:
        if asked is None or time.monotonic() - asked > _AGAIN_SECONDS:
            asked = time.monotonic() if _post(os.path.join(folder, "requests"), line) else None
        try:
            opened = open(answer, "rb")
            os.unlink(answer)
            return opened
        except FileNotFoundError:
            time.sleep(0.005)
    raise ContextError("context_not_available", "no answer")


def _post(pipe, line):
    """Whether somebody reads the pipe."""
    try:
        with open(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0) as writer:
            return writer.write(line) == len(line)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT, errno.EAGAIN):
            return False
        raise


def fetch_ctx(path):
    """The whole content of what a logical path names."""
    if not isinstance(path, str):
        raise TypeError("path must be a str such as 'fi:turn_1.files/report.md'")
    with _ask(json.dumps({"path": path}).encode()) as answer:
        head = json.loads(answer.readline() or b'{"ok": false}')
        if not head.get("ok"):
            error = head.get("error") or {}
            raise ContextError(error.get("code", "context_not_available"), error.get("message", "no answer"))
        body = answer.read(head["size_bytes"])
    if len(body) != head["size_bytes"]:
        raise ContextError("context_not_available", "the answer ended early")
    content = Text(body.decode("utf-8", "replace")) if head["kind"] == "text" else Binary(body)
    content.path, content.mime = head["path"], head["mime"]
    return content


def _main(arguments):
    if len(arguments) < 2 or arguments[0] != "fetch":
        sys.stderr.write("usage: annals-ctx fetch PATH...\n")
        return 2
    for path in arguments[1:]:
        try:
            content = fetch_ctx(path)
        except (ContextError, OSError) as error:
            sys.stderr.write("annals-ctx: %s\n" % error)
            return 1
        sys.stdout.buffer.write(content.encode() if isinstance(content, str) else content)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
