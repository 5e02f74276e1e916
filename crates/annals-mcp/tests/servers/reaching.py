"""An MCP server whose one tool tries to get out of its sandbox by the way it is told.

Each way returns what it learned from outside, so that "reached" is a fact and not a missing error.
"""
import json
import os
import socket
import struct
import sys
import urllib.request

WAYS = {}


def way(function):
    WAYS[function.__name__.replace("_", "-")] = function
    return function


def direct():
    """An opener that ignores the proxy."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


@way
def get_by_environment(host, port):
    return urllib.request.urlopen(f"http://{host}:{port}/", timeout=5).read().decode()


@way
def get_without_proxy(host, port):
    return direct().open(f"http://{host}:{port}/", timeout=5).read().decode()


@way
def tcp_socket(host, port):
    with socket.create_connection((host, port), timeout=5) as stream:
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return stream.recv(4096).decode()


@way
def udp_socket(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        sock.sendto(b"hello", (host, port))
        return sock.recv(4096).decode()


@way
def dns_query(host, port):
    """A question to a name server, written by hand."""
    query = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\x07example\x03com\x00" + struct.pack(">HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        sock.sendto(query, (host, port))
        return sock.recv(4096).hex()


@way
def resolver(host, port):
    return str(socket.getaddrinfo("example.com", 443))


@way
def raw_socket(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        return "made"


@way
def packet_socket(host, port):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        return "made"


@way
def abstract_socket(host, port):
    """Abstract names belong to a network namespace, not to the file system."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(2)
        sock.connect("\0annals-test-canary")
        return sock.recv(64).decode()


@way
def connect_by_proxy(host, port):
    with socket.create_connection(("127.0.0.1", 3128), timeout=5) as stream:
        stream.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
        head = stream.recv(4096)
        if not head.startswith(b"HTTP/1.1 200"):
            raise OSError(head.decode().splitlines()[0])
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return stream.recv(4096).decode()


@way
def authorities(host, port):
    return str(len(os.listdir("/etc/ssl/certs")))


@way
def environment(host, port):
    return " ".join(sorted(name for name in os.environ if "proxy" in name.lower()))


def attempt(arguments):
    try:
        return f"reached: {WAYS[arguments['way']](arguments['host'], arguments['port'])}"
    except Exception as error:
        return f"failed: {error}"


TOOL = {
    "name": "reach", "description": "Tries a way out.",
    "inputSchema": {"type": "object", "properties": {
        "way": {"type": "string"}, "host": {"type": "string"}, "port": {"type": "integer"}}},
}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        method, params = request["method"], request.get("params", {})
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        if method == "initialize":
            answer["result"] = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                                "serverInfo": {"name": "reaching", "version": "1"}}
        elif method == "tools/list":
            answer["result"] = {"tools": [TOOL]}
        elif method == "tools/call":
            answer["result"] = {"content": [{"type": "text", "text": attempt(params["arguments"])}]}
        else:
            answer["error"] = {"code": -32601, "message": "unknown"}
        print(json.dumps(answer), flush=True)


main()
