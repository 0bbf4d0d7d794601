//! The samples of a soak as a picture: one panel for every figure over one axis of time.

use super::super::report::Row;
use super::super::trend::Trend;
use super::watch::Sample;
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 84.0;
/// The height of a panel, and the room between two of them.
const PANEL: f64 = 130.0;
const GAP: f64 = 48.0;
/// Points of one line; more samples are shown by the largest of each stretch.
const POINTS: usize = 800;

/// Readable on a light page and on a dark one.
const STYLE: &str = "
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .ground { fill: #ffffff } .title { font-weight: 600; font-size: 14px } .small { fill: #57606a }
  .grid { stroke: #d0d7de } .end { stroke: #8c959f; stroke-dasharray: 2 4 }
  .line { fill: none; stroke: #0969da; stroke-width: 1.5 }
  .part { opacity: 0.55 }
  .trend { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 7 4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .ground { fill: #0d1117 } .small { fill: #9198a1 }
    .grid { stroke: #30363d } .end { stroke: #6e7681 } .line { stroke: #58a6ff } .trend { stroke: #ff7b72 }
  }";

struct Panel<'a> {
    title: &'a str,
    unit: &'a str,
    figure: fn(&Sample) -> f64,
    /// A part of the same, drawn lighter.
    part: Option<fn(&Sample) -> f64>,
    trend: Option<&'a Trend>,
}

/// Where things are.
struct Frame {
    seconds: f64,
    top: f64,
    most: f64,
}

impl Frame {
    fn x(&self, at: f64) -> f64 {
        LEFT + at / self.seconds * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PANEL - (value / self.most).clamp(0.0, 1.0) * PANEL
    }
}

pub fn draw(samples: &[Sample], loaded: f64, row: &Row) -> String {
    let panel = |title, unit, figure, trend| Panel { title, unit, figure, part: None, trend };
    let panels = [
        panel("Resident memory", "MB", |sample| sample.rss_mb, row.rss_trend.as_ref()),
        panel("Open files and sockets", "handles", |sample| sample.handles, row.handles_trend.as_ref()),
        Panel {
            part: Some(|sample| sample.disk.kept_mb),
            ..panel("Disk: all, and without journals", "MB", |sample| sample.disk.all_mb, None)
        },
        panel("Tasks ended", "per second", |sample| sample.per_second, None),
        panel("p99 of creates and reports", "ms", |sample| sample.p99_ms, None),
    ];
    let seconds = samples.last().map_or(1.0, |sample| sample.at).max(1.0);
    let height = TOP + (PANEL + GAP) * panels.len() as f64 + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n<title>codeq \
         bench soak</title>\n<style>{STYLE}\n</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    legend(&mut svg, samples.len());
    for (number, panel) in panels.iter().enumerate() {
        let top = TOP + (PANEL + GAP) * number as f64 + 8.0;
        let most = round_up(samples.iter().map(panel.figure).fold(0.0, f64::max));
        let frame = Frame { seconds, top, most };
        axes(&mut svg, panel, &frame);
        curve(&mut svg, samples, panel, &frame);
        let x = frame.x(loaded.min(seconds));
        let _ = writeln!(svg, "<path class=\"end\" d=\"M{x:.1} {top:.1}v{PANEL}\"/>");
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, samples: usize) {
    let _ = writeln!(
        svg,
        "<text class=\"title\" x=\"{LEFT}\" y=\"24\">A constant mixed load, looked at every second</text>\n\
         <path class=\"line\" d=\"M{LEFT} 44h28\"/><text x=\"114\" y=\"48\">{samples} samples</text>\n\
         <path class=\"trend\" d=\"M240 44h28\"/><text x=\"274\" y=\"48\">trend once it has settled</text>\n\
         <path class=\"end\" d=\"M470 34v18\"/><text x=\"480\" y=\"48\">the load ends, retention goes on</text>"
    );
}

fn axes(svg: &mut String, panel: &Panel<'_>, frame: &Frame) {
    let trend = panel.trend.map(|trend| format!(" - {}", trend.words(""))).unwrap_or_default();
    let (title, unit, top) = (panel.title, panel.unit, frame.top);
    let _ = writeln!(
        svg,
        "<text class=\"title\" x=\"{LEFT}\" y=\"{:.1}\">{title} ({unit})<tspan class=\"small\">{trend}</tspan></text>",
        top - 8.0
    );
    for part in 0..=4 {
        let value = frame.most * f64::from(part) / 4.0;
        let y = frame.y(value);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            number(value)
        );
    }
    let (scale, word) = if frame.seconds > 180.0 { (60.0, "min") } else { (1.0, "s") };
    for part in 0..=5 {
        let at = frame.seconds * f64::from(part) / 5.0;
        let _ = writeln!(
            svg,
            "<text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} {word}</text>",
            frame.x(at),
            top + PANEL + 16.0,
            number(at / scale)
        );
    }
}

fn curve(svg: &mut String, samples: &[Sample], panel: &Panel<'_>, frame: &Frame) {
    let lines = [("line", Some(panel.figure)), ("line part", panel.part)];
    for (class, figure) in lines.into_iter().filter_map(|(class, figure)| Some((class, figure?))) {
        let mut points = String::new();
        for stretch in samples.chunks(samples.len().div_ceil(POINTS).max(1)) {
            let value = stretch.iter().map(figure).fold(0.0, f64::max);
            let _ = write!(points, "{:.1},{:.1} ", frame.x(stretch[0].at), frame.y(value));
        }
        let _ = writeln!(svg, "<polyline class=\"{class}\" points=\"{}\"/>", points.trim_end());
    }
    if let Some(Trend { ends: [from, to], .. }) = panel.trend {
        let ends = [frame.x(from.0), frame.y(from.1), frame.x(to.0), frame.y(to.1)];
        let [x, y, to_x, to_y] = ends.map(|number| (number * 10.0).round() / 10.0);
        let _ = writeln!(svg, "<path class=\"trend\" d=\"M{x} {y}L{to_x} {to_y}\"/>");
    }
}

/// The next of 1, 2, 4, 5, 10, 20 ... so that four steps have round numbers.
fn round_up(most: f64) -> f64 {
    let power = 10f64.powf(most.max(0.1).log10().floor());
    let fits = [1.0, 2.0, 4.0, 5.0, 8.0].into_iter().map(|step| step * power).find(|step| *step >= most);
    fits.unwrap_or(10.0 * power)
}

fn number(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0}k", value / 1000.0),
        value if value.fract().abs() < 0.01 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::meter::Disk;
    use super::*;

    #[test]
    fn every_panel_has_its_line_within_the_frame() {
        let sample = |n: u32| Sample {
            at: f64::from(n),
            rss_mb: 80.0,
            handles: 210.0,
            disk: Disk { all_mb: 64.0, kept_mb: 12.0 },
            per_second: f64::from(n * 10),
            p99_ms: 2.5,
        };
        let samples: Vec<Sample> = (0..5000).map(sample).collect();
        let svg = draw(&samples, 4000.0, &Row::default());
        assert_eq!(svg.matches("<polyline").count(), 6);
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
        let points = svg.lines().filter_map(|line| line.split("points=\"").nth(1)?.split('"').next());
        for point in points.flat_map(|line| line.split(' ')) {
            let (x, y) = point.split_once(',').expect("a pair");
            let (x, y): (f64, f64) = (x.parse().expect("a number"), y.parse().expect("a number"));
            assert!((LEFT..=WIDTH - RIGHT).contains(&x) && y > TOP, "{point}");
        }
    }

    #[test]
    fn axes_end_in_round_numbers() {
        for (most, end) in [(0.0, 0.1), (3.0, 4.0), (81.0, 100.0), (210.0, 400.0), (1000.0, 1000.0)] {
            assert!((round_up(most) - end).abs() < 1e-9, "{most}: {}", round_up(most));
        }
    }
}
