"""Reads figures, given on standard input, with the parser of Prometheus' own client library, and says what it found."""

import json
import sys

from prometheus_client.parser import text_string_to_metric_families

found = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    samples = [[sample.name, sample.labels, sample.value] for sample in family.samples]
    found[family.name] = {"type": family.type, "samples": samples}
    if family.type == "histogram":
        series = {}
        for name, labels, value in samples:
            key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
            series.setdefault(key, {})[(name.removeprefix(family.name), labels.get("le"))] = value
        for values in series.values():
            buckets = [value for (kind, _), value in values.items() if kind == "_bucket"]
            assert buckets == sorted(buckets), buckets
            assert values[("_bucket", "+Inf")] == values[("_count", None)], values
            assert values[("_sum", None)] >= 0, values
print(json.dumps(found))
