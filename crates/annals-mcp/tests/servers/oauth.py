"""An MCP server that wants a login, and its authorization server, of one mechanism; prints the ports of both.

Only the standard library is used. The authorization server is a real one in what matters: codes are used once and are bound to
a client, a redirect address, a resource and a challenge; refresh tokens rotate, and one that comes twice is refused. Its
`/seen` says what it saw.
"""
import base64
import hashlib
import json
import secrets
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

MECHANISM = sys.argv[1]
TOOL = {"name": "work", "description": "Works.", "inputSchema": {"type": "object", "properties": {}}}
LOCK = threading.RLock()
CLIENTS = {"configured": {"secret": "configured-client-secret", "redirects": None}}
CODES, ACCESS, REFRESH = {}, {}, {}
SEEN = {"registered": 0, "authorized": [], "exchanged": 0, "refreshed": 0, "reused": 0, "calls": 0, "strayed": 0}


def challenge_of(verifier):
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


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

    def json(self, message, status=200, **headers):
        self.whole(status, json.dumps(message).encode(), Content_Type="application/json", **headers)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))


class Resource(Handler):
    def do_GET(self):
        if self.path == "/.well-known/oauth-protected-resource/mcp":
            servers = [ISSUER]
            if MECHANISM == "private-server":
                servers = ["http://192.168.250.1:9"]
            if MECHANISM == "issuer-changes" and SEEN["exchanged"]:
                servers = [ISSUER.replace("127.0.0.1", "localhost")]
            if MECHANISM == "many-servers":
                servers = ["http://127.0.0.1:%d/no-%d" % (PORT, number) for number in range(500)]
            resource = "http://elsewhere.example/mcp" if MECHANISM == "other-resource" else RESOURCE
            return self.json({"resource": resource, "authorization_servers": servers})
        self.whole(405 if self.path == "/mcp" else 404)

    def do_DELETE(self):
        self.whole(200)

    def do_POST(self):
        message = json.loads(self.body())
        sent = self.headers.get("Authorization", "")
        with LOCK:
            token = ACCESS.get(sent.removeprefix("Bearer "))
            valid = token is not None and token["until"] > time.time() and token["uses"] != 0
            if valid:
                token["uses"] -= 1
        if MECHANISM == "never-content":
            valid = False
        pointer = 'resource_metadata="http://127.0.0.1:%d/.well-known/oauth-protected-resource/mcp"' % PORT
        if not valid:
            return self.whole(401, b"log in", WWW_Authenticate="Bearer " + pointer)
        if "id" not in message:
            return self.whole(202)
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        method = message.get("method")
        if method == "initialize":
            answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}, "prompts": {}}, "serverInfo": {"name": "guarded", "version": "1"}}
        elif method == "tools/list":
            answer["result"] = {"tools": [dict(TOOL, description="For " + sent) if MECHANISM == "repeats-the-token" else TOOL]}
        elif method == "resources/list":
            answer["result"] = {"resources": [{"uri": "x://" + sent, "name": sent, "description": sent}]}
        elif method == "resources/read":
            answer["result"] = {"contents": [{"uri": "x://a", "text": "kept: " + sent}]}
        elif method == "prompts/get":
            answer["result"] = {"messages": [{"role": "user", "content": {"type": "text", "text": "say " + sent}}]}
        elif method == "prompts/list":
            answer["error"] = {"code": -32603, "message": "not for " + sent}
        elif method == "tools/call":
            if MECHANISM == "wants-more" and "files:write" not in token["scope"]:
                more = 'Bearer error="insufficient_scope", scope="files:write", ' + pointer
                return self.whole(403, b"not enough", WWW_Authenticate=more)
            with LOCK:
                SEEN["calls"] += 1
            words = "you sent " + sent if MECHANISM == "repeats-the-token" else "done"
            answer["result"] = {"content": [{"type": "text", "text": words}]}
        else:
            answer["error"] = {"code": -32601, "message": "no such method"}
        if MECHANISM == "repeats-the-token" and method != "tools/call":
            # Another spelling of the same words.
            return self.whole(200, json.dumps(answer).replace("access-", "\\u0061ccess-").encode(), Content_Type="application/json")
        self.json(answer)


