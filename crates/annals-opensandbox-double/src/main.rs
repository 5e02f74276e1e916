//! `opensandbox-double [--wire e2b] [--listen ADDRESS] [--key KEY]` serves the double until it is killed.

use std::process::ExitCode;

use annals_opensandbox_double::{Double, DoubleOptions, Wire, play_in_tests};

fn main() -> ExitCode {
    annals_sandbox::launcher::init();
    play_in_tests();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match runtime.block_on(serve(&words)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

async fn serve(words: &[&str]) -> std::io::Result<()> {
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).map(|value| (*value).to_owned())
    };
    let wire = match value("--wire").as_deref() {
        Some("e2b") => Wire::E2b,
        _ => Wire::OpenSandbox,
    };
    let options = DoubleOptions {
        wire,
        listen: value("--listen").unwrap_or_else(|| "127.0.0.1:8080".to_owned()),
        key: value("--key"),
        ..DoubleOptions::default()
    };
    let double = Double::start(options).await?;
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{}", double.url())?;
    if wire == Wire::E2b {
        writeln!(std::io::stdout(), "{}", double.sandbox_url())?;
    }
    std::future::pending().await
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "opensandbox-double: {error}");
    ExitCode::FAILURE
}
