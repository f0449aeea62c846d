//! A dashboard of Grafana and alert rules of Prometheus, made from the families of a page. Both are JSON, which is YAML
//! too.

use serde_json::{Value, json};

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
            "targets": [{ "refId": "A", "datasource": source, "expr": family.query() }],
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
    /// A counter has grown in the last five minutes.
    Grows,
}

/// A state that an operator is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alert {
    /// The family.
    pub family: &'static str,
    /// Its state.
    pub when: When,
    /// For how long, as Prometheus writes spans.
    pub held: &'static str,
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
            When::Grows => format!("increase({family}_total[5m]) > 0"),
        }
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
        let family = families.iter().find(|family| family.name == alert.family);
        let family = family.unwrap_or_else(|| panic!("there is no family {} to alert on", alert.family));
        assert_eq!(family.kind == "counter", alert.when == When::Grows, "{}: its kind has no such state", family.name);
        json!({
            "alert": alert.name(),
            "expr": alert.query(),
            "for": alert.held,
            "labels": { "severity": alert.severity },
            "annotations": { "summary": family.help, "description": alert.advice },
        })
    };
    json!({ "groups": [{ "name": group, "rules": alerts.iter().map(rule).collect::<Vec<_>>() }] })
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
        let alert = |family, when| Alert { family, when, held: "1m", severity: "warning", advice: "Look." };
        let all = [alert("t_up", When::No), alert("t_moved_bytes", When::Grows)];
        let rules = rules("t", &FamilyRow::all(PAGE), &all);
        let rules = &rules["groups"][0]["rules"];
        assert_eq!((&rules[0]["alert"], &rules[0]["expr"]), (&json!("TUpNot"), &json!("t_up == 0")));
        assert_eq!(rules[1]["expr"], "increase(t_moved_bytes_total[5m]) > 0");
        assert_eq!(rules[0]["annotations"]["summary"], "Whether it is.");
    }
}
