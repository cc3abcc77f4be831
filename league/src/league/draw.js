const charts = JSON.parse(document.getElementById("charts").textContent);
const palette = PALETTE;
const dark = matchMedia("(prefers-color-scheme: dark)");
async function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    await vegaEmbed(place, charts[place.dataset.chart], {
      mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false,
      tooltip: { disableDefaultStyle: true }, theme: dark.matches ? "dark" : undefined,
      config: { background: "transparent", axis: { gridOpacity: 0.35 },
        range: { category: palette }, mark: { color: palette[0] } },
    });
  }
}
dark.addEventListener("change", draw);
draw();
