"""Says what is wrong with the files of deploy/: one line a fault. Arguments: the folder, the schema of compose files."""

import json
import pathlib
import sys
import warnings

import jsonschema
import yaml

STOP_TOOLS_SECONDS = 10  # What a node gives tools after `--grace`.

folder, schema = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())


class Strict(yaml.SafeLoader):
    """A key that is there twice is a mistake."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            print(f"{node.start_mark}: twice: {sorted(twice)}")
        return super().construct_mapping(node, deep)


def value(arguments, flag):
    return arguments[arguments.index(flag) + 1] if flag in arguments else None


def check_compose():
    compose = yaml.load((folder / "compose.yaml").read_text(), Strict)
    compose.pop("name", None)  # Came into the format after this schema.
    warnings.simplefilter("ignore")
    for fault in jsonschema.validators.validator_for(schema)(schema).iter_errors(compose):
        print(f"compose.yaml: {fault.json_path}: {fault.message}")
    services = compose["services"]
    nodes = {name: service for name, service in services.items() if "serve" in service.get("command", [])}
    if len(nodes) < 2:
        print("compose.yaml: fewer than two nodes")
    for name, service in nodes.items():
        command = service["command"]
        grace, stop = int(value(command, "--grace")), int(service["stop_grace_period"].removesuffix("s"))
        if stop <= grace + STOP_TOOLS_SECONDS:
            print(f"compose.yaml: {name} is killed after {stop} s and may take {grace + STOP_TOOLS_SECONDS} s")
        if value(command, "--advertise") != f"http://{name}:7878":
            print(f"compose.yaml: {name} is not reached at {value(command, '--advertise')}")
        for other in service["depends_on"]:
            if other not in services:
                print(f"compose.yaml: {name} waits for {other}, which is not there")


def check_kubernetes():
    resources = list(yaml.load_all((folder / "kubernetes/annals.yaml").read_text(), Strict))
    of_kind = lambda kind: [resource for resource in resources if resource["kind"] == kind]
    if of_kind("Job"):
        print("annals.yaml: a job of a fixed name cannot be applied again with another image")
    [pod] = [deployment["spec"]["template"]["spec"] for deployment in of_kind("Deployment")]
    [node] = pod["containers"]
    arguments, before = node["args"], int(node["lifecycle"]["preStop"]["exec"]["command"][-1])
    needed = before + int(value(arguments, "--grace")) + STOP_TOOLS_SECONDS
    if pod["terminationGracePeriodSeconds"] <= needed:
        print(f"annals.yaml: a node is killed after {pod['terminationGracePeriodSeconds']} s and may take {needed} s")
    hosts = [rule["host"] for ingress in of_kind("Ingress") for rule in ingress["spec"]["rules"]]
    if value(arguments, "--public-url") not in [f"https://{host}" for host in hosts]:
        print(f"annals.yaml: nodes answer to {value(arguments, '--public-url')} and are asked for {hosts}")
    images = {container["image"] for container in pod["initContainers"] + pod["containers"]}
    if len(images) != 1:
        print(f"annals.yaml: tables and nodes are of different versions: {sorted(images)}")
    known = {variable["name"] for container in pod["initContainers"] + pod["containers"] for variable in container["env"]}
    for argument in arguments:
        name = argument.split("$(")[-1].split(")")[0]
        if "$(" in argument and name not in known:
            print(f"annals.yaml: {argument} is not set")


check_compose()
check_kubernetes()
