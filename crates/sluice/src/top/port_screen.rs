//! One port: its priority groups above, its queues below, or beside where the screen is wide.

use control::frames;
use control::v1::{Group, Port, Priority, Queue};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};

use crate::output::grouped;
use crate::top::bar::{Use, bar, bits, percent};
use crate::top::rates::{Rates, total_cells};

/// From this width on groups and queues are side by side.
const WIDE: u16 = 150;

/// Draws a port as it is, and as it was in the snapshot before.
pub fn draw(frame: &mut Frame, area: Rect, rates: &Rates, (port, before): (&Port, Option<&Port>)) {
    let [head, rest] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(headline(port, rates, before), head);
    let [groups, queues] = if area.width >= WIDE {
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(rest)
    } else {
        Layout::vertical([Constraint::Length(9), Constraint::Fill(1)]).areas(rest)
    };
    draw_groups(frame, groups, rates, (port, before));
    draw_queues(frame, queues, rates, (port, before));
}

fn headline(port: &Port, rates: &Rates, before: Option<&Port>) -> Line<'static> {
    let before = before.unwrap_or(port);
    let mut spans = vec![
        Span::styled(port.name.clone(), Style::new().bold()),
        Span::raw(format!(
            " {}  in {}bit/s  out {}bit/s",
            port.interface,
            bits(rates.bps(port.received, before.received)),
            bits(rates.bps(port.transmitted, before.transmitted))
        )),
    ];
    if port.speed_bps > 0 {
        spans.push(Span::raw(format!(" of {}bit/s", bits(port.speed_bps))));
    }
    if !port.up {
        spans.push(Span::styled("  down", Style::new().fg(Color::Red).bold()));
    }
    if port.held {
        spans.push(Span::styled("  held", Style::new().fg(Color::Yellow)));
    }
    Line::from(spans)
}

fn right(text: String) -> Line<'static> {
    Line::from(text).right_aligned()
}

fn red_unless_zero(count: u64) -> Line<'static> {
    let style = if count == 0 { Style::new() } else { Style::new().fg(Color::Red).bold() };
    let text = if count == 0 { "-".to_owned() } else { grouped(count) };
    Line::styled(text, style).right_aligned()
}

