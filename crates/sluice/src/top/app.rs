//! What is shown, and what a key changes of it.

use std::collections::VecDeque;

use control::v1::{Event, Snapshot};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::output::grouped;
use crate::top::bar::{Use, bar};
use crate::top::overview::{self, SortBy};
use crate::top::port_screen;
use crate::top::rates::Rates;
use crate::top::snapshot_source::Update;

/// Events that are kept.
const EVENTS: usize = 100;

/// The whole state of `sluice top`.
pub struct App {
    title: String,
    rates: Rates,
    events: VecDeque<Event>,
    /// Why nothing comes at present.
    interruption: Option<String>,
    /// Name of the chosen port; empty until there is one.
    chosen: String,
    /// The chosen port has the whole screen.
    is_open: bool,
    sort: SortBy,
    is_reversed: bool,
    is_frozen: bool,
    is_explained: bool,
    is_done: bool,
}

impl App {
    /// Makes the state before the first snapshot; `title` names the switch.
    pub fn new(title: String) -> Self {
        Self {
            title,
            rates: Rates::default(),
            events: VecDeque::new(),
            interruption: None,
            chosen: String::new(),
            is_open: false,
            sort: SortBy::Order,
            is_reversed: false,
            is_frozen: false,
            is_explained: false,
            is_done: false,
        }
    }

    /// True once the user has ended it.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Takes what came. While the picture is frozen, snapshots pass by.
    pub fn apply(&mut self, update: Update) {
        match update {
            Update::Snapshot(snapshot) => {
                self.interruption = None;
                if !self.is_frozen {
                    self.take(*snapshot);
                }
            }
            Update::Events(events) => {
                // A daemon that was started again counts from 1.
                self.events.extend(events);
                self.events.drain(..self.events.len().saturating_sub(EVENTS));
            }
            Update::Interrupted(why) => self.interruption = Some(why),
        }
    }

    fn take(&mut self, snapshot: Snapshot) {
        self.rates.push(snapshot);
        if self.rates.port(&self.chosen).is_none() {
            self.is_open = false;
            self.chosen = self.names().into_iter().next().unwrap_or_default();
        }
    }

