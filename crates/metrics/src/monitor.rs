//! A dashboard of Grafana and alert rules of Prometheus, made from the families of a page. Both are JSON, which is YAML
//! too.

use serde_json::{Map, Value, json};

/// What a panel shows, two in a row.
const PANEL: (u32, u32) = (12, 8);
/// Version of Grafana's schema of dashboards.
const SCHEMA: u32 = 39;

/// A family as its page declares it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FamilyRow {
    /// Its name without the end of its samples.
    pub name: String,
    /// `gauge`, `counter` or `histogram`.
    pub kind: String,
    /// What it means.
    pub help: String,
}

impl FamilyRow {
    /// The families that a page declares, in its order.
    pub fn all(page: &str) -> Vec<FamilyRow> {
        let told = |mark: &'static str| page.lines().filter_map(move |line| line.strip_prefix(mark)?.split_once(' '));
        let help = |name: &str| told("# HELP ").find(|(of, _)| *of == name).map_or("", |(_, help)| help).to_string();
        let row = |(name, kind): (&str, &str)| FamilyRow { name: name.into(), kind: kind.into(), help: help(name) };
        told("# TYPE ").map(row).collect()
    }

    /// What a panel draws of it: a gauge as it is, a counter as a rate, a histogram as its 99th percentile.
    fn query(&self) -> String {
        let name = &self.name;
        match self.kind.as_str() {
            "counter" => format!("rate({name}_total[$__rate_interval])"),
            "histogram" => format!("histogram_quantile(0.99, rate({name}_bucket[$__rate_interval]))"),
            _ => name.clone(),
        }
    }

    /// The unit of what a panel draws, in Grafana's words.
    fn unit(&self) -> &'static str {
        let unit = self.name.rsplit('_').next().unwrap_or_default();
        match (unit, self.kind == "counter") {
            ("seconds", true) => "percentunit",
            ("seconds", false) => "s",
            ("bytes", true) => "Bps",
            ("bytes", false) => "bytes",
            ("joules", true) => "watt",
            (_, true) => "cps",
            _ => "short",
        }
    }
}

/// A dashboard with a panel for each family. It asks for the data source where it is imported.
pub fn dashboard(title: &str, uid: &str, families: &[FamilyRow]) -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let panel = |(at, family): (usize, &FamilyRow)| {
        let (width, height, at) = (PANEL.0, PANEL.1, at as u32);
        json!({
            "id": at + 1,
            "type": "timeseries",
            "title": family.name,
            "description": family.help,
            "datasource": source,
            "gridPos": { "w": width, "h": height, "x": at % 2 * width, "y": at / 2 * height },
            "fieldConfig": { "defaults": { "unit": family.unit() }, "overrides": [] },
            "targets": [{ "refId": "A", "datasource": source, "expr": family.query(), "legendFormat": "__auto" }],
        })
    };
    json!({
        "title": title,
        "uid": uid,
        "schemaVersion": SCHEMA,
        "tags": ["esker"],
        "time": { "from": "now-1h", "to": "now" },
        "refresh": "30s",
        "templating": { "list": [{ "name": "datasource", "type": "datasource", "query": "prometheus" }] },
        "panels": families.iter().enumerate().map(panel).collect::<Vec<_>>(),
    })
}

/// When a family calls for help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// A gauge says yes.
    Yes,
    /// A gauge says no.
    No,
    /// A counter has grown in the last five minutes, or is new and above 0.
    Grows,
}

/// A state that an operator is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alert {
    /// The family.
    pub family: &'static str,
    /// Its state.
    pub when: When,
    /// Minutes for which the state must last.
    pub held: u32,
    /// `critical` or `warning`.
    pub severity: &'static str,
    /// What to do.
    pub advice: &'static str,
}

impl Alert {
    /// The query that finds series in this state.
    fn query(&self) -> String {
        let family = self.family;
        match self.when {
            When::Yes => format!("{family} == 1"),
            When::No => format!("{family} == 0"),
            // A counter may come with its first count: the function sees no growth in that.
            When::Grows => {
                let total = format!("{family}_total");
                format!("increase({total}[5m]) > 0 or ({total} > 0 unless {total} offset 5m)")
            }
        }
    }

    /// The name of its family's samples on a page.
    fn sample(&self) -> String {
        if self.when == When::Grows { format!("{}_total", self.family) } else { self.family.to_string() }
    }

