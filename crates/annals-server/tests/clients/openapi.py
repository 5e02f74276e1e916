"""Checks an API document, given on standard input, with the validator that others use."""

import json
import sys

from openapi_spec_validator import OpenAPIV31SpecValidator

document = json.load(sys.stdin)
assert document["openapi"].startswith("3.1"), document["openapi"]
faults = list(OpenAPIV31SpecValidator(document).iter_errors())
for fault in faults[:20]:
    print(list(fault.absolute_path), fault.message, file=sys.stderr)
sys.exit(bool(faults))
