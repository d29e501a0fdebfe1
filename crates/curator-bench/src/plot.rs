//! Draws the results as SVG: bars, or points where the numbers differ by orders of magnitude.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use curator_results::bench::{
    CaseResults, Document, EnvironmentResults, NOTHING, Peer, PeerResults, Spread, number,
};
use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::prelude::{DrawingArea, IntoDrawingArea, IntoFont, RGBColor, ShapeStyle, WHITE};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, TextStyle};

const SIZE: (u32, u32) = (1200, 520);
const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(222, 222, 222);
const FONT: &str = "sans-serif";

/// The quantity that a plot shows for each case.
#[derive(Debug, Clone, Copy)]
struct Subject {
    /// The name of the file.
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    /// The prefixes of the names of the plotted cases.
    cases: &'static [&'static str],
    value: fn(&PeerResults) -> Option<Spread>,
    scale: Scale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Logarithmic,
}

const SUBJECTS: [Subject; 5] = [
    Subject {
        name: "cycles",
        title: "An uncontended cycle",
        unit: "µs, less is better",
        cases: &["cycle-"],
        value: |results| results.time().map(|time| scaled(time, 1e-3)),
        scale: Scale::Linear,
    },
    Subject {
        name: "processor",
        title: "Processor time of the client for an uncontended cycle",
        unit: "µs, less is better",
        cases: &["cycle-"],
        value: |results| results.processor().map(|time| scaled(time, 1e-3)),
        scale: Scale::Linear,
    },
    Subject {
        name: "handovers",
        title: "Hand-overs of one mutex",
        unit: "per second, more is better",
        cases: &["handover-", "fleet-"],
        value: rate,
        scale: Scale::Linear,
    },
    Subject {
        name: "distinct",
        title: "Tasks of one session, each with a separate mutex",
        unit: "cycles per second, more is better",
        cases: &["distinct-"],
        value: rate,
        scale: Scale::Linear,
    },
    Subject {
        name: "crowds",
        title: "A crowd of one session is drained",
        unit: "ms, less is better",
        cases: &["crowd-"],
        value: |results| {
            let waiters = results.rounds.first()?.operations as f64;
            results.time().map(|time| scaled(time, waiters / 1e6))
        },
        scale: Scale::Logarithmic,
    },
];

fn rate(results: &PeerResults) -> Option<Spread> {
    results.time().map(|time| scaled(time.inverse(), 1e9))
}

fn scaled(spread: Spread, by: f64) -> Spread {
    Spread {
        median: spread.median * by,
        least: spread.least * by,
        most: spread.most * by,
    }
}

fn colour(peer: Peer) -> RGBColor {
    // The palette of Okabe and Ito, which color-blind readers can distinguish.
    match peer {
        Peer::Ours => RGBColor(0, 114, 178),
        Peer::Native => RGBColor(86, 180, 233),
        Peer::Curator => RGBColor(213, 94, 0),
        Peer::CuratorShared => RGBColor(204, 121, 167),
        Peer::Kazoo => RGBColor(0, 158, 115),
        Peer::Go => RGBColor(230, 159, 0),
        Peer::ZookeeperClient => RGBColor(150, 150, 150),
    }
}

/// Draws the plots of each environment into a directory. Returns the names of the files.
pub(crate) fn draw(document: &Document, directory: &Path) -> anyhow::Result<Vec<String>> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let mut files = Vec::new();
    for environment in &document.environments {
        for subject in &SUBJECTS {
            let groups = groups(environment, subject);
            if groups.iter().all(|group| group.bars.is_empty()) {
                continue;
            }
            let file = format!("{}-{}.svg", environment.name, subject.name);
            let mut svg = String::new();
            plot(&mut svg, environment, subject, &groups)
                .map_err(|why| anyhow!("cannot draw {file}: {why}"))?;
            fs::write(directory.join(&file), svg)
                .with_context(|| format!("cannot write {file}"))?;
            files.push(file);
        }
    }
    Ok(files)
}

/// The bars of one case.
#[derive(Debug)]
struct Group {
    label: String,
    bars: Vec<(Peer, Spread)>,
    /// The peers without a bar.
    missing: Vec<Peer>,
}

fn groups(environment: &EnvironmentResults, subject: &Subject) -> Vec<Group> {
    environment
        .cases
        .iter()
        .filter(|case| {
            subject
                .cases
                .iter()
                .any(|begin| case.name.starts_with(begin))
        })
        .map(|case| Group::of(case, subject))
        .collect()
}

impl Group {
    fn of(case: &CaseResults, subject: &Subject) -> Self {
        let mut group = Self {
            label: label(&case.name),
            bars: Vec::new(),
            missing: Vec::new(),
        };
        for results in &case.peers {
            match (subject.value)(results) {
                Some(value) => group.bars.push((results.peer, value)),
                None => group.missing.push(results.peer),
            }
        }
        group
    }
}

