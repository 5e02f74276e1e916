import csv
import os
from collections import defaultdict

revenue, by_region = defaultdict(float), defaultdict(float)
with open("turn_demo_1/attachments/sales.csv") as file:
    for row in csv.DictReader(file):
        revenue[row["month"]] += float(row["revenue"])
        by_region[row["region"]] += float(row["revenue"])

out = os.environ["FILES_DIR"]
with open(f"{out}/figures.csv", "w") as file:
    file.write("name,revenue\n")
    for name, amount in [*by_region.items(), ("total", sum(revenue.values()))]:
        file.write(f"{name},{amount:.2f}\n")

WIDTH, HEIGHT, LEFT, BOTTOM = 720, 300, 40, 30
top = max(revenue.values())
best = max(revenue, key=revenue.get)
step = (WIDTH - LEFT) / len(revenue)
bars = []
for at, (month, amount) in enumerate(sorted(revenue.items())):
    height = amount / top * (HEIGHT - BOTTOM - 30)
    x, y = LEFT + at * step, HEIGHT - BOTTOM - height
    colour = "#d9480f" if month == best else "#4c6ef5"
    bars.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{step * 0.7:.0f}" height="{height:.0f}" rx="3" fill="{colour}"/>')
    middle = x + step * 0.35
    bars.append(f'<text x="{middle:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{month[5:]}</text>')
    bars.append(f'<text x="{middle:.0f}" y="{y - 6:.0f}" text-anchor="middle">{amount / 1000:.1f}k</text>')
with open(f"{out}/chart.svg", "w") as file:
    file.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Noto Sans, sans-serif" font-size="12" fill="#343a40">' + "".join(bars) + "</svg>\n"
    )
print(f"best month {best}: {top:.2f}; total {sum(revenue.values()):.2f}")
