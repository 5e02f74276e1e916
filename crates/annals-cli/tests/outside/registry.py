"""npm's and PyPI's registry on a port of this machine, with the packages that were installed for the tests.

    registry.py NODE_FOLDER PYTHON_FOLDER
"""

import base64
import glob
import hashlib
import http.server
import io
import json
import os
import re
import sys
import tarfile
import urllib.parse
import zipfile

NODE, PYTHON = sys.argv[1:3]


def npm_packages():
    found = {}
    for place, locked in json.load(open(f"{NODE}/package-lock.json"))["packages"].items():
        folder = os.path.join(NODE, place)
        # What is meant for other systems is on the list and not in the folder.
        if place and os.path.isfile(f"{folder}/package.json"):
            name = locked.get("name") or place.split("node_modules/")[-1]
            found.setdefault(name, {})[locked["version"]] = folder
    return found


NPM = npm_packages()


def tarball(folder):
    def own(entry):
        return None if "/node_modules" in entry.name else entry

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder, arcname="package", filter=own)
    return packed.getvalue()


def packument(name, address):
    versions = {}
    for version, folder in NPM[name].items():
        about = json.load(open(f"{folder}/package.json"))
        tar = f"http://{address}/npm/-/tar/{urllib.parse.quote(name, safe='')}/{version}.tgz"
        versions[version] = {**about, "name": name, "version": version, "dist": {"tarball": tar}}
    return {"name": name, "dist-tags": {"latest": max(versions)}, "versions": versions}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


SITE = glob.glob(f"{PYTHON}/lib/python*/site-packages")[0]
DISTS = {normal(os.path.basename(path).split("-")[0]): path for path in glob.glob(f"{SITE}/*.dist-info")}


def wheel_name(dist):
    stem = os.path.basename(dist).removesuffix(".dist-info")
    tags = re.findall(r"^Tag: (.+)$", open(f"{dist}/WHEEL").read(), re.M)
    parts = [sorted({tag.split("-")[at] for tag in tags}) for at in range(3)]
    return f"{stem}-" + "-".join(".".join(part) for part in parts) + ".whl"


def wheel(dist):
    """The wheel that an installed package came from, without what its installation added."""
    packed, record = io.BytesIO(), []
    named = os.path.basename(dist)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for line in open(f"{dist}/RECORD").read().splitlines():
            path = line.rsplit(",", 2)[0].strip('"')
            added = [f"{named}/{name}" for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")]
            if path.startswith("..") or path.endswith(".pyc") or path in added:
                continue
            content = open(os.path.join(SITE, path), "rb").read()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            archive.writestr(path, content)
            record.append(f"{path},sha256={digest},{len(content)}")
        record.append(f"{named}/RECORD,,")
        archive.writestr(f"{named}/RECORD", "\n".join(record) + "\n")
    return packed.getvalue()


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def give(self, content, kind, status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self):
        parts = [urllib.parse.unquote(part) for part in self.path.split("?")[0].strip("/").split("/")]
        match parts:
            case ["npm", "-", "tar", name, version]:
                self.give(tarball(NPM[name][version.removesuffix(".tgz")]), "application/octet-stream")
            case ["npm", *name] if "/".join(name) in NPM:
                about = packument("/".join(name), self.headers["Host"])
                self.give(json.dumps(about).encode(), "application/json")
            case ["simple", name] if name in DISTS:
                file = wheel_name(DISTS[name])
                page = f'<!DOCTYPE html><html><body><a href="/wheel/{name}/{file}">{file}</a></body></html>'
                self.give(page.encode(), "text/html")
            case ["wheel", name, _]:
                self.give(wheel(DISTS[name]), "application/octet-stream")
            case _:
                self.give(b'{"error": "not found"}', "application/json", 404)

    do_HEAD = do_GET

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.give(b"{}", "application/json", 404)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
print(server.server_address[1], flush=True)
server.serve_forever()