/// The part of a case's name that differs between the cases of a plot.
fn label(name: &str) -> String {
    match name.split_once('-') {
        Some(("cycle", lock)) => lock.to_owned(),
        Some(("handover", number)) => match number.strip_prefix("processes-") {
            Some(number) => format!("{number} processes"),
            None => format!("{number} sessions"),
        },
        Some(("fleet", number)) => format!("{number} sessions"),
        Some(("distinct", number)) => format!("{number} tasks"),
        Some(("crowd", number)) => match number.strip_prefix("each-") {
            Some(number) => format!("{number}, separate locks"),
            None => format!("{number}, one lock"),
        },
        _ => name.to_owned(),
    }
}

type Drawing = Result<(), String>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn plot(
    svg: &mut String,
    environment: &EnvironmentResults,
    subject: &Subject,
    groups: &[Group],
) -> Drawing {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|error| error.to_string())?;
    let (most, least) = groups
        .iter()
        .flat_map(|group| &group.bars)
        .fold((0.0_f64, f64::MAX), |(most, least), (_, spread)| {
            (most.max(spread.most), least.min(spread.least))
        });
    let (bottom, top) = match subject.scale {
        Scale::Linear => (0.0, most * 1.1),
        Scale::Logarithmic => (
            least.log10().floor(),
            (most.log10() + 0.2).max(least.log10().floor() + 1.0),
        ),
    };
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .margin_top(62)
        .x_label_area_size(30)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..groups.len() as f64, bottom..top)
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .y_labels(if subject.scale == Scale::Linear {
            8
        } else {
            (top - bottom).ceil() as usize
        })
        .y_desc(subject.unit)
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 14))
        .y_label_formatter(&|value| match subject.scale {
            Scale::Linear => number(*value),
            Scale::Logarithmic => number(10_f64.powf(*value)),
        })
        .draw()
        .map_err(|error| error.to_string())?;
    let peers: Vec<Peer> = Peer::ALL
        .into_iter()
        .filter(|peer| has(groups, *peer))
        .collect();
    // The width of a bar; the gap between groups is as wide.
    let width = 1.0 / (peers.len() as f64 + 1.0);
    let height_of = |value: f64| {
        if subject.scale == Scale::Linear {
            value
        } else {
            value.log10()
        }
    };
    let middle_of = |at: u32, peer: Peer| {
        let number = peers.iter().position(|other| *other == peer).unwrap_or(0);
        f64::from(at) + width * (number as f64 + 1.0)
    };
    for (group, at) in groups.iter().zip(0_u32..) {
        for peer in group.missing.iter().filter(|peer| peers.contains(peer)) {
            let (x, y) = chart.backend_coord(&(middle_of(at, *peer), bottom));
            write(&root, NOTHING, (x, y - 3), 12, HPos::Center)?;
        }
        for (peer, spread) in &group.bars {
            let middle = middle_of(at, *peer);
            let left = middle - width * 0.45;
            let right = middle + width * 0.45;
            let median = height_of(spread.median);
            let failed = |error: &dyn std::fmt::Display| error.to_string();
            if subject.scale == Scale::Linear {
                let bar = Rectangle::new([(left, 0.0), (right, median)], colour(*peer).filled());
                chart.draw_series([bar]).map_err(|error| failed(&error))?;
            } else {
                let point = Circle::new((middle, median), 6, colour(*peer).filled());
                chart.draw_series([point]).map_err(|error| failed(&error))?;
            }
            let low = height_of(spread.least);
            let high = height_of(spread.most);
            let whisker =
                PathElement::new(vec![(middle, low), (middle, high)], INK.stroke_width(1));
            chart
                .draw_series([whisker])
                .map_err(|error| failed(&error))?;
            let (x, y) = chart.backend_coord(&(middle, high));
            write(&root, &number(spread.median), (x, y - 6), 12, HPos::Center)?;
        }
        let (x, y) = chart.backend_coord(&(f64::from(at) + 0.5, bottom));
        write(&root, &group.label, (x, y + 20), 14, HPos::Center)?;
    }
    write(
        &root,
        &format!("{} ({})", subject.title, environment.name),
        (90, 26),
        20,
        HPos::Left,
    )?;
    legend(&root, &peers)
}

fn has(groups: &[Group], peer: Peer) -> bool {
    groups
        .iter()
        .any(|group| group.bars.iter().any(|(other, _)| *other == peer))
}

fn legend(root: &Area<'_>, peers: &[Peer]) -> Drawing {
    let mut x = 90;
    for peer in peers {
        let style: ShapeStyle = colour(*peer).filled();
        root.draw(&Rectangle::new([(x, 38), (x + 14, 50)], style))
            .map_err(|error| error.to_string())?;
        write(root, &peer.to_string(), (x + 20, 50), 14, HPos::Left)?;
        x += 50 + 8 * i32::try_from(peer.to_string().len()).unwrap_or(0);
    }
    Ok(())
}

/// Writes a text above the point `at`.
fn write(root: &Area<'_>, text: &str, at: (i32, i32), size: u32, across: HPos) -> Drawing {
    let style = TextStyle::from((FONT, size).into_font())
        .color(&INK)
        .pos(Pos::new(across, VPos::Bottom));
    root.draw_text(text, &style, at)
        .map_err(|error| error.to_string())
}
