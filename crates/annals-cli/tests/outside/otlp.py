"""Reads an OTLP/JSON request as OpenTelemetry's own messages and prints one line a span.

OTLP's JSON differs from protobuf's usual mapping in one point: ids are hexadecimal, not base64.
"""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ID_BYTES = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def with_base64_ids(value):
    if isinstance(value, list):
        return [with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {}
    for key, item in value.items():
        if key in ID_BYTES:
            raw = bytes.fromhex(item)
            assert len(raw) == ID_BYTES[key] and any(raw), f"{key} {item}"
            changed[key] = base64.b64encode(raw).decode()
        else:
            changed[key] = with_base64_ids(item)
    return changed


request = json_format.ParseDict(with_base64_ids(json.load(sys.stdin)), ExportTraceServiceRequest())
spans = [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]
names = {span.span_id: span.name for span in spans}
assert len(names) == len(spans), "two spans share an id"
for span in spans:
    assert span.start_time_unix_nano <= span.end_time_unix_nano, span.name
    attributes = {
        pair.key: pair.value.string_value if pair.value.HasField("string_value") else pair.value.int_value
        for pair in span.attributes
    }
    print(
        json.dumps(
            {
                "trace": span.trace_id.hex(),
                "name": span.name,
                "parent": names.get(span.parent_span_id),
                "kind": span.kind,
                "status": span.status.code,
                "events": [event.name for event in span.events],
                "attributes": attributes,
            }
        )
    )
