// each chart is drawn over its own still picture, which stays where anything fails
for (const spec of document.querySelectorAll("figure > script.spec")) {
  const chart = spec.parentElement.querySelector(".chart");
  const picture = chart.querySelector("img");
  const live = document.createElement("div");
  live.setAttribute("role", "img");
  live.setAttribute("aria-label", picture.alt);
  vegaEmbed(live, JSON.parse(spec.textContent), { actions: false, renderer: "svg", mode: "vega-lite" })
    .then(() => chart.replaceChild(live, picture))
    .catch(() => live.remove());
}
