//! What executed code can read of its conversation.

use std::sync::Arc;

use annals_sandbox::TrustedHost;
use serde_json::json;

use crate::exec::{self, contract, python, report, stage};
use crate::stage::{Stage, error_code};

/// A conversation with something to read in an earlier turn.
async fn told() -> Stage {
    let mut stage = stage();
    stage
        .call(
            "react.write",
            json!({"path": "a.md", "channel": "canvas", "content": "# Notes of turn one", "kind": "file"}),
        )
        .await;
    python(
        &mut stage,
        "open('turn_1/files/b.bin', 'wb').write(bytes(range(256)) * 4)",
        &["b.bin"],
    )
    .await;
    stage.clear_disk();
    stage.begin("turn_2");
    stage
}

#[tokio::test]
async fn python_reads_any_logical_path_as_text_or_bytes() {
    let mut stage = told().await;
    let code = r#"
from context_tools import fetch_ctx, ContextError
text = fetch_ctx("fi:turn_1.files/a.md")
print(repr(str(text)), text.mime, text.path, text["text"] == text, text[2:7])
binary = fetch_ctx("turn_1/files/b.bin")
print(len(binary), type(binary).__mro__[2].__name__, binary == bytes(range(256)) * 4, binary.path)
print(open("turn_1/files/b.bin", "rb").read() == binary)
print(fetch_ctx("ar:turn_1.user.prompt"))
print(fetch_ctx("tc:turn_1.c1.call").json()["tool_id"])
print([row["title"] for row in fetch_ctx("so:sources_pool[1]").json()])
for path in ["fi:turn_9.files/a.md", "so:sources_pool[99]", "sk:none", "../../etc/passwd", "/etc/passwd", "", "x" * 9000]:
    try: print("GOT", fetch_ctx(path))
    except ContextError as error: print(error.code)
"#;
    let outcome = python(&mut stage, code, &[]).await;
    insta::assert_snapshot!(report(&outcome), @r#"
    The code ran to its end; its contract names no files.
    stdout:
    '# Notes of turn one' text/markdown fi:turn_1.files/a.md True Notes
    1024 bytes True fi:turn_1.files/b.bin
    True
    please
    react.write
    ['a.md']
    path_missing
    path_missing
    path_missing
    invalid_path
    invalid_path
    invalid_path
    invalid_request
    "#);
}

#[tokio::test]
async fn the_shell_and_javascript_read_it_too() {
    let mut stage = told().await;
    let bash = "annals-ctx fetch fi:turn_1.files/a.md > \"$FILES_DIR/copy.md\"; annals-ctx fetch fi:turn_1.files/b.bin | wc -c\n\
                annals-ctx fetch fi:turn_9.files/no; echo \"exit $?\"; annals-ctx; echo \"exit $?\"";
    let outcome = stage
        .call(
            "exec_tools.execute_code_bash",
            json!({"code": bash, "contract": contract(&["copy.md"])}),
        )
        .await;
    assert_eq!(error_code(&outcome), None, "{}", report(&outcome));
    insta::assert_snapshot!(report(&outcome), @r#"
    Succeeded:
    - turn_2/files/copy.md
    stdout:
    1024
    exit 1
    exit 2
    stderr:
    annals-ctx: nothing is at `fi:turn_9.files/no`
    usage: annals-ctx fetch PATH...
    "#);
    let javascript = "const { fetchCtx } = require('context_tools');\n\
        (async () => { console.log(await fetchCtx('fi:turn_1.files/a.md')); console.log((await fetchCtx('fi:turn_1.files/b.bin')).bytes.length);\n\
        await fetchCtx('ar:turn_9.user.prompt').catch((error) => console.log(error.code)); })()";
    let outcome = stage
        .call(
            "exec_tools.execute_code_javascript",
            json!({"code": javascript, "contract": []}),
        )
        .await;
    insta::assert_snapshot!(report(&outcome), @r#"
    The code ran to its end; its contract names no files.
    stdout:
    {
      path: 'fi:turn_1.files/a.md',
      mime: 'text/markdown',
      text: '# Notes of turn one'
    }
    1024
    path_missing
    "#);
}

#[tokio::test]
async fn the_environment_has_nothing_of_the_host() {
    let mut stage = stage();
    let code = "import os\nprint(sorted(os.environ)); print(os.getcwd() == os.environ['OUT_DIR'])\n\
                print(sorted(os.listdir('/run/annals'))); print(os.access('/run/annals/tools', os.W_OK))";
    let outcome = python(&mut stage, code, &[]).await;
    insta::assert_snapshot!(report(&outcome), @r#"
    The code ran to its end; its contract names no files.
    stdout:
    ['ANNALS_CTX_SOCKET', 'FILES_DIR', 'HOME', 'LANG', 'NODE_PATH', 'OUT_DIR', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'PYTHONPATH']
    True
    ['context.sock', 'tools']
    False
    "#);
}

#[tokio::test]
async fn without_walls_the_same_modules_are_found() {
    let mut stage = exec::stage_with(Arc::new(TrustedHost::new()));
    let code = "import os\nfrom context_tools import fetch_ctx\nprint(fetch_ctx('ar:turn_1.user.prompt'))\n\
                os.system('annals-ctx fetch ar:turn_1.user.prompt > ' + os.environ['FILES_DIR'] + '/prompt.txt')\n\
                print(os.getcwd() == os.environ['OUT_DIR'])\n";
    let outcome = python(&mut stage, code, &["prompt.txt"]).await;
    assert_eq!(error_code(&outcome), None, "{}", report(&outcome));
    insta::assert_snapshot!(report(&outcome), @r"
    Succeeded:
    - turn_1/files/prompt.txt
    stdout:
    please
    True
    ");
}