    fn family_of<'a>(&self, families: &'a [FamilyRow]) -> &'a FamilyRow {
        let family = families.iter().find(|family| family.name == self.family);
        family.unwrap_or_else(|| panic!("there is no family {} to alert on", self.family))
    }

    fn annotations(&self, families: &[FamilyRow]) -> Value {
        json!({ "summary": self.family_of(families).help, "description": self.advice })
    }

    /// Its name: the words of the family, each with a capital, and the state.
    fn name(&self) -> String {
        let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
        let words: String = self.family.split('_').map(capital).collect();
        match self.when {
            When::Yes => words,
            When::No => format!("{words}Not"),
            When::Grows => format!("{words}Grow"),
        }
    }
}

/// The alert rules of a group.
///
/// # Panics
/// If an alert names a family that is not there, or whose kind has no such state.
pub fn rules(group: &str, families: &[FamilyRow], alerts: &[Alert]) -> Value {
    let rule = |alert: &Alert| {
        let family = alert.family_of(families);
        assert_eq!(family.kind == "counter", alert.when == When::Grows, "{}: its kind has no such state", family.name);
        json!({
            "alert": alert.name(),
            "expr": alert.query(),
            "for": format!("{}m", alert.held),
            "labels": { "severity": alert.severity },
            "annotations": alert.annotations(families),
        })
    };
    json!({ "groups": [{ "name": group, "rules": alerts.iter().map(rule).collect::<Vec<_>>() }] })
}

/// Minutes of a trial before the trouble, with it, and behind it.
const TRIAL: [u32; 3] = [10, 20, 10];

/// Tests for `promtool test rules` of the rules in a file beside them, one for each alert. Series begin as on the page
/// `sound`, become those of the page `failing`, and are sound again; counters stay. The alert is raised for each series
/// of its family that differs, after the time for which the state must last, and neither before the trouble nor at the
/// end.
///
/// # Panics
/// If no series of an alert differs, or all of several do.
pub fn trials(file: &str, families: &[FamilyRow], alerts: &[Alert], sound: &str, failing: &str) -> Value {
    let trial = |alert: &Alert| {
        let begins = samples(sound, &alert.sample());
        let value = |series: &str| begins.iter().find(|sample| sample.series == series).map_or("_", |one| one.value);
        let rows: Vec<(Reading<'_>, &str)> =
            samples(failing, &alert.sample()).into_iter().map(|one| (one.clone(), value(one.series))).collect();
        let (raised, quiet): (Vec<_>, Vec<_>) = rows.iter().partition(|(reading, before)| reading.value != *before);
        let has_both = !raised.is_empty() && (rows.len() == 1 || !quiet.is_empty());
        assert!(has_both, "{}: the pages need series that differ, and others", alert.family);
        let expected: Vec<Value> = raised.iter().map(|(reading, _)| expected(alert, families, reading)).collect();
        let [before, with, behind] = TRIAL;
        let judged = |minute: u32, alerts: &[Value]| {
            let eval_time = format!("{minute}m");
            json!({ "eval_time": eval_time, "alertname": alert.name(), "exp_alerts": alerts })
        };
        json!({
            "interval": "1m",
            "input_series": rows.iter().map(|(reading, before)| series(alert, reading, before)).collect::<Vec<_>>(),
            "alert_rule_test": [
                judged(before - 1 + alert.held, &[]),
                judged(before + alert.held, &expected),
                judged(before + with + behind - 1, &[]),
            ],
        })
    };
    json!({
        "rule_files": [file],
        "evaluation_interval": "1m",
        "tests": alerts.iter().map(trial).collect::<Vec<_>>(),
    })
}

/// The values of a series, minute by minute.
fn series(alert: &Alert, reading: &Reading<'_>, before: &str) -> Value {
    let last = if alert.when == When::Grows { reading.value } else { before };
    let part = |(value, minutes): (&str, u32)| match value {
        "_" => format!("_x{minutes}"),
        value => format!("{value}+0x{}", minutes - 1),
    };
    let values = [before, reading.value, last].into_iter().zip(TRIAL).map(part).collect::<Vec<_>>().join(" ");
    json!({ "series": reading.series, "values": values })
}

/// What is raised for a series.
fn expected(alert: &Alert, families: &[FamilyRow], reading: &Reading<'_>) -> Value {
    let mut labels = reading.labels();
    labels.insert("severity".to_string(), alert.severity.into());
    json!({ "exp_labels": labels, "exp_annotations": alert.annotations(families) })
}

/// One line of a page.
#[derive(Clone, Debug)]
struct Reading<'a> {
    /// Name and labels.
    series: &'a str,
    value: &'a str,
}

/// The lines of a page with samples of this name.
fn samples<'a>(page: &'a str, name: &str) -> Vec<Reading<'a>> {
    let is_of = |series: &str| series.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
    let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
    lines.filter(|(series, _)| is_of(series)).map(|(series, value)| Reading { series, value }).collect()
}

