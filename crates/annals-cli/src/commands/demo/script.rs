//! What the demo's model says. Its figures are those that the code computes; the script expects to see them.

use annals::model::{Script, ScriptStep};
use serde_json::json;

const FIGURES_PY: &str = include_str!("../../../assets/demo/figures.py");
const REPORT_MD: &str = include_str!("../../../assets/demo/report.md");
const REPORT_PATCH: &str = include_str!("../../../assets/demo/report.patch");

const CHUNK_MS: u64 = 12;
const THINKING_MS: u64 = 250;

/// Whether code can run here.
pub(super) enum Code {
    Can,
    /// It cannot, and this is why.
    Cannot(String),
}

/// How fast the model seems to write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// As a person reads.
    Readable,
    /// Without waiting.
    AtOnce,
}

/// Both turns.
pub(super) fn script(code: &Code, pace: Pace) -> Script {
    let (delay_ms, chunk_ms) = match pace {
        Pace::Readable => (THINKING_MS, CHUNK_MS),
        Pace::AtOnce => (0, 0),
    };
    let mut steps = vec![plan()];
    let has_chart = matches!(code, Code::Can);
    if has_chart {
        steps.push(compute());
    }
    steps.extend([
        write(has_chart),
        correct(),
        lay_out(has_chart),
        hide(),
        answer(),
        remember(),
        search(),
        read_again(),
        recall(),
    ]);
    Script {
        delay_ms,
        chunk_ms,
        ..Script::of(steps)
    }
}

fn said(text: &str, step: ScriptStep) -> ScriptStep {
    ScriptStep {
        text: Some(text.to_owned()),
        ..step
    }
}

fn plan() -> ScriptStep {
    let steps = [
        "Compute the figures and draw a chart",
        "Write the report",
        "Check it and lay it out as PDF",
    ];
    said(
        "A table with 36 rows is attached. I plan three steps.",
        ScriptStep::call("tc_plan", "react.plan", json!({"mode": "new", "steps": steps})),
    )
}

fn compute() -> ScriptStep {
    let contract = json!([
        {"filename": "figures.csv", "description": "revenue by region, and in all"},
        {"filename": "chart.svg", "description": "revenue by month"},
    ]);
    let params = json!({"code": FIGURES_PY, "contract": contract, "prog_name": "figures"});
    let step = ScriptStep::call("tc_figures", "exec_tools.execute_code_python", params);
    ScriptStep {
        expect: vec!["sales.csv".to_owned()],
        ..said(
            "→ [1] Computing in the sandbox: no network, nothing writable but this turn's files.",
            step,
        )
    }
}

fn write(has_figures: bool) -> ScriptStep {
    let params = json!({"path": "report.md", "channel": "canvas", "content": REPORT_MD, "kind": "file"});
    let step = ScriptStep::call("tc_report", "react.write", params);
    match has_figures {
        true => ScriptStep {
            expect: vec!["total,305893.50".to_owned()],
            ..said("✓ [1] The figures are there. → [2]", step)
        },
        false => said(
            "✗ [1] — no code runs here; I take the figures from the table. → [2]",
            step,
        ),
    }
}

fn correct() -> ScriptStep {
    let params = json!({"path": "report.md", "channel": "canvas", "patch": REPORT_PATCH, "kind": "file"});
    said(
        "✓ [2] One line names the wrong month. → [3]",
        ScriptStep::call("tc_fix", "react.patch", params),
    )
}

fn lay_out(has_chart: bool) -> ScriptStep {
    let report = REPORT_MD.replace("November", "December");
    let (title, body) = report.split_once('\n').unwrap_or(("", &report));
    let chart = if has_chart {
        "\n![Revenue by month](chart.svg)\n"
    } else {
        ""
    };
    let params = json!({
        "path": "report.pdf",
        "content": format!("{}\n{chart}", body.trim()),
        "format": "markdown",
        "title": title.trim_start_matches("# "),
    });
    said(
        "Laying it out, with the table, the chart and the source.",
        ScriptStep::call("tc_pdf", "rendering_tools.write_pdf", params),
    )
}

fn hide() -> ScriptStep {
    let params = json!({"path": "fi:turn_demo_1.files/report.pdf", "replacement": "the report as a one-page PDF, checked"});
    said(
        "✓ [3] I have seen the page; hiding it keeps the context small, and its path stays valid.",
        ScriptStep::call("tc_hide", "react.hide", params),
    )
}

fn answer() -> ScriptStep {
    ScriptStep::text(
        "You sold for **305,893.50** in 2025 [[S:1]]. North leads with 41 % of it, the second half brought 21 % more than \
         the first, and December was the best month.\n\nThe report to send around is `report.pdf`; its text is \
         `report.md`.",
    )
}

fn remember() -> ScriptStep {
    let params = json!({"query": "which month sold best", "top_k": 3});
    said(
        "Asking the memory of earlier turns, by meaning.",
        ScriptStep::call("tc_remember", "react.memsearch", params),
    )
}

fn search() -> ScriptStep {
    let params = json!({"name_regex": "report\\.", "content_regex": "best month"});
    let step = ScriptStep::call("tc_search", "react.search_files", params);
    ScriptStep {
        expect: vec!["December was the best month".to_owned()],
        ..said("Looking for the file that says so.", step)
    }
}

fn read_again() -> ScriptStep {
    let params =
        json!({"paths": ["fi:turn_demo_1.files/report.md#L11-12", "fi:turn_demo_1.files/report.pdf"]});
    let step = ScriptStep::call("tc_read", "react.read", params);
    ScriptStep {
        expect: vec!["fi:turn_demo_1.files/report.md".to_owned()],
        ..said("Found by its path; reading it again, the hidden PDF too.", step)
    }
}

fn recall() -> ScriptStep {
    let text =
        "December, with **34,101.50** [[S:1]]. The report is still at `fi:turn_demo_1.files/report.pdf`.";
    ScriptStep {
        expect: vec!["The best month was December".to_owned()],
        ..ScriptStep::text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_correction_applies_to_the_report() {
        let removed = REPORT_PATCH
            .lines()
            .find_map(|line| line.strip_prefix('-'))
            .unwrap();
        assert!(REPORT_MD.lines().any(|line| line == removed));
    }

    #[test]
    fn without_code_the_script_computes_nothing_and_shows_no_chart() {
        let without = script(&Code::Cannot(String::new()), Pace::AtOnce);
        let text = format!("{without:?}");
        assert!(!text.contains("exec_tools") && !text.contains("chart.svg"));
    }
}
