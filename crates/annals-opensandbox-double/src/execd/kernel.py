"""One kernel: reads code as JSON lines, answers with what Jupyter would report."""
import ast
import json
import sys
import traceback

out = sys.stdout


def tell(**event):
    out.write(json.dumps(event) + "\n")
    out.flush()


class Stream:
    def __init__(self, kind):
        self.kind = kind

    def write(self, text):
        if text:
            tell(type=self.kind, text=text)
        return len(text)

    def flush(self):
        pass


space = {"__name__": "__main__"}
sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
while True:
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        continue
    if not line:
        break
    try:
        tree = ast.parse(json.loads(line))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)
            if value is not None:
                tell(type="result", results={"text": repr(value)})
    except BaseException as error:
        tell(type="error", error={"ename": type(error).__name__, "evalue": str(error),
                                  "traceback": traceback.format_exc().splitlines()})
    tell(type="idle")