    /// Applies a key.
    pub fn on_key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if is_interrupt => self.is_done = true,
            KeyCode::Char('q') => self.is_done = true,
            KeyCode::Char('?' | 'h') => self.is_explained = !self.is_explained,
            _ if self.is_explained => self.is_explained = false,
            KeyCode::Esc | KeyCode::Backspace => self.is_open = false,
            KeyCode::Enter => self.is_open = !self.chosen.is_empty(),
            KeyCode::Char(' ') => self.is_frozen = !self.is_frozen,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Down | KeyCode::Right | KeyCode::Char('j') => self.choose(1),
            KeyCode::Up | KeyCode::Left | KeyCode::Char('k') => self.choose(-1),
            KeyCode::Home => self.choose(isize::MIN),
            KeyCode::End => self.choose(isize::MAX),
            _ => {}
        }
    }

    fn choose(&mut self, further: isize) {
        let names = self.names();
        let at = names.iter().position(|name| *name == self.chosen).unwrap_or(0) as isize;
        let to = at.saturating_add(further).clamp(0, names.len().max(1) as isize - 1) as usize;
        self.chosen = names.into_iter().nth(to).unwrap_or_default();
    }

    /// Returns the ports as they are sorted.
    fn names(&self) -> Vec<String> {
        self.sorted().into_iter().map(|row| row.name).collect()
    }

    fn sorted(&self) -> Vec<super::rates::PortRow> {
        overview::sorted(self.rates.rows(), self.sort, self.is_reversed)
    }

    /// Draws everything.
    pub fn draw(&self, frame: &mut Frame) {
        let area = frame.area();
        // Eight groups and eight queues below each other just fit 24 lines.
        let events = if self.is_open && area.height < 30 { 1 } else { (area.height / 6).clamp(1, 12) };
        let parts = [
            Constraint::Length(2),
            Constraint::Fill(1),
            Constraint::Length(events + 1),
            Constraint::Length(1),
        ];
        let [head, main, log, foot] = Layout::vertical(parts).areas(area);
        self.draw_head(frame, head);
        match self.rates.port(&self.chosen).filter(|_| self.is_open) {
            Some((port, before)) => port_screen::draw(frame, main, &self.rates, (port, before)),
            None => {
                let rows = self.sorted();
                overview::draw(frame, main, &self.rates, &rows, (&self.chosen, self.sort, self.is_reversed));
            }
        }
        self.draw_events(frame, log);
        self.draw_keys(frame, foot);
        if self.is_explained {
            explain(frame, area);
        }
    }

    /// Draws the title, and the use of pools and headroom.
    fn draw_head(&self, frame: &mut Frame, area: Rect) {
        let now = self.rates.now();
        let mut title = vec![
            Span::styled(format!(" {} ", self.title), Style::new().bold().reversed()),
            Span::raw(format!(" {} s", grouped(now.at_ns / 1_000_000_000))),
        ];
        if !now.pfc_enabled && !now.ports.is_empty() {
            title.push(Span::styled("  PFC is off", Style::new().fg(Color::Red).bold()));
        }
        let removed = now.removed_ports.as_ref().map_or(0, control::v1::RemovedPorts::lost_frames);
        if removed > 0 {
            let text = format!("  {} lost at removed ports", grouped(removed));
            title.push(Span::styled(text, Style::new().fg(Color::Red).bold()));
        }
        if self.is_frozen {
            title.push(Span::styled("  frozen", Style::new().fg(Color::Cyan).bold()));
        }
        if let Some(why) = &self.interruption {
            title.push(Span::styled(format!("  {why}"), Style::new().fg(Color::Red)));
        }
        let in_use = |pool: &control::v1::Pool| pool.level.unwrap_or_default().cells.into();
        let mut lines = vec![Line::from(title)];
        let ingress = now.ingress_pools.iter().enumerate().filter(|(_, pool)| pool.size_cells > 0);
        let mut pools: Vec<(String, Use)> = ingress
            .map(|(number, pool)| {
                let mark = pool.pause_threshold_cells.map(u64::from);
                (format!("pool {number}"), Use { used: in_use(pool), mark, whole: pool.size_cells.into() })
            })
            .collect();
        if let Some(pool) = &now.headroom {
            pools.push((
                "headroom".to_owned(),
                Use { used: in_use(pool), mark: None, whole: pool.size_cells.into() },
            ));
        }
        let each = usize::from(area.width) / pools.len().clamp(1, 4);
        let mut bars = Vec::new();
        for (name, of) in pools.into_iter().take(4) {
            let label = format!(" {name} {}/{} ", grouped(of.used), grouped(of.whole));
            let width = each.saturating_sub(label.chars().count() + 1);
            bars.push(Span::raw(label));
            bars.extend(if width < 4 { Vec::new() } else { bar(width.min(40), of) });
        }
        lines.push(Line::from(bars));
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// Draws the last events, the latest at the bottom.
    fn draw_events(&self, frame: &mut Frame, area: Rect) {
        let block = Block::new().borders(ratatui::widgets::Borders::TOP).title(" events ").dim();
        let most = usize::from(area.height.saturating_sub(1));
        let shown = self.events.iter().skip(self.events.len().saturating_sub(most)).map(|event| {
            let color = match event.severity.as_str() {
                "error" => Color::Red,
                "warning" => Color::Yellow,
                _ => Color::Reset,
            };
            let prefix = event.port.as_ref().map_or(String::new(), |port| format!("{port}: "));
            let seconds = event.at_ns as f64 / 1e9;
            Line::styled(format!("{seconds:11.6} s  {prefix}{}", event.message), Style::new().fg(color))
        });
        let lines: Vec<Line> = shown.collect();
        let inner = block.inner(area);
        frame.render_widget(block, area);
        frame.render_widget(Paragraph::new(lines), inner);
    }

    fn draw_keys(&self, frame: &mut Frame, area: Rect) {
        let keys: &[(&str, &str)] = if self.is_open {
            &[
                ("esc", "all ports"),
                ("←→", "other port"),
                ("space", "freeze"),
                ("?", "explain"),
                ("q", "quit"),
            ]
        } else {
            &[
                ("↑↓", "choose"),
                ("enter", "open"),
                ("s", "sort"),
                ("r", "reverse"),
                ("space", "freeze"),
                ("?", "explain"),
                ("q", "quit"),
            ]
        };
        let spans = keys.iter().flat_map(|(key, does)| {
            [Span::styled(key.to_string(), Style::new().reversed()), Span::raw(format!(" {does}  "))]
        });
        frame.render_widget(Line::from(spans.collect::<Vec<_>>()), area);
    }
}

