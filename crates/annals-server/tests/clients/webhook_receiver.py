"""Checks signatures of webhooks with the library that receivers use: the secret, then a JSON list of headers and bodies."""

import json
import sys

from standardwebhooks.webhooks import Webhook

for row in json.loads(sys.argv[2]):
    Webhook(sys.argv[1]).verify(row["body"], row["headers"])