impl Reading<'_> {
    fn labels(&self) -> Map<String, Value> {
        let mut labels = Map::new();
        let mut rest = self.series.split_once('{').map_or("", |(_, labels)| labels);
        while let Some((name, behind)) = rest.split_once('=') {
            // Values are written as JSON writes texts.
            let mut values = serde_json::Deserializer::from_str(behind).into_iter::<String>();
            let value = values.next().and_then(Result::ok).expect("a page quotes its labels");
            labels.insert(name.trim_start_matches(',').to_string(), value.into());
            rest = &behind[values.byte_offset()..];
        }
        labels
    }
}

/// The queries of a dashboard as rules that record them, so that `promtool check rules` reads them.
pub fn recorded(dashboard: &Value) -> Value {
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let query =
        |panel: &Value| panel["targets"][0]["expr"].as_str().unwrap_or_default().replace("$__rate_interval", "5m");
    let rule = |panel: &Value| json!({ "record": format!("panel:{}", panel["id"]), "expr": query(panel) });
    json!({ "groups": [{ "name": "panels", "rules": panels.map(rule).collect::<Vec<_>>() }] })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP t_up Whether it is.\n# TYPE t_up gauge\nt_up 1\n# HELP t_moved_bytes Bytes.\n\
                        # TYPE t_moved_bytes counter\n# HELP t_took_seconds Time.\n# TYPE t_took_seconds histogram\n";

    const fn alert(family: &'static str, when: When) -> Alert {
        Alert { family, when, held: 1, severity: "warning", advice: "Look." }
    }

    const ALERTS: [Alert; 2] = [alert("t_up", When::No), alert("t_moved_bytes", When::Grows)];

    #[test]
    fn each_family_has_a_panel_with_its_query_and_unit() {
        let board = dashboard("T", "t", &FamilyRow::all(PAGE));
        let told: Vec<_> = board["panels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|panel| {
                let unit = &panel["fieldConfig"]["defaults"]["unit"];
                (
                    panel["targets"][0]["expr"].as_str().unwrap(),
                    unit.as_str().unwrap(),
                    panel["gridPos"]["y"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("t_up", "short", 0),
                ("rate(t_moved_bytes_total[$__rate_interval])", "Bps", 0),
                ("histogram_quantile(0.99, rate(t_took_seconds_bucket[$__rate_interval]))", "s", 8),
            ]
        );
        assert_eq!(recorded(&board)["groups"][0]["rules"][1]["expr"], "rate(t_moved_bytes_total[5m])");
    }

    #[test]
    fn rules_have_a_name_a_query_and_what_to_do() {
        let rules = rules("t", &FamilyRow::all(PAGE), &ALERTS);
        let rules = &rules["groups"][0]["rules"];
        assert_eq!((&rules[0]["alert"], &rules[0]["expr"]), (&json!("TUpNot"), &json!("t_up == 0")));
        let grows =
            "increase(t_moved_bytes_total[5m]) > 0 or (t_moved_bytes_total > 0 unless t_moved_bytes_total offset 5m)";
        assert_eq!((&rules[1]["expr"], &rules[1]["for"]), (&json!(grows), &json!("1m")));
        assert_eq!(rules[0]["annotations"]["summary"], "Whether it is.");
    }

    #[test]
    fn trials_take_their_series_from_two_pages() {
        let sound = "t_up 1\nt_up{of=\"a \\\"b\",c=\"d\"} 1\nt_moved_bytes_total 3\n";
        let failing =
            "t_up 1\nt_up{of=\"a \\\"b\",c=\"d\"} 0\nt_moved_bytes_total{of=\"a\"} 1\nt_moved_bytes_total 3\n";
        let trials = trials("t.json", &FamilyRow::all(PAGE), &ALERTS, sound, failing);
        let [up, moved] = [&trials["tests"][0], &trials["tests"][1]];
        assert_eq!(up["input_series"][1]["values"], "1+0x9 0+0x19 1+0x9");
        let raised = &up["alert_rule_test"][1];
        assert_eq!((&raised["eval_time"], &raised["alertname"]), (&json!("11m"), &json!("TUpNot")));
        let labels = json!({ "of": "a \"b", "c": "d", "severity": "warning" });
        assert_eq!(
            raised["exp_alerts"],
            json!([{ "exp_labels": labels, "exp_annotations": ALERTS[0].annotations(&FamilyRow::all(PAGE)) }])
        );
        assert_eq!(
            moved["input_series"][0],
            json!({ "series": "t_moved_bytes_total{of=\"a\"}", "values": "_x10 1+0x19 1+0x9" })
        );
        assert_eq!(up["alert_rule_test"][0]["exp_alerts"], json!([]));
    }
}
