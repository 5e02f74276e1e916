//! The catalog beside two tables that others keep by the vendors' pages: LiteLLM's and that of genai-prices.
//!
//! Every entry is in one of them, and both agree with it where they have it. Their versions are pinned in
//! `annals-requirements/packages.txt`; a newer pin shows what has changed since.

use std::path::{Path, PathBuf};

use annals_model::catalog::{Catalog, Known};
use annals_requirements::{Installed, installed};
use serde_json::Value;

/// Figures of one model as a table has them, in billionths of a dollar; what it does not say is none.
#[derive(Debug, Default, PartialEq)]
struct Figures {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    output: Option<u64>,
    /// The shortest prompt that costs more, and what its tokens cost then.
    long: Option<(u64, u64, u64)>,
}

impl Figures {
    /// Those of an entry of the catalog, as far as `table` has figures to compare them with.
    fn of(known: &Known, table: &Figures) -> Figures {
        let price = known.price.expect("every entry has a price");
        let long = price
            .long
            .map(|long| (long.over_tokens, long.input_nanousd, long.output_nanousd));
        Figures {
            input: table.input.map(|_| price.input_nanousd),
            cache_read: table.cache_read.map(|_| price.cache_read_nanousd),
            cache_write: table.cache_write.map(|_| price.cache_write_nanousd),
            output: table.output.map(|_| price.output_nanousd),
            // A price that begins where the window ends concerns nobody.
            long: table
                .long
                .filter(|long| long.0 < u64::from(known.window.context_tokens))
                .and(long),
        }
    }

    fn within(self, known: &Known) -> Figures {
        let window = u64::from(known.window.context_tokens);
        Figures {
            long: self.long.filter(|long| long.0 < window),
            ..self
        }
    }
}

struct Litellm(Value);

impl Litellm {
    fn read(packages: &Installed) -> Self {
        let file = below(
            packages.folder(),
            "litellm/model_prices_and_context_window_backup.json",
        );
        Litellm(serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
    }

    fn figures(&self, model: &str) -> Option<Figures> {
        let entry = self.entry(model)?;
        let of = |field: &str| Some((entry.get(field)?.as_f64()? * 1e9).round() as u64);
        let long = [100_000, 272_000].into_iter().find_map(|over: u64| {
            let above = format!("_per_token_above_{}k_tokens", over / 1_000);
            Some((
                over,
                of(&format!("input_cost{above}"))?,
                of(&format!("output_cost{above}"))?,
            ))
        });
        Some(Figures {
            input: of("input_cost_per_token"),
            cache_read: of("cache_read_input_token_cost"),
            cache_write: of("cache_creation_input_token_cost"),
            output: of("output_cost_per_token"),
            long,
        })
    }

    fn entry(&self, model: &str) -> Option<&Value> {
        let entry = named(&self.0, model)?;
        let is_vendor = matches!(entry["litellm_provider"].as_str(), Some("anthropic" | "openai"));
        is_vendor.then_some(entry)
    }
}

struct GenaiPrices(Value);

impl GenaiPrices {
    fn read(packages: &Installed) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/catalog/listed_prices.py");
        let printed = packages.script(&script).output().unwrap();
        assert!(
            printed.status.success(),
            "{}",
            String::from_utf8_lossy(&printed.stderr)
        );
        GenaiPrices(serde_json::from_slice(&printed.stdout).unwrap())
    }

    fn figures(&self, model: &str) -> Option<Figures> {
        let entry = named(&self.0, model)?;
        let long = entry.get("long").and_then(|long| {
            Some((
                long["over_tokens"].as_u64()?,
                long["input"].as_u64()?,
                long["output"].as_u64()?,
            ))
        });
        Some(Figures {
            input: entry["input"].as_u64(),
            cache_read: entry["cache_read"].as_u64(),
            cache_write: entry["cache_write"].as_u64(),
            output: entry["output"].as_u64(),
            long,
        })
    }
}

#[test]
fn prices_and_windows_are_those_of_two_tables_that_others_keep() {
    let (Some(litellm), Some(genai)) = (installed("litellm"), installed("genai-prices")) else {
        return;
    };
    let (litellm, genai) = (Litellm::read(&litellm), GenaiPrices::read(&genai));
    let models = Catalog::models().iter();
    let wrong: Vec<String> = models
        .flat_map(|known| {
            let mut wrong = wrong_prices(known, &litellm, &genai);
            wrong.extend(wrong_window(known, &litellm, &genai));
            wrong
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn wrong_prices(known: &Known, litellm: &Litellm, genai: &GenaiPrices) -> Vec<String> {
    let tables = [
        ("litellm", litellm.figures(&known.prefix)),
        ("genai-prices", genai.figures(&known.prefix)),
    ];
    if tables.iter().all(|(_, figures)| figures.is_none()) {
        return vec![format!("{}: in neither table", known.prefix)];
    }
    let wrong = tables.into_iter().filter_map(|(name, table)| {
        let table = table?.within(known);
        let own = Figures::of(known, &table);
        (own != table).then(|| format!("{}: {own:?}, {name} has {table:?}", known.prefix))
    });
    wrong.collect()
}

/// The catalog's window is what a prompt may have: LiteLLM's limit of the input, or what genai-prices' window leaves beside
/// the longest answer.
fn wrong_window(known: &Known, litellm: &Litellm, genai: &GenaiPrices) -> Option<String> {
    let (prompt, output) = (
        u64::from(known.window.context_tokens),
        u64::from(known.window.max_output_tokens),
    );
    let entry = litellm.entry(&known.prefix);
    let listed = |field: &str| entry.and_then(|entry| entry[field].as_u64());
    let context = named(&genai.0, &known.prefix).and_then(|entry| entry["context"].as_u64());
    let is_listed = listed("max_input_tokens") == Some(prompt)
        || context.is_some_and(|context| context == prompt || context.checked_sub(output) == Some(prompt));
    let is_known_output = listed("max_output_tokens").is_none_or(|limit| limit == output);
    (!is_listed || !is_known_output).then(|| {
        format!(
            "{}: {prompt} and {output}, litellm has {:?} and {:?}, genai-prices {context:?}",
            known.prefix,
            listed("max_input_tokens"),
            listed("max_output_tokens")
        )
    })
}

/// The entry of a model; the first version of a family is also called `…-0`.
fn named<'t>(table: &'t Value, model: &str) -> Option<&'t Value> {
    table.get(model).or_else(|| table.get(format!("{model}-0")))
}

/// A file of an installed package, whatever the version of Python.
fn below(folder: &Path, file: &str) -> PathBuf {
    let versions = std::fs::read_dir(folder.join("lib")).unwrap();
    let found = versions
        .map(|entry| entry.unwrap().path().join("site-packages").join(file))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("`{file}` is not below `{}`", folder.display()))
}