/// Draws the meaning of the columns over the screen.
fn explain(frame: &mut Frame, area: Rect) {
    let text = "\
IN, OUT    data frames received and sent, bit/s without FCS
USE        part of the port's speed that frames and their gaps take
CELLS      cells that the port's groups hold (frames received here)
QUEUED     cells that its queues hold (frames to send here)
XOFF       part of the time that we paused the peer, worst priority
PAUSED     part of the time that the peer paused us, worst priority
DROPS/s    frames dropped here a second, at input and output
LOST       no-drop frames lost since the start, and frames of any
           priority that the kernel lost on receipt
Bars: cells in use of what a pool, group or queue may have. The mark is
the XOFF threshold; what is beyond it is in headroom, and red.
Rates and times are of the last interval (--interval).";
    let height = text.lines().count() as u16 + 2;
    let width = 70.min(area.width);
    let at = Rect {
        x: (area.width - width) / 2,
        y: area.height.saturating_sub(height) / 2,
        width,
        height: height.min(area.height),
    };
    frame.render_widget(Clear, at);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" columns; any key closes ")), at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn event(at_ns: u64, severity: &str, port: Option<&str>, message: &str) -> Event {
        let (severity, port) = (severity.to_owned(), port.map(str::to_owned));
        Event { at_ns, severity, port, message: message.to_owned(), ..Event::default() }
    }

    /// The invented switch after two snapshots and two events.
    fn running() -> App {
        let mut app = App::new("rack1".to_owned());
        app.apply(Update::Snapshot(Box::new(show_fixture::snapshot())));
        app.apply(Update::Snapshot(Box::new(show_fixture::later())));
        app.apply(Update::Events(vec![
            event(1_500_000_000, "info", None, "reload: nothing changed"),
            event(11_900_000_000, "error", Some("server1"), "12 frames of no-drop priority 3 are lost"),
        ]));
        app
    }

    fn press(app: &mut App, keys: &[KeyCode]) {
        keys.iter().for_each(|&key| app.on_key(KeyEvent::from(key)));
    }

    fn screen(app: &App, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| app.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn ports_in_80_columns() {
        insta::assert_snapshot!(screen(&running(), 80, 24));
    }

    #[test]
    fn ports_in_200_columns() {
        insta::assert_snapshot!(screen(&running(), 200, 30));
    }

    #[test]
    fn one_port_in_80_columns_and_in_200() {
        let mut app = running();
        press(&mut app, &[KeyCode::Enter]);
        insta::assert_snapshot!("one_port_in_80_columns", screen(&app, 80, 24));
        insta::assert_snapshot!("one_port_in_200_columns", screen(&app, 200, 30));
    }

    #[test]
    fn keys_choose_sort_open_and_end() {
        let mut app = running();
        let names = |app: &App| app.names();
        assert_eq!(
            (names(&app).join(" "), app.chosen.as_str()),
            ("server1 uplink spare".to_owned(), "server1")
        );
        press(&mut app, &[KeyCode::Down, KeyCode::Down, KeyCode::Down]);
        assert_eq!(app.chosen, "spare", "the last one");
        press(&mut app, &[KeyCode::Home, KeyCode::Char('s'), KeyCode::Char('s')]);
        assert_eq!((app.sort, names(&app)[0].as_str()), (SortBy::Out, "uplink"));
        press(&mut app, &[KeyCode::Char('r')]);
        assert_eq!(names(&app).last().unwrap(), "uplink");
        press(&mut app, &[KeyCode::End, KeyCode::Enter]);
        assert!(app.is_open && app.chosen == "uplink");
        press(&mut app, &[KeyCode::Char('?'), KeyCode::Esc]);
        assert!(app.is_open && !app.is_explained, "the explanation is closed first");
        press(&mut app, &[KeyCode::Esc]);
        assert!(!app.is_open && !app.is_done());
        app.on_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(app.is_done());
    }

    #[test]
    fn a_frozen_picture_stays() {
        let mut app = App::new("rack1".to_owned());
        app.apply(Update::Snapshot(Box::new(show_fixture::snapshot())));
        press(&mut app, &[KeyCode::Char(' ')]);
        app.apply(Update::Snapshot(Box::new(show_fixture::later())));
        assert_eq!(app.rates.now().at_ns, show_fixture::snapshot().at_ns);
        assert!(screen(&app, 80, 24).contains("frozen"));
        press(&mut app, &[KeyCode::Char(' ')]);
        app.apply(Update::Snapshot(Box::new(show_fixture::later())));
        assert_eq!(app.rates.elapsed_ns(), 2_000_000_000);
    }

    /// A port that was removed has no line any more; what it lost is not forgotten.
    #[test]
    fn losses_of_removed_ports_are_shown() {
        let mut app = running();
        assert!(!screen(&app, 80, 24).contains("removed"));
        let mut now = show_fixture::later();
        let removed = control::v1::RemovedPorts {
            no_drop_lost_frames: 1200,
            kernel_dropped_frames: 34,
            ..Default::default()
        };
        now.removed_ports = Some(removed);
        app.apply(Update::Snapshot(Box::new(now)));
        assert!(screen(&app, 80, 24).contains("1,234 lost at removed ports"));
    }

    /// The daemon ends and starts again: its counts begin at 0, and so does its clock.
    #[test]
    fn a_daemon_that_starts_again_has_no_negative_rates() {
        let mut app = running();
        app.apply(Update::Interrupted("the daemon has ended".to_owned()));
        assert!(screen(&app, 80, 24).contains("the daemon has ended"));
        let mut fresh = show_fixture::snapshot();
        fresh.at_ns = 1_000_000_000;
        fresh.ports.remove(0);
        app.apply(Update::Snapshot(Box::new(fresh)));
        assert!(!screen(&app, 80, 24).contains("ended"));
        assert_eq!((app.rates.elapsed_ns(), app.chosen.as_str()), (0, "uplink"), "the chosen port is gone");
        assert!(app.rates.rows().iter().all(|row| row.transmitted_bps == 0));
    }

    #[test]
    fn any_size_is_drawn() {
        let mut app = running();
        for (width, height) in [(1, 1), (10, 3), (40, 10), (79, 23), (500, 200)] {
            for key in [KeyCode::Enter, KeyCode::Char('?'), KeyCode::Char('?'), KeyCode::Esc] {
                press(&mut app, &[key]);
                screen(&app, width, height);
            }
        }
        screen(&App::new(String::new()), 80, 24);
    }
}
