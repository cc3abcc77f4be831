// Draws every chart in its place, with its data below, over steps or tokens as is chosen; what was
// folded away had no width to draw in.
const charts = JSON.parse(document.getElementById("charts").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const axis = document.getElementById("axis");
const tokens = JSON.parse(axis?.dataset.tokens ?? "{}");
function turned(chart) {
  const lives = JSON.stringify(chart).includes('"field":"born"');
  if (lives || axis?.value !== "tokens") return chart;
  const x = { field: "tokens", title: "tokens generated", axis: { format: "~s" }, scale: {} };
  return JSON.parse(JSON.stringify(chart, (key, value) => {
    if (key === "x" && value?.field === "step") return { ...value, ...x };
    const holds = Array.isArray(value) && value[0]?.step !== undefined;
    return holds ? value.map((row) => ({ ...row, tokens: tokens[row.step] ?? 0 })) : value;
  }));
}
function offer(place, chart) {
  const [rows] = Object.values(chart.datasets).sort((a, b) => b.length - a.length);
  const names = [...new Set(rows.flatMap(Object.keys))];
  const cell = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
  const lines = rows.map((row) => names.map((name) => cell(row[name])));
  const text = [names.map(cell), ...lines].map((line) => line.join(",") + "\n");
  const link = document.createElement("a");
  link.className = "hint";
  link.textContent = "data (CSV)";
  link.download = place.dataset.chart.replace(/\W+/g, "-") + ".csv";
  link.href = URL.createObjectURL(new Blob(text, { type: "text/csv" }));
  place.after(link);
}
// Names beyond the palette have its colours again, deeper, or paler on a dark page.
function again(colour) {
  const [target, share] = dark.matches ? [255, 0.5] : [0, 0.45];
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const mixed = parts.map((part) => Math.round(part + share * (target - part)));
  return "#" + mixed.map((part) => part.toString(16).padStart(2, "0")).join("");
}
async function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    const chart = charts[place.dataset.chart];
    if (place.nextSibling?.className !== "hint") offer(place, chart);
    await vegaEmbed(place, turned(chart), {
      mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false,
      tooltip: { disableDefaultStyle: true },
      theme: dark.matches ? "dark" : undefined,
      config: {
        background: "transparent", axis: { gridOpacity: 0.35 },
        range: { category: [...PALETTE, ...PALETTE.map(again)] },
        legend: { layout: { bottom: { anchor: "start", direction: "vertical" } } },
        text: { color: dark.matches ? "#e6e9ed" : "#1c2128" },
      },
    });
  }
}
dark.addEventListener("change", draw);
axis?.addEventListener("change", draw);
draw();
document.addEventListener("toggle", () => dispatchEvent(new Event("resize")), true);
