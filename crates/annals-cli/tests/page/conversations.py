"""Conversations as export files, made here so that a test can have any block it wants."""

import base64
import hashlib
import json
import pathlib

TIME = "2026-11-17T09:00:%02d.000000Z"


def compact(value) -> str:
    return json.dumps(value, separators=(",", ":"))


class Export:
    """An export in the making: a header, blocks and artifacts, and totals with a digest of all lines."""

    def __init__(self, name: str, title: str):
        self.name, self.title = name, title
        self.lines: list[str] = []
        self.blocks = 0
        self.artifacts = 0

    def block(self, kind: str, turn: str, mime: str = "text/markdown", **more) -> int:
        self.blocks += 1
        block = {
            "seq": self.blocks,
            "type": kind,
            "author": more.pop("author", "system"),
            "turn_id": turn,
            "ts": TIME % (self.blocks % 60),
            "mime": mime,
            **more,
        }
        self.lines.append(compact(block))
        return self.blocks

    def artifact(self, content: bytes) -> str:
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        piece = {"artifact": digest, "size_bytes": len(content), "offset": 0, "base64": base64.b64encode(content).decode()}
        self.lines.append(compact(piece))
        self.artifacts += 1
        return digest

    def file(self, turn: str, name: str, mime: str, content: bytes, text: str | None = None, **meta) -> int:
        digest = self.artifact(content)
        kept = {
            "hosted_uri": "annals-artifact:" + digest.replace(":", "/"),
            "content_digest": digest,
            "size_bytes": len(content),
            "physical_path": f"{turn}/files/{name}",
            **meta,
        }
        body = {"text": text} if text is not None else {"blob": {"digest": digest, "size_bytes": len(content)}}
        return self.block("react.tool.result", turn, mime, author="tool", path=f"fi:{turn}.files/{name}", meta=kept, **body)

    def write(self, folder: pathlib.Path) -> pathlib.Path:
        about = {"id": self.name, "title": self.title, "scope": "local/default/me", "created": TIME % 0}
        header = compact({"annals_export": 1, "conversation": about, "blocks": self.blocks})
        lines = [header, *self.lines]
        digest = hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()
        totals = {"blocks": self.blocks, "artifacts": self.artifacts, "sha256": "sha256:" + digest}
        lines.append(compact({"end": totals}))
        path = folder / f"{self.name}.annals"
        path.write_text("".join(line + "\n" for line in lines))
        return path


def long_conversation(blocks: int) -> Export:
    """Turns of ten blocks each, a fifth of them markdown of several lines."""
    export = Export("conv_long", "A long conversation")
    number = 0
    while export.blocks < blocks:
        number += 1
        turn = f"turn_long_{number}"
        usage = {"input_tokens": 9000, "cache_read_tokens": 8000, "cache_write_tokens": 600, "output_tokens": 90}
        export.block("turn.header", turn, "text/plain", path=f"ar:{turn}.turn.header")
        export.block("user.prompt", turn, author="user", path=f"ar:{turn}.user.prompt", text=f"Question {number}: how many?")
        export.block("agent.log.header", turn, "text/plain", path=f"ar:{turn}.agent.log.header", text="annals | model: script:long")
        for step in (1, 2):
            call = f"tc_{number}_{step}"
            meta = {"step": step, "usage": usage, "channel": "timeline_text"}
            export.block("react.notes", turn, author="assistant", path=f"ar:{turn}.react.notes.{call}", text=f"Looking at part **{step}**.", meta=meta)
            said = {"tool_id": "react.read", "tool_call_id": call, "params": {"paths": [f"ar:{turn}.user.prompt"]}, "ts": TIME % 1}
            export.block("react.tool.call", turn, "application/json", author="assistant", path=f"tc:{turn}.{call}.call", call_id=call, text=json.dumps(said), meta={"tool_call_id": call, "step": step})
            found = {"paths": [f"ar:{turn}.user.prompt"], "missing": [], "total_tokens": number % 977}
            export.block("react.tool.result", turn, "application/json", author="tool", path=f"tc:{turn}.{call}.result", call_id=call, text=json.dumps(found), meta={"tool_call_id": call, "result_count": 1})
        export.block("assistant.completion", turn, author="assistant", path=f"ar:{turn}.assistant.completion", text=f"# Answer {number}\n\n- one **{number}**\n- two\n\n| a | b |\n|---|---:|\n| {number} | 2 |", meta={"step": 3, "usage": usage})
        report = {"outcome": "complete", "rounds": 2, "iterations": 3, "usage": usage, "elapsed_ms": 5}
        export.block("react.completion", turn, "application/json", path=f"ar:{turn}.react.completion", text=json.dumps(report))
    return export
