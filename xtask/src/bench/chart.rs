//! Growth curves as SVG: both axes logarithmic, so that a straight level line is a cost that does not grow.
//!
//! Colours are chosen to be readable on a light and on a dark ground; there is no ground of its own.

use std::fmt::Write as _;

/// A line of the chart.
pub(crate) struct Series {
    pub(crate) name: String,
    /// Length and cost, both above zero.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart with logarithmic axes.
pub(crate) struct Chart {
    pub(crate) title: String,
    labels: [String; 2],
    series: Vec<Series>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
const INK: &str = "#7d8590";
const COLOURS: [&str; 5] = ["#2f81f7", "#db6d28", "#2ea043", "#a371f7", "#d4a72c"];

impl Chart {
    /// The series that have more than one point, with labels of the horizontal and the vertical axis.
    pub(crate) fn new(title: &str, labels: [&str; 2], mut series: Vec<Series>) -> Chart {
        series.retain(|series| series.points.len() > 1);
        Chart {
            title: title.to_owned(),
            labels: labels.map(str::to_owned),
            series,
        }
    }

    /// The picture, or nothing when there is nothing to draw.
    pub(crate) fn svg(&self) -> Option<String> {
        let points = || {
            self.series
                .iter()
                .flat_map(|series| series.points.iter().copied())
        };
        let x = Axis::over(points().map(|point| point.0), LEFT, WIDTH - RIGHT)?;
        let y = Axis::over(points().map(|point| point.1), HEIGHT - BOTTOM, TOP)?;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{INK}\" role=\"img\">\n"
        );
        let _ = writeln!(svg, "<title>{}</title>", escaped(&self.title));
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>",
            escaped(&self.title)
        );
        self.grid(&mut svg, &x, &y);
        self.lines(&mut svg, &x, &y);
        svg.push_str("</svg>\n");
        Some(svg)
    }

    fn grid(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for value in x.ticks() {
            let at = x.place(value);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"{INK}\" stroke-opacity=\"0.25\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                short(value)
            );
        }
        for value in y.ticks() {
            let at = y.place(value);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"{INK}\" stroke-opacity=\"0.25\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                short(value)
            );
        }
        let middle = (LEFT + right) / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 14.0,
            escaped(&self.labels[0])
        );
        let middle = (TOP + bottom) / 2.0;
        let _ = writeln!(
            svg,
            "<text transform=\"translate(18 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(&self.labels[1])
        );
    }

    /// The lines, each with its name at its end. Names that would cover each other are moved apart.
    fn lines(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let mut ends: Vec<(f64, usize)> = Vec::new();
        for (at, series) in self.series.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let mut points = series.points.clone();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let places: Vec<(f64, f64)> = points
                .iter()
                .map(|(px, py)| (x.place(*px), y.place(*py)))
                .collect();
            let path: Vec<String> = places.iter().map(|(px, py)| format!("{px:.1},{py:.1}")).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
            for (px, py) in &places {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.5\" fill=\"{colour}\"/>"
                );
            }
            ends.extend(places.last().map(|(_, py)| (*py, at)));
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = f64::NEG_INFINITY;
        for (end, at) in ends {
            let place = end.max(lowest + 16.0);
            lowest = place;
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{}\">{}</text>",
                WIDTH - RIGHT + 10.0,
                place + 4.0,
                COLOURS[at % COLOURS.len()],
                escaped(&self.series[at].name)
            );
        }
    }
}

/// A logarithmic axis over whole decades of 1, 2 and 5.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Axis> {
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let axis = |least: f64, most: f64| Axis {
            least,
            most,
            from,
            to,
        };
        (least.is_finite() && least > 0.0).then(|| axis(step_below(least), step_above(most.max(least * 2.0))))
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value / self.least).ln() / (self.most / self.least).ln();
        self.from + share * (self.to - self.from)
    }

    /// 1, 2 and 5 of each decade, or only 1 when the axis is long.
    fn ticks(&self) -> Vec<f64> {
        let decades = (self.most / self.least).log10();
        let steps: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let first = self.least.log10().floor() as i32;
        let all =
            (first..first + 20).flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
        all.filter(|value| *value >= self.least * 0.999 && *value <= self.most * 1.001)
            .collect()
    }
}

fn step_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let fits = |step: &f64| step * decade <= value * 1.000_001;
    [5.0, 2.0, 1.0].into_iter().find(fits).unwrap_or(1.0) * decade
}

fn step_above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let fits = |step: &f64| step * decade >= value * 0.999_999;
    [1.0, 2.0, 5.0, 10.0].into_iter().find(fits).unwrap_or(10.0) * decade
}

/// `20k`, `0.5`, `3M`.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = format!("{value:.3}");
    format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(series: &[(&str, [(f64, f64); 3])]) -> String {
        let series = series.iter().map(|(name, points)| Series {
            name: (*name).into(),
            points: points.to_vec(),
        });
        Chart::new("cost & length", ["rounds", "µs"], series.collect())
            .svg()
            .unwrap()
    }

    #[test]
    fn a_level_cost_is_a_level_line_and_a_linear_one_rises() {
        let level = [(10.0, 30.0), (100.0, 30.0), (1_000.0, 30.0)];
        let linear = [(10.0, 30.0), (100.0, 300.0), (1_000.0, 3_000.0)];
        let svg = drawn(&[("level", level), ("linear", linear)]);
        let lines = svg
            .lines()
            .filter_map(|line| line.strip_prefix("<polyline points=\""));
        let heights: Vec<Vec<f64>> = lines
            .map(|line| {
                let points = line.split('"').next().unwrap().split(' ');
                points
                    .map(|point| point.split_once(',').unwrap().1.parse().unwrap())
                    .collect()
            })
            .collect();
        assert!(
            heights[0].windows(2).all(|pair| pair[0] == pair[1]),
            "{heights:?}"
        );
        assert!(heights[1].windows(2).all(|pair| pair[0] > pair[1]), "{heights:?}");
        assert!(svg.contains("cost &amp; length") && svg.contains(">level</text>"));
    }

    #[test]
    fn ticks_are_round_numbers_within_the_axis() {
        let axis = Axis::over([12.0, 4_300.0].into_iter(), 0.0, 100.0).unwrap();
        assert_eq!((axis.least, axis.most), (10.0, 5_000.0));
        assert_eq!(axis.ticks()[..4], [10.0, 20.0, 50.0, 100.0]);
        assert_eq!([0.5, 20.0, 5_000.0, 2e6].map(short), ["0.5", "20", "5k", "2M"]);
    }

    #[test]
    fn without_two_points_there_is_no_picture() {
        let one = Series {
            name: "one".into(),
            points: vec![(1.0, 1.0)],
        };
        assert!(Chart::new("t", ["x", "y"], vec![one]).svg().is_none());
    }
}
