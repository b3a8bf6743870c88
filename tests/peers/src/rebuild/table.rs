//! The table of all ways, and how cuda-build compares with the best of its neighbours.

use super::{Outcome, Peer, STEPS, Step};
use crate::measure::{median, print_table};

pub fn print(peers: &[Peer]) {
    println!(
        "Each cell: files compiled as a whole + images compiled alone or with them; CPU seconds, wall seconds.\n"
    );
    let mut head = vec!["builds with".to_owned(), "version".to_owned()];
    head.extend(STEPS.map(|step| step.title().to_owned()));
    let mut rows = vec![head];
    for peer in peers {
        let mut row = vec![peer.way.name.to_owned(), peer.version.clone()];
        row.extend(peer.outcomes.iter().map(|outcomes| cell(outcomes)));
        rows.push(row);
    }
    print_table(&rows);
    print_comparison(peers);
}

fn cell(outcomes: &[Outcome]) -> String {
    let Some(last) = outcomes.last() else {
        return "–".to_owned();
    };
    let wrong = if outcomes.iter().all(|outcome| outcome.right) {
        ""
    } else {
        "**stale**, "
    };
    format!(
        "{wrong}{}+{}; {:.2}, {:.2}",
        last.calls.files,
        last.calls.images,
        middle(outcomes, |outcome| outcome.cpu),
        middle(outcomes, |outcome| outcome.wall)
    )
}

fn middle(outcomes: &[Outcome], value: fn(&Outcome) -> f64) -> f64 {
    median(outcomes.iter().map(value).collect())
}

/// Ratios to the best neighbour whose program is right. Ways with a launcher are compared with each
/// other only where a launcher is what is measured.
fn print_comparison(peers: &[Peer]) {
    let Some(own) = peers.iter().find(|peer| peer.way.name == "cuda-build") else {
        return;
    };
    println!("\ncuda-build beside the best neighbour without a launcher:\n");
    for (index, step) in STEPS.into_iter().enumerate() {
        let outcomes = &own.outcomes[index];
        if outcomes.is_empty() || step == Step::Nothing {
            continue;
        }
        let ratio = |value: fn(&Outcome) -> f64| {
            let best = peers
                .iter()
                .filter(|peer| peer.way.package != own.way.package && peer.way.compiles())
                .filter(|peer| !peer.way.has_launcher() && peer.failure.is_none())
                .filter(|peer| peer.outcomes[index].iter().all(|outcome| outcome.right))
                .map(|peer| (middle(&peer.outcomes[index], value), peer.way.name))
                .min_by(|one, other| one.0.total_cmp(&other.0));
            best.map_or_else(
                || "no other".to_owned(),
                |(best, name)| format!("{:.2} ({name})", middle(outcomes, value) / best),
            )
        };
        println!(
            "- {}: CPU {}, wall {}",
            step.title(),
            ratio(|outcome| outcome.cpu),
            ratio(|outcome| outcome.wall)
        );
    }
    let find = |name: &str| peers.iter().find(|peer| peer.way.name == name);
    if let Some(cargo) = find("(Cargo alone)") {
        let wall = |peer: &Peer| middle(&peer.outcomes[1], |outcome| outcome.wall);
        println!(
            "- nothing to do: {:+.1} ms of wall time beside Cargo alone",
            (wall(own) - wall(cargo)) * 1000.0
        );
    }
    let clean = STEPS.iter().position(|step| *step == Step::Clean);
    if let (Some(launched), Some(clean)) = (find("cuda-build, ccache"), clean)
        && !launched.outcomes[clean].is_empty()
    {
        let share = |value: fn(&Outcome) -> f64| {
            middle(&launched.outcomes[clean], value) / middle(&own.outcomes[0], value)
        };
        println!(
            "- clean rebuild with ccache beside its own cold build: CPU {:.2}, wall {:.2}",
            share(|outcome| outcome.cpu),
            share(|outcome| outcome.wall)
        );
    }
}
