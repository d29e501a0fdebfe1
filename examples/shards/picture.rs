//! A picture of a history, as SVG: a row for each shard, and a bar for each service.

use std::fmt::Write as _;

use crate::history::History;

const WIDTH: f64 = 880.0;
/// The x of the first moment, and of the last.
const LEFT: f64 = 92.0;
const RIGHT: f64 = 862.0;
/// The y of the first row.
const TOP: f64 = 50.0;
const ROW: f64 = 28.0;
const BAR: f64 = 22.0;
/// How many colours the style has.
const COLOURS: usize = 4;

/// The names of the classes begin with the picture's name, because a page that contains the picture
/// has other classes.
const STYLE: &str = "<style>
.shards-card { fill: #ffffff; stroke: #d0d7de } .shards-text { fill: #1f2328 } .shards-small { fill: #57606a; font-size: 12.5px }
.shards-gap { fill: #d8dee4 } .shards-on { fill: #ffffff; font-weight: 600 } .shards-mark { stroke: #cf222e; stroke-width: 2 }
.shards-what { fill: #cf222e; font-weight: 600 } .shards-0 { fill: #1a7f37 } .shards-1 { fill: #0969da } .shards-2 { fill: #9a6700 } .shards-3 { fill: #8250df }
@media (prefers-color-scheme: dark) {
.shards-card { fill: #0d1117; stroke: #3d444d } .shards-text { fill: #f0f6fc } .shards-small { fill: #9198a1 } .shards-gap { fill: #30363d }
.shards-mark { stroke: #f85149 } .shards-what { fill: #f85149 }
}
</style>";

/// Draws the services of these shards until a moment, with a mark and a text at each of the moments
/// before.
pub(crate) fn draw(
    history: &History,
    shards: &[String],
    marks: &[(f64, String)],
    end: f64,
) -> String {
    let services: Vec<_> = shards
        .iter()
        .map(|shard| (shard, history.of_shard(shard)))
        .collect();
    let all = || services.iter().flat_map(|(_, services)| services);
    let start = all().map(|service| service.from).fold(f64::MAX, f64::min);
    let x = |at: f64| LEFT + (at - start) / (end - start) * (RIGHT - LEFT);
    let mut members: Vec<&str> = all().map(|service| &*service.member).collect();
    members.sort_unstable();
    members.dedup();

    let bottom = TOP + ROW * shards.len() as f64;
    let height = bottom + 52.0;
    let alternative = alternative(&members, marks);
    // An HTML block of Markdown begins with a tag on one line, and has no empty lines.
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="shards-title" font-family="-apple-system, 'Segoe UI', 'DejaVu Sans', Verdana, sans-serif" font-size="14">
<title id="shards-title">{alternative}</title>
{STYLE}
<rect class="shards-card" x="0.5" y="0.5" width="{}" height="{}" rx="10"/>
"#,
        WIDTH - 1.0,
        height - 1.0
    );
    for (row, (shard, services)) in services.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let text = y + 16.0;
        line(
            &mut svg,
            &format!(r#"<text class="shards-text" x="18" y="{text:.1}">shard {shard}</text>"#),
        );
        bar(&mut svg, "gap", LEFT, RIGHT, y);
        for service in services {
            let colour = members.iter().position(|member| *member == service.member);
            let class = (colour.unwrap_or_default() % COLOURS).to_string();
            let (from, until) = (x(service.from), x(service.until.unwrap_or(end)));
            bar(&mut svg, &class, from, until, y);
            if until - from > 24.0 {
                let (x, member) = (from + 8.0, &service.member);
                line(
                    &mut svg,
                    &format!(r#"<text class="shards-on" x="{x:.1}" y="{text:.1}">{member}</text>"#),
                );
            }
        }
    }
    for (at, what) in marks {
        let (x, top, y) = (x(*at), TOP - 14.0, TOP - 22.0);
        line(
            &mut svg,
            &format!(
                r#"<line class="shards-mark" x1="{x:.1}" y1="{top}" x2="{x:.1}" y2="{bottom}"/><text class="shards-what" x="{x:.1}" y="{y}" text-anchor="middle">{what}</text>"#
            ),
        );
    }
    let y = bottom + 16.0;
    let mut second = 0.0;
    while start + second <= end {
        let x = x(start + second);
        line(
            &mut svg,
            &format!(
                r#"<text class="shards-small" x="{x:.1}" y="{y}" text-anchor="middle">{second:.0} s</text>"#
            ),
        );
        second += 1.0;
    }
    let y = bottom + 38.0;
    line(
        &mut svg,
        &format!(
            r#"<text class="shards-small" x="{LEFT}" y="{y}">Colour: who serves the shard. Grey: nobody, because it is reserved for the killed member.</text>"#
        ),
    );
    svg.push_str("</svg>\n");
    svg
}

/// The picture in words.
fn alternative(members: &[&str], marks: &[(f64, String)]) -> String {
    let marks: Vec<_> = marks.iter().map(|(_, what)| what.as_str()).collect();
    format!(
        "Which of the members {} serves which shard, while {}. No shard has two members at a time.",
        members.join(", "),
        marks.join(", ")
    )
}

fn bar(svg: &mut String, class: &str, from: f64, until: f64, y: f64) {
    let width = until - from;
    line(
        svg,
        &format!(
            r#"<rect class="shards-{class}" x="{from:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}" rx="3"/>"#
        ),
    );
}

fn line(svg: &mut String, text: &str) {
    // A `String` takes any text.
    let _ = writeln!(svg, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_is_a_bar_and_each_moment_a_mark() {
        let mut history = History::default();
        history.begins("a", "0", 5, 10.0);
        history.ends("a", "0", 12.0);
        history.begins("b", "0", 6, 15.0);
        let svg = draw(
            &history,
            &["0".to_owned()],
            &[(12.0, "a is killed".to_owned())],
            20.0,
        );
        // 77 pixels for a second.
        for expected in [
            r#"<rect class="shards-0" x="92.0" y="50.0" width="154.0""#,
            r#"<rect class="shards-1" x="477.0" y="50.0" width="385.0""#,
            r#"<line class="shards-mark" x1="246.0""#,
            r#"y="28" text-anchor="middle">a is killed</text>"#,
            r#"text-anchor="middle">10 s</text>"#,
        ] {
            assert!(svg.contains(expected), "no {expected} in:\n{svg}");
        }
        assert!(!svg.contains("\n\n") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
