"""Prints the prices and windows that genai-prices has of two vendors, as JSON by model."""
import json

from genai_prices.data import providers
from genai_prices.types import ModelPrice, TieredPrices

RATES = {
    "input": "input_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "output": "output_mtok",
}


def nanousd(per_million):
    return round(float(per_million) * 1_000)


def rates(price):
    base, long = {}, {}
    for name, field in RATES.items():
        value = getattr(price, field, None)
        if value is None:
            continue
        if isinstance(value, TieredPrices):
            base[name] = nanousd(value.base)
            long[name] = nanousd(value.tiers[-1].price)
            long["over_tokens"] = value.tiers[-1].start
        else:
            base[name] = nanousd(value)
    return base | ({"long": long} if long else {})


def newest(prices):
    return prices if isinstance(prices, ModelPrice) else prices[-1].prices


table = {
    model.id.removesuffix("-latest"): rates(newest(model.prices)) | {"context": model.context_window}
    for provider in providers
    if provider.id in ("anthropic", "openai")
    for model in provider.models
}
print(json.dumps(table))
