"""Filters: what a subscription matches, and how two of them relate. Nothing is started.

python examples/filters.py
"""

from pubweave import make_publication, parse_filter
from pubweave.model.filters.relations import covers, intersects
from pubweave.model.filters.text import format_filter


def main() -> None:
    # The same filter as an expression and as PADRES text; `class` is the topic.
    large = parse_filter("class = 'STOCK' and volume > 1000")
    padres = parse_filter("[class,eq,'STOCK'],[volume,>,1000]")
    print(f"{format_filter(large)}: the same as the PADRES text: {large == padres}")

    for attributes in ({"volume": 2000}, {"volume": 10}, {"symbol": "ACME"}):
        quote = make_publication("shop", 1, "STOCK", attributes, b"", 0.0)
        print(f"  {attributes}: {'matches' if large.matches(quote) else 'does not match'}")

    # A broker forwards a subscription only if no other one covers it.
    larger = parse_filter("class = 'STOCK' and volume > 5000")
    small = parse_filter("class = 'STOCK' and volume < 500")
    print(f"volume > 1000 covers volume > 5000: {covers(large, larger)}")
    print(f"volume > 5000 covers volume > 1000: {covers(larger, large)}")
    print(f"volume > 1000 and volume < 500 have something in common: {intersects(large, small)}")

    prefix = parse_filter("class prefix 'sensor/' and room contains 'attic' and celsius is present")
    reading = make_publication("s1", 1, "sensor/heat", {"room": "attic", "celsius": 30}, b"", 0.0)
    print(f"{format_filter(prefix)}: {prefix.matches(reading)}")


if __name__ == "__main__":
    main()