/// Draws a table of eight lines whose last column is a bar.
fn draw_table(
    frame: &mut Frame,
    area: Rect,
    columns: &[(&'static str, u16)],
    rows: Vec<(Vec<Line<'static>>, Use)>,
) {
    let fixed: u16 = columns.iter().map(|&(_, width)| width + 1).sum();
    let width = usize::from(area.width.saturating_sub(fixed));
    let headings = columns.iter().map(|&(name, _)| right(name.to_owned())).chain([Line::from("USE")]);
    let widths = columns.iter().map(|&(_, width)| Constraint::Length(width)).chain([Constraint::Fill(1)]);
    let lines = rows.into_iter().map(|(mut cells, of)| {
        cells.push(Line::from(bar(width, of)));
        Row::new(cells)
    });
    let header = Row::new(headings.collect::<Vec<_>>()).style(Style::new().bold());
    frame.render_widget(Table::new(lines, widths.collect::<Vec<_>>()).column_spacing(1).header(header), area);
}

/// Draws the priority groups: what was received and is still held, and the pauses of each.
fn draw_groups(frame: &mut Frame, area: Rect, rates: &Rates, (port, before): (&Port, Option<&Port>)) {
    let columns = [
        ("PRIO", 8),
        ("IN", 6),
        ("CELLS", 7),
        ("XOFF", 5),
        ("PAUSED", 6),
        ("PFC out", 7),
        ("in/s", 5),
        ("DROPS", 7),
    ];
    let rows = port.groups.iter().zip(&port.priorities).enumerate().map(|(number, (group, priority))| {
        let earlier = before.and_then(|port| port.groups.get(number)).unwrap_or(group);
        let earlier_pauses = before.and_then(|port| port.priorities.get(number)).unwrap_or(priority);
        (group_cells(number, rates, (group, earlier), (priority, earlier_pauses)), group_use(group))
    });
    draw_table(frame, area, &columns, rows.collect());
}

fn group_cells(
    number: usize,
    rates: &Rates,
    (group, earlier): (&Group, &Group),
    (priority, earlier_pauses): (&Priority, &Priority),
) -> Vec<Line<'static>> {
    let xoff = rates.percent_of_time(group.xoff_ns, earlier.xoff_ns);
    let paused = rates.percent_of_time(priority.paused_ns, earlier_pauses.paused_ns);
    let warn = |is_on: bool, text: String| {
        let style = if is_on { Style::new().fg(Color::Yellow) } else { Style::new() };
        Line::styled(text, style).right_aligned()
    };
    let kind = match priority {
        _ if priority.stormed => "storm",
        _ if group.no_drop => "nodrop",
        _ => "",
    };
    let dropped = frames(group.dropped) + frames(group.storm_dropped);
    vec![
        Line::styled(
            format!("{kind} {number}"),
            if priority.stormed { Style::new().fg(Color::Red) } else { Style::new() },
        )
        .right_aligned(),
        right(bits(rates.bps(group.received, earlier.received))),
        right(grouped(total_cells(group))),
        warn(xoff > 0.0, percent(xoff)),
        warn(paused > 0.0, percent(paused)),
        right(grouped(priority.sent_pps)),
        right(grouped(priority.received_pps)),
        red_unless_zero(dropped),
    ]
}

/// Returns the use of a group: its reservation and its part of the pool up to XOFF, and headroom
/// beyond. A lossy group has no mark.
fn group_use(group: &Group) -> Use {
    let up_to_xoff = u64::from(group.reserved_size_cells) + u64::from(group.threshold_cells);
    let headroom = u64::from(group.headroom_size_cells);
    let mark = group.no_drop.then_some(up_to_xoff);
    Use { used: total_cells(group), mark, whole: up_to_xoff + headroom }
}

/// Draws the queues: what waits to be sent, and what was not.
fn draw_queues(frame: &mut Frame, area: Rect, rates: &Rates, (port, before): (&Port, Option<&Port>)) {
    let columns = [
        ("QUEUE", 8),
        ("OUT", 6),
        ("CELLS", 7),
        ("FRAMES", 6),
        ("PAUSED", 6),
        ("MARKS/s", 7),
        ("WRED", 5),
        ("DROPS", 7),
    ];
    let rows = port.queues.iter().enumerate().map(|(number, queue)| {
        let earlier = before.and_then(|port| port.queues.get(number)).unwrap_or(queue);
        (queue_cells(number, rates, queue, earlier), queue_use(queue))
    });
    draw_table(frame, area, &columns, rows.collect());
}

fn queue_cells(number: usize, rates: &Rates, queue: &Queue, earlier: &Queue) -> Vec<Line<'static>> {
    let paused = rates.percent_of_time(queue.paused_ns, earlier.paused_ns);
    let marks = rates.per_second(frames(queue.marked), frames(earlier.marked));
    let wred = queue.wred_dropped.unwrap_or_default();
    let wred = [wred.green, wred.yellow, wred.red].into_iter().map(frames).sum();
    let dropped = frames(queue.dropped) + frames(queue.kernel_lost) + frames(queue.storm_dropped);
    vec![
        right(number.to_string()),
        right(bits(rates.bps(queue.transmitted, earlier.transmitted))),
        right(grouped(queue.level.unwrap_or_default().cells.into())),
        right(grouped(queue.waiting_frames)),
        right(percent(paused)),
        right(if marks == 0 { "-".to_owned() } else { grouped(marks) }),
        red_unless_zero(wred),
        red_unless_zero(dropped),
    ]
}

/// Returns the use of a queue up to its limit.
fn queue_use(queue: &Queue) -> Use {
    let used = queue.level.unwrap_or_default().cells.into();
    Use { used, mark: None, whole: queue.allowed_cells.into() }
}