class Authorization(Handler):
    def do_GET(self):
        address = urlsplit(self.path)
        if address.path == "/.well-known/oauth-authorization-server":
            return self.metadata()
        if address.path == "/seen":
            return self.json(SEEN)
        if address.path == "/authorize":
            return self.authorize({name: values[0] for name, values in parse_qs(address.query).items()})
        self.whole(404)

    def metadata(self):
        if MECHANISM == "huge-metadata":
            return self.json({"issuer": ISSUER, "padding": "x" * (8 << 20)})
        told = {
            "issuer": "http://" + self.headers["Host"],
            "authorization_endpoint": ISSUER + "/authorize",
            "token_endpoint": ISSUER + "/token",
            "registration_endpoint": ISSUER + "/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        if MECHANISM == "other-issuer":
            told["issuer"] = "https://evil.example"
        if MECHANISM == "private-token":
            told["token_endpoint"] = "http://169.254.169.254/token"
        if MECHANISM == "script-address":
            told["authorization_endpoint"] = "javascript:alert(1)//"
        if MECHANISM == "registers-nobody":
            del told["registration_endpoint"]
        if MECHANISM == "plain-challenges":
            told["code_challenge_methods_supported"] = ["plain"]
        self.json(told)

    def authorize(self, query):
        client = CLIENTS.get(query.get("client_id"))
        redirect = query.get("redirect_uri", "")
        if client is None or (client["redirects"] is not None and redirect not in client["redirects"]):
            return self.whole(400, b"unknown client or redirect address")
        if query.get("code_challenge_method") != "S256" or query.get("resource") != RESOURCE:
            return self.whole(400, b"no challenge, or another resource")
        with LOCK:
            SEEN["authorized"].append(query.get("scope"))
        told = {"state": query.get("state", ""), "iss": ISSUER}
        if MECHANISM == "denies":
            told.update(error="access_denied", error_description="not\x1b[31m today")
        else:
            code = "code-" + secrets.token_urlsafe(24)
            CODES[code] = dict(query)
            told["code"] = code
        if MECHANISM == "wrong-state":
            told["state"] = "somebody-elses"
        if MECHANISM == "wrong-issuer":
            told["iss"] = "https://evil.example"
        if MECHANISM == "no-issuer":
            del told["iss"]
        self.whole(302, Location=redirect + "?" + urlencode(told, quote_via=quote))

    def do_POST(self):
        body = self.body()
        if self.path == "/register":
            asked = json.loads(body)
            name = "client-" + secrets.token_hex(4)
            with LOCK:
                SEEN["registered"] += 1
                CLIENTS[name] = {"secret": None, "redirects": asked["redirect_uris"]}
            return self.json({"client_id": name, "redirect_uris": asked["redirect_uris"]}, 201)
        if self.path == "/elsewhere":
            SEEN["strayed"] += 1
        if self.path != "/token":
            return self.whole(404)
        if MECHANISM == "token-redirects":
            return self.whole(307, Location=ISSUER + "/elsewhere")
        if MECHANISM == "huge-token":
            return self.json({"access_token": "x" * (8 << 20), "token_type": "Bearer"})
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        client = form.get("client_id")
        secret = None
        if self.headers.get("Authorization", "").startswith("Basic "):
            client, secret = base64.b64decode(self.headers["Authorization"][6:]).decode().split(":")
            client, secret = unquote(client), unquote(secret)
        with LOCK:
            self.token(form, client, secret)

    def token(self, form, client, secret):
        known = CLIENTS.get(client)
        if known is None or known["secret"] != secret:
            return self.json({"error": "invalid_client"}, 401)
        if form.get("resource") != RESOURCE:
            return self.json({"error": "invalid_target"}, 400)
        if form.get("grant_type") == "authorization_code":
            asked = CODES.pop(form.get("code"), None)
            fits = (
                asked
                and asked["client_id"] == client
                and asked["redirect_uri"] == form.get("redirect_uri")
                and asked["code_challenge"] == challenge_of(form.get("code_verifier", ""))
            )
            if not fits:
                return self.json({"error": "invalid_grant"}, 400)
            SEEN["exchanged"] += 1
            return self.grant(client, asked.get("scope", ""))
        if MECHANISM == "refresh-fails":
            return self.json({"error": "temporarily_unavailable"}, 503)
        kept = REFRESH.get(form.get("refresh_token"))
        if kept is None or kept["client"] != client or kept["used"] or MECHANISM == "refresh-refused":
            SEEN["reused"] += 1 if kept and kept["used"] else 0
            return self.json({"error": "invalid_grant"}, 400)
        kept["used"] = True
        SEEN["refreshed"] += 1
        self.grant(client, kept["scope"])

    def grant(self, client, scope):
        access, refresh = "access-" + secrets.token_urlsafe(24), "refresh-" + secrets.token_urlsafe(24)
        first = SEEN["refreshed"] == 0
        lasts = 3600
        if MECHANISM in ("expires", "refresh-refused", "refresh-fails", "issuer-changes", "expires-for-good") and first:
            lasts = 1
        # The first token is withdrawn in the middle of its life: after the handshake, so that a call meets it.
        uses = 3 if MECHANISM == "revoked" and first else -1
        # The same, after somebody has looked at what is offered.
        if MECHANISM == "revoked-for-good" or (MECHANISM == "revoked-later" and first):
            uses = 4
        ACCESS[access] = {"until": time.time() + 3600 if lasts > 1 else time.time() + 60, "uses": uses, "scope": scope}
        told = {"access_token": access, "token_type": "Bearer", "expires_in": lasts, "scope": scope, "id_token": "id-" + secrets.token_urlsafe(24)}
        if MECHANISM == "expires-for-good":
            ACCESS[access]["until"] = time.time() + 1
        elif MECHANISM != "revoked-for-good":
            REFRESH[refresh] = {"client": client, "scope": scope, "used": False}
            told["refresh_token"] = refresh
        self.json(told)


resource = ThreadingHTTPServer(("127.0.0.1", 0), Resource)
authorization = ThreadingHTTPServer(("127.0.0.1", 0), Authorization)
PORT = resource.server_port
ISSUER = "http://127.0.0.1:%d" % authorization.server_port
RESOURCE = "http://127.0.0.1:%d/mcp" % PORT
threading.Thread(target=authorization.serve_forever, daemon=True).start()
print(PORT, authorization.server_port, flush=True)
resource.serve_forever()
