//! The examples for containerlab and Kubernetes: they are YAML, their switches are valid, their
//! names fit together, their commands are commands of Sluice, and their capabilities those of the
//! unit.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the documents of a YAML file.
fn documents(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    documents
        .map(|it| serde::Deserialize::deserialize(it).unwrap_or_else(|e| panic!("{file}: {e}")))
        .collect()
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|it| it.as_str().unwrap()).collect()
}

/// Returns the interfaces of a configuration, which must be valid and warn of nothing.
fn interfaces(text: &str) -> BTreeSet<String> {
    let config = config::parse_for_daemon("sluice.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(config.warnings.list().is_empty(), "{}", config.warnings);
    config.interfaces.into_iter().collect()
}

/// Checks that the options of a command exist: it fails for another reason, or not at all.
fn is_command(words: &[&str]) {
    assert_eq!(words[0], "sluice");
    let words: Vec<&str> =
        words[1..].iter().map(|word| if *word == "net1" { "no-such-if" } else { word }).collect();
    let output =
        Command::new(env!("CARGO_BIN_EXE_sluice")).args(&words).env("SLUICE_SOCKET", "/nowhere").output();
    let error = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(!error.starts_with("error:"), "{words:?}: {error}");
}

/// Returns the capabilities that the unit of systemd gives the daemon.
fn of_unit() -> Vec<String> {
    let unit = std::fs::read_to_string(root().join("packaging/sluiced.service")).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).unwrap();
    line.split(' ').map(|name| name.trim_start_matches("CAP_").to_owned()).collect()
}

/// `cargo xtask dist --check` builds the image and runs it; here is what needs no podman.
#[test]
fn containerfile() {
    let recipe = std::fs::read_to_string(root().join("packaging/Containerfile")).unwrap();
    let (_, capabilities) = recipe.split_once("--cap-add=").unwrap();
    let capabilities = capabilities.split_whitespace().next().unwrap();
    assert_eq!(capabilities, of_unit().join(","), "the command that it names");
    assert!(recipe.contains("ENTRYPOINT [\"/usr/sbin/sluiced\"]"), "{recipe}");
    assert!(recipe.contains("CMD [\"--config\", \"/etc/sluice/sluice.toml\"]"), "{recipe}");
}

#[test]
fn containerlab() {
    let all = documents("examples/containerlab/sluice.clab.yml");
    let topology = &all[0]["topology"];
    let nodes = topology["nodes"].as_object().unwrap();
    assert!(nodes.values().all(|node| node["kind"] == "linux"));
    let bind = topology["nodes"]["sw"]["binds"][0].as_str().unwrap();
    let (file, target) = bind.split_once(':').unwrap();
    assert_eq!(target, "/etc/sluice/sluice.toml:ro", "where the image's command looks for it");
    let text = std::fs::read_to_string(root().join("examples/containerlab").join(file)).unwrap();
    let mut at_switch = BTreeSet::new();
    for link in topology["links"].as_array().unwrap() {
        for end in strings(&link["endpoints"]) {
            let (node, interface) = end.split_once(':').unwrap();
            assert!(nodes.contains_key(node) && interface != "eth0", "{end}");
            if node == "sw" {
                assert!(at_switch.insert(interface.to_owned()), "{end} twice");
            }
        }
    }
    assert_eq!(at_switch, interfaces(&text));
}

#[test]
fn kubernetes() {
    let all = documents("examples/kubernetes/sluice.yaml");
    let of = |kind: &str| all.iter().filter(|it| it["kind"] == kind).cloned().collect::<Vec<Value>>();
    let ports = interfaces(of("ConfigMap")[0]["data"]["sluice.toml"].as_str().unwrap());
    let pod = &of("DaemonSet")[0]["spec"]["template"]["spec"];
    let script = strings(&pod["initContainers"][0]["command"])[2];
    let names = script.lines().next().unwrap().trim_start_matches("for port in ").trim_end_matches("; do");
    let made: Vec<&str> = names.split(' ').collect();
    assert_eq!(ports, made.iter().map(|name| format!("sluice-{name}")).collect());
    let mut networks = BTreeSet::new();
    for attachment in of("NetworkAttachmentDefinition") {
        let plugin: Value = serde_json::from_str(attachment["spec"]["config"].as_str().unwrap()).unwrap();
        let device = plugin["device"].as_str().unwrap().strip_prefix("pod-").unwrap();
        assert!(made.contains(&device) && plugin["type"] == "host-device", "{plugin}");
        networks.insert(attachment["metadata"]["name"].as_str().unwrap().to_owned());
    }
    let daemon = &pod["containers"][0];
    assert_eq!(daemon["args"][0], "--config");
    is_command(&strings(&daemon["readinessProbe"]["exec"]["command"]));

    assert_eq!(strings(&daemon["securityContext"]["capabilities"]["add"]), of_unit());

    let pods = documents("examples/kubernetes/pods.yaml");
    let affinity =
        &pods[1]["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(
        affinity["topologyKey"], "kubernetes.io/hostname",
        "the sender is on the node of the receiver"
    );
    let label = &affinity["labelSelector"]["matchExpressions"][0]["values"][0];
    assert!(label.is_string() && *label == pods[0]["metadata"]["labels"]["app"], "{label}");
    for pod in pods {
        let wanted = pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].as_str().unwrap();
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        assert!(networks.contains(wanted[0]["name"].as_str().unwrap()), "{wanted}");
        let mut words = strings(&pod["spec"]["containers"][0]["command"]);
        assert!(words.contains(&wanted[0]["interface"].as_str().unwrap()));
        words.push("--json");
        is_command(&words);
    }
}
