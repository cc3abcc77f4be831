// Draws every chart in its place, and again when the reader turns to dark or back.
const { charts, themes } = JSON.parse(document.getElementById("charts").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");

async function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    await vegaEmbed(place, charts[place.dataset.chart], {
      mode: "vega-lite",
      ast: true, // expressions are interpreted: the policy forbids to make code from text
      actions: false,
      logLevel: 1,
      renderer: "svg",
      config: themes[dark.matches ? "dark" : "light"],
      defaultStyle: false,
      tooltip: { disableDefaultStyle: true },
    });
  }
}

dark.addEventListener("change", draw);
draw();
// What was folded away had no width to draw in.
document.addEventListener("toggle", () => dispatchEvent(new Event("resize")), true);
